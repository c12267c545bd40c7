// The histogram of a digest takes memory by the buckets that it uses, and still counts each statement exactly once, in one epoch.
//
// Contract. Threads count times of digests in any bucket, so that blocks are made all the time, while others truncate the histograms, or
// the digests, and read. A count that ended before the last TRUNCATE was called is gone; one that began after it returned is shown, in
// its own bucket of its own digest; one that overlaps it may be either. A digest that is new has no count and no text of an earlier one.
//
// How it is checked. Every thread logs digest and bucket of its counts, with begin and end by a clock that all cores share. At rest each
// bucket must lie between the counts that surely remain and those that may. digest_histograms_broken is this file with a library in which
// a statement follows the lists of its digest without looking at their generation (see CMakeLists.txt): it counts for other digests.
#include <algorithm>
#include <map>

#include "live.h"
#include "record/engine/runtime.h"
#include "record/family/digest_histograms.h"

namespace perfschema {
namespace {

constexpr std::string_view kHistogram = "events_statements_histogram_by_digest", kSummary = "events_statements_summary_by_digest";

pfs_key_t StatementKey() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_statement_info_t info[] = {{&made, "sparse", 0, nullptr}};
    EXPECT_EQ(pfs_register_statement("live", info, 1), PFS_OK) << pfs_last_error();
    return made;
  }();
  return key;
}

void RunStatement(const std::string& text, const std::string& schema = {}) {
  pfs_statement_t statement;
  pfs_statement_begin(&statement, StatementKey());
  if (!schema.empty()) pfs_statement_set_schema(&statement, schema.c_str());
  pfs_statement_set_text(&statement, text.data(), text.size());
  pfs_statement_end(&statement);
}

uint64_t Blocks() { return g_runtime.segment.array(ArrayId::kHistogramBlocks).used.load() - 1; }
uint32_t Generation() { return g_runtime.header->digest_histogram_generation.load(kAcquire); }

constexpr uint32_t kDigests = 3;
using Shown = std::vector<std::vector<uint64_t>>;  // by digest, in the order of the elements, and by bucket

Shown ReadAll() {
  const Frame frame(kHistogram, {"BUCKET_NUMBER", "COUNT_BUCKET"});
  Shown shown;
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (i % kHistogramBuckets == 0) shown.emplace_back(kHistogramBuckets, 0);
    shown.back()[frame.number(i, 0)] = frame.number(i, 1);
  }
  return shown;
}

// Leaves kDigests digests without a count. Returns them.
std::vector<ShmDigest*> FreshDigests() {
  Truncate(kSummary);
  std::vector<ShmDigest*> digests;
  for (uint32_t i = 0; i < kDigests; ++i) {
    RunStatement("SELECT a FROM t" + std::to_string(i));
    digests.push_back(g_runtime.segment.element<ShmDigest>(ArrayId::kDigests, 2 + i));
  }
  Truncate(kHistogram);
  return digests;
}

TEST(DigestHistograms, of_one_thread_are_exact_and_take_the_blocks_that_they_need) {
  const std::vector<ShmDigest*> digests = FreshDigests();
  const uint64_t before = Blocks();
  for (const int round : {1, 2}) {
    for (uint32_t i = 0; i < kDigests; ++i) CountInDigestHistogram(*digests[i], Generation(), 100 + i);
    EXPECT_LE(Blocks(), std::max<uint64_t>(before, 3)) << round;  // those that the statements above had
    Truncate(kHistogram);
  }
  for (uint32_t bucket = 0; bucket < kHistogramBuckets; ++bucket) {
    for (uint32_t n = 0; n <= bucket % 3; ++n) CountInDigestHistogram(*digests[1], Generation(), bucket);
  }
  EXPECT_EQ(Blocks(), kBucketGroups);
  Shown shown = ReadAll();
  ASSERT_EQ(shown.size(), kDigests);
  for (uint32_t bucket = 0; bucket < kHistogramBuckets; ++bucket) {
    EXPECT_EQ(shown[1][bucket], bucket % 3 + 1);
    EXPECT_EQ(shown[0][bucket] + shown[2][bucket], 0u);
  }
  Truncate(kHistogram);
  CountInDigestHistogram(*digests[0], Generation(), 449);
  shown = ReadAll();
  EXPECT_EQ(shown[0][449], 1u);
  EXPECT_EQ(std::count(shown[1].begin(), shown[1].end(), 0u), static_cast<int>(kHistogramBuckets));
  EXPECT_EQ(Blocks(), kBucketGroups);  // the old ones again
}

TEST(DigestHistograms, a_count_of_an_old_epoch_is_no_count) {
  const std::vector<ShmDigest*> digests = FreshDigests();
  const uint32_t old = Generation();
  Truncate(kHistogram);
  CountInDigestHistogram(*digests[0], Generation(), 7);
  CountInDigestHistogram(*digests[0], old, 7);
  CountInDigestHistogram(*digests[1], old, 8);
  const Shown shown = ReadAll();
  EXPECT_EQ(shown[0][7], 1u);
  EXPECT_EQ(shown[1][8], 0u);
}

struct Count {
  uint64_t begin, end;
  uint32_t digest, bucket;
};
struct Span {
  uint64_t begin, end;
};

TEST(DigestHistograms, each_count_is_of_one_epoch_with_concurrent_truncates) {
  constexpr uint32_t kThreads = 3, kCounts = 1000;
  const uint64_t stop_at = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  std::mt19937_64 random(Seed());
  uint64_t wrong = 0, rounds = 0, truncates = 0, sure = 0, readings = 0;
  for (; NowNanos() < stop_at || rounds == 0; ++rounds) {
    const std::vector<ShmDigest*> digests = FreshDigests();
    std::vector<Count> logs[kThreads];
    std::atomic<uint32_t> running{kThreads};
    std::atomic<bool> reads{true};
    Span last{0, 0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, seed = random()] {
        std::mt19937 own(static_cast<uint32_t>(seed));
        (void)CurrentThread();
        logs[t].reserve(kCounts);
        for (uint32_t i = 0; i < kCounts; ++i) {
          Count count{0, 0, static_cast<uint32_t>(own() % kDigests), static_cast<uint32_t>(own() % kHistogramBuckets)};
          count.begin = NowNanos();
          const uint32_t generation = Generation();
          if (own() % 8 == 0) std::this_thread::yield();  // a TRUNCATE may come between
          CountInDigestHistogram(*digests[count.digest], generation, count.bucket);
          count.end = NowNanos();
          logs[t].push_back(count);
        }
        running.fetch_sub(1);
      });
    }
    threads.emplace_back([&] {
      while (reads.load()) {
        const Shown shown = ReadAll();
        for (const auto& digest : shown)
          wrong += std::count_if(digest.begin(), digest.end(), [](uint64_t n) { return n > kThreads * kCounts; });
        ++readings;
      }
    });
    const uint64_t most = random() % 200;  // then the counts go on without a TRUNCATE
    for (uint64_t n = 0; n < most && running.load() != 0; ++n) {
      last.begin = NowNanos();
      Truncate(kHistogram);
      last.end = NowNanos();
      ++truncates;
      for (uint32_t spins = random() % 50'000; spins > 0; --spins) std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    reads.store(false);
    for (std::thread& thread : threads) thread.join();
    std::vector<std::vector<Span>> bounds(kDigests, std::vector<Span>(kHistogramBuckets));  // the least and the most counts
    for (const auto& log : logs) {
      for (const Count& count : log) {
        Span& bound = bounds[count.digest][count.bucket];
        bound.begin += count.begin > last.end;
        bound.end += count.end >= last.begin;
        sure += count.begin > last.end;
      }
    }
    const Shown shown = ReadAll();
    ASSERT_EQ(shown.size(), kDigests);
    for (uint32_t d = 0; d < kDigests; ++d) {
      for (uint32_t b = 0; b < kHistogramBuckets; ++b) wrong += shown[d][b] < bounds[d][b].begin || shown[d][b] > bounds[d][b].end;
    }
    EXPECT_LE(Blocks(), kDigests * kBucketGroups);
  }
  std::printf("%llu rounds, %llu truncates, %llu readings, %llu counts after the last truncate of a round; wrong numbers: %llu\n",
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(truncates),
              static_cast<unsigned long long>(readings), static_cast<unsigned long long>(sure), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
}

// Texts of many lengths come and go, so that new digests get the places of old texts while threads still write samples there.
TEST(DigestHistograms, texts_and_counts_are_those_of_the_digest_with_concurrent_truncates) {
  constexpr uint32_t kTexts = 40;
  const uint64_t stop_at = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()) / 2;
  const auto text_of = [](uint32_t i, uint32_t literal) {
    return "SELECT c" + std::to_string(i) + std::string(1 + i * 3, 'x') + " FROM t WHERE s = '" + std::string(literal, 'v') + "'";
  };
  Truncate(kSummary);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> ran{0};
  std::vector<std::thread> threads;
  std::mt19937_64 random(Seed());
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, seed = random()] {
      std::mt19937 own(static_cast<uint32_t>(seed));
      while (!stop.load()) {
        const auto number = static_cast<uint32_t>(own() % kTexts);
        RunStatement(text_of(number, static_cast<uint32_t>(own() % 300)), "schema" + std::to_string(number % 5));
        ran.fetch_add(1);
      }
    });
  }
  uint64_t wrong = 0, rows = 0, truncates = 0;
  const auto check = [&](bool rests) {
    const Frame frame(kSummary, {"SCHEMA_NAME", "DIGEST_TEXT", "QUERY_SAMPLE_TEXT", "COUNT_STAR"});
    const Shown histograms = rests ? ReadAll() : Shown();
    for (size_t i = 0; i < frame.rows(); ++i) {
      const std::string shown(frame.text(i, 1));
      const size_t name = shown.find("`c");
      if (name == std::string::npos) {  // a torn text would have no name
        ++wrong;
        continue;
      }
      const auto number = static_cast<uint32_t>(std::strtoul(shown.c_str() + name + 2, nullptr, 10));
      const std::string column = "c" + std::to_string(number) + std::string(1 + number * 3, 'x');
      wrong += shown.find("`" + column + "`") == std::string::npos || frame.text(i, 0) != "schema" + std::to_string(number % 5);
      const std::string_view sample = frame.text(i, 2);
      wrong += !sample.empty() && (sample.find("SELECT " + column + " FROM t WHERE s = '") != 0 || sample.back() != '\'');
      if (rests) {
        uint64_t sum = 0;
        for (const uint64_t count : histograms[i]) sum += count;
        wrong += sum != frame.number(i, 3);
      }
      ++rows;
    }
  };
  while (NowNanos() < stop_at) {
    check(false);
    Truncate(kSummary);
    ++truncates;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  check(true);
  std::printf("%llu statements, %llu truncates, %llu rows; wrong rows: %llu\n", static_cast<unsigned long long>(ran.load()),
              static_cast<unsigned long long>(truncates), static_cast<unsigned long long>(rows), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(rows, 0u);
}

}  // namespace
}  // namespace perfschema
