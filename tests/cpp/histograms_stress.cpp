// A statement is counted exactly once, in exactly one epoch of the histogram of all statements, and of its digest's.
//
// Contract. Threads run statements, more of them than the histogram has parts, or few. Others truncate and read. At
// rest the histogram of all statements has as many counts as statements have ended since the last TRUNCATE. A statement
// that ended before a TRUNCATE was called counts in no later epoch; one that began after it returned, in no earlier
// one; one that overlaps it, in one of both. A reading shows one epoch only.
//
// How it is checked. Every thread logs when each of its statements began and ended (by a clock that all cores share),
// the truncater its calls and returns. The words of the segment keep the generation of their count. So
// each_count_is_of_one_epoch counts in each word at most once between two looks at all words, and finds the epoch of
// every single count there. Two things show that the checks can fail: histograms_broken, which is this file with a
// library that adds without compare-exchange (see CMakeLists.txt), and the_epochs_* below.
#include <algorithm>

#include "live.h"
#include "record/engine/runtime.h"
#include "record/family/histograms.h"

namespace perfschema {
namespace {

constexpr std::string_view kGlobal = "events_statements_histogram_global", kByDigest = "events_statements_histogram_by_digest";

pfs_key_t StatementKey() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_statement_info_t info[] = {{&made, "histogram", 0, nullptr}};
    EXPECT_EQ(pfs_register_statement("live", info, 1), PFS_OK) << pfs_last_error();
    return made;
  }();
  return key;
}

void RunStatement(bool has_text = true) {
  static constexpr std::string_view kText = "SELECT 1";
  pfs_statement_t statement;
  pfs_statement_begin(&statement, StatementKey());
  if (has_text) pfs_statement_set_text(&statement, kText.data(), kText.size());
  pfs_statement_end(&statement);
}

// Returns the sum of the buckets.
uint64_t Shown(std::string_view table) {
  const Frame frame(table, {"COUNT_BUCKET"});
  uint64_t sum = 0;
  for (size_t i = 0; i < frame.rows(); ++i) sum += frame.number(i, 0);
  return sum;
}

TEST(Histograms, of_one_thread_are_exact) {
  for (int i = 0; i < 5; ++i) RunStatement();
  for (const std::string_view table : {kGlobal, kByDigest}) {
    Truncate(table);
    EXPECT_EQ(Shown(table), 0u);
  }
  for (int i = 0; i < 7; ++i) RunStatement(i < 3);
  EXPECT_EQ(Shown(kGlobal), 7u);
  EXPECT_EQ(Shown(kByDigest), 3u);
}

// More threads than parts, so two share the second one. All live at the same time: each has a slot of its own. Those two run most
// statements, most of them without a text: so they meet in the part much more often than in the digest.
TEST(Histograms, of_more_concurrent_threads_than_parts_are_exact) {
  constexpr uint32_t kThreads = kHistogramParts + 40;
  Truncate(kGlobal);
  Truncate(kByDigest);
  const uint64_t duration = 1'000'000 * static_cast<uint64_t>(StressTime().count()) / 3;
  std::atomic<uint64_t> ran{0}, with_text{0}, sharing{0};
  Meeting meeting(kThreads + 1);
  // Not the header's part: the thread of the tests may have that.
  const auto* const shared = g_runtime.segment.element<ShmHistogramPart>(ArrayId::kHistograms, 1);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      RunStatement();  // chooses a part
      uint64_t own = 1, own_with_text = 1;
      const bool is_sharing = CurrentThread()->histogram == &shared->buckets;
      sharing.fetch_add(is_sharing);
      meeting.Wait();
      const uint64_t end = NowNanos() + (is_sharing ? duration : 0);
      for (int i = 0; i % 64 != 0 || i == 0 || NowNanos() < end; ++i) {
        RunStatement(i % 16 == 0);
        ++own;
        own_with_text += i % 16 == 0;
      }
      ran.fetch_add(own);
      with_text.fetch_add(own_with_text);
      meeting.Wait();
      meeting.Wait();
    });
  }
  meeting.Wait();
  meeting.Wait();
  const uint64_t shown = Shown(kGlobal), of_digest = Shown(kByDigest), parts = g_runtime.segment.array(ArrayId::kHistograms).used.load();
  std::printf("%llu statements, %llu in the histogram; %llu with a text, %llu in that of the digest; wrong numbers: %d\n",
              static_cast<unsigned long long>(ran.load()), static_cast<unsigned long long>(shown),
              static_cast<unsigned long long>(with_text.load()), static_cast<unsigned long long>(of_digest),
              (shown != ran.load()) + (of_digest != with_text.load()));
  EXPECT_EQ(shown, ran.load());
  EXPECT_EQ(of_digest, with_text.load());
  EXPECT_EQ(parts, kHistogramParts);
  EXPECT_EQ(sharing.load(), 2u);
  meeting.Wait();
  for (std::thread& thread : threads) thread.join();
}

struct Span {
  uint64_t begin, end;
};

// Returns whether a count may be of the epoch `of`, the number of TRUNCATEs that came before it.
bool MayBeOf(const Span& count, size_t of, const std::vector<Span>& truncates) {
  // The last TRUNCATE before it had been called when it ended, and the next one had not returned when it began.
  return (of == 0 || truncates[of - 1].begin <= count.end) && (of == truncates.size() || truncates[of].end >= count.begin);
}

TEST(Histograms, the_epochs_tell_before_from_after) {
  const std::vector<Span> truncates = {{10, 20}, {30, 40}};
  EXPECT_TRUE(MayBeOf({1, 2}, 0, truncates));
  EXPECT_FALSE(MayBeOf({1, 2}, 1, truncates));
  EXPECT_TRUE(MayBeOf({15, 25}, 0, truncates));
  EXPECT_TRUE(MayBeOf({15, 25}, 1, truncates));
  EXPECT_FALSE(MayBeOf({15, 25}, 2, truncates));
  EXPECT_FALSE(MayBeOf({21, 29}, 0, truncates));
  EXPECT_TRUE(MayBeOf({21, 29}, 1, truncates));
  EXPECT_FALSE(MayBeOf({21, 29}, 2, truncates));
  EXPECT_FALSE(MayBeOf({41, 42}, 1, truncates));
  EXPECT_TRUE(MayBeOf({41, 42}, 2, truncates));
}

struct Count {
  Span span;
  uint32_t bucket;
};

// Counts in many words, each once, while another thread truncates. Then looks at all of them. `shares_part`: the threads count in one
// part, in words of the same lines; else each has its own.
void CountInEpochs(bool shares_part) {
  constexpr uint32_t kThreads = 3;
  const uint64_t stop_at = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()) / 2;
  std::mt19937_64 random(Seed());
  uint64_t counts = 0, epochs = 0, overlapping = 0, wrong = 0, rounds = 0;
  for (; NowNanos() < stop_at || rounds == 0; ++rounds) {
    Truncate(kGlobal);
    const uint32_t first_generation = g_runtime.header->histogram_generation.load();
    std::vector<Count> logs[kThreads];
    Buckets* parts[kThreads] = {};
    std::vector<Span> truncates;
    std::atomic<uint32_t> running{kThreads};
    Meeting meeting(kThreads + 1);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, seed = random()] {
        std::mt19937 own_random(static_cast<uint32_t>(seed));
        ThreadState& thread = *CurrentThread();
        Buckets* const before = thread.histogram;
        // After 256 slots the parts begin again. Those that are chosen one after the other are different ones.
        thread.histogram = shares_part ? &g_runtime.header->histogram.buckets : nullptr;
        logs[t].reserve(kHistogramBuckets);
        meeting.Wait();
        for (uint32_t bucket = shares_part ? t : 0; bucket < kHistogramBuckets; bucket += shares_part ? kThreads : 1) {
          for (uint32_t spins = own_random() % 1000; spins > 0; --spins) std::atomic_signal_fence(std::memory_order_seq_cst);
          const uint64_t begin = NowNanos();
          CountInHistogram(thread, bucket);
          logs[t].push_back({{begin, NowNanos()}, bucket});
        }
        parts[t] = thread.histogram;
        thread.histogram = before;
        running.fetch_sub(1);
        meeting.Wait();  // the slot is not another thread's before all threads have chosen
      });
    }
    meeting.Wait();
    while (running.load() != 0 && truncates.size() < 100'000) {
      Span span{NowNanos(), 0};
      Truncate(kGlobal);
      span.end = NowNanos();
      truncates.push_back(span);
      for (uint32_t spins = random() % 20'000; spins > 0; --spins) std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    meeting.Wait();
    for (std::thread& thread : threads) thread.join();
    uint64_t of_last_epoch = 0;
    for (uint32_t t = 0; t < kThreads; ++t) {
      for (const Count& count : logs[t]) {
        const uint64_t word = (*parts[t])[count.bucket].load();
        const uint64_t of = ((word >> kBucketCountBits) - first_generation) & 0xffffffu;
        const bool is_counted_once = (word & ((uint64_t{1} << kBucketCountBits) - 1)) == 1 && of <= truncates.size();
        wrong += !is_counted_once || !MayBeOf(count.span, of, truncates);
        of_last_epoch += of == truncates.size();
        overlapping += std::any_of(truncates.begin(), truncates.end(), [&](const Span& truncate) {
          return truncate.begin <= count.span.end && truncate.end >= count.span.begin;
        });
      }
      counts += logs[t].size();
    }
    EXPECT_EQ(Shown(kGlobal), of_last_epoch);
    epochs += truncates.size();
  }
  std::printf("%llu counts in %llu rounds, %llu truncates, %llu counts that overlap one; wrong counts: %llu\n",
              static_cast<unsigned long long>(counts), static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(epochs),
              static_cast<unsigned long long>(overlapping), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
}

TEST(Histograms, each_count_is_of_one_epoch_with_concurrent_truncates) { CountInEpochs(false); }
TEST(Histograms, each_count_in_a_shared_part_is_of_one_epoch_with_concurrent_truncates) { CountInEpochs(true); }

// What truncaters and readers know of the statements of all threads.
struct Ledger {
  std::atomic<uint64_t> begun{0}, ended{0};
  std::atomic<uint64_t> truncates{0};                     // odd while one runs
  std::atomic<uint64_t> surely_gone{0}, perhaps_gone{0};  // had ended before the last one's call, had begun when it returned
};

// Truncates `truncated` while threads run statements; `shown` is the histogram that it empties.
void TruncateUnderLoad(std::string_view truncated, std::string_view shown) {
  constexpr int kWriters = 3;
  Truncate(truncated);
  Truncate(shown);
  Ledger ledger;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> readings{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&] {
      while (!stop.load(kRelaxed)) {
        ledger.begun.fetch_add(1);
        RunStatement();
        ledger.ended.fetch_add(1);
      }
    });
  }
  threads.emplace_back([&] {
    std::mt19937_64 random(Seed());
    const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()) / 2;
    while (NowNanos() < end) {
      const uint64_t before = ledger.ended.load();
      ledger.truncates.fetch_add(1);
      Truncate(truncated);
      ledger.surely_gone.store(before);
      ledger.perhaps_gone.store(ledger.begun.load());
      ledger.truncates.fetch_add(1);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      // Now and then a whole reading comes between two TRUNCATEs, however long it takes.
      const uint64_t seen = readings.load();
      const bool waits = random() % 8 == 0;
      while (waits && readings.load() < seen + 2) std::this_thread::yield();
    }
    stop.store(true);
  });
  uint64_t bounded = 0, wrong = 0;
  const auto read = [&] {
    // Whatever runs meanwhile, no statement is shown that had ended before a TRUNCATE that has returned.
    const uint64_t number = ledger.truncates.load(), gone = ledger.surely_gone.load(), ended = ledger.ended.load();
    const uint64_t counts = Shown(shown), most = ledger.begun.load() - gone, perhaps_gone = ledger.perhaps_gone.load();
    bool is_right = counts <= most;
    if (number % 2 == 0 && ledger.truncates.load() == number) {
      is_right = is_right && counts + perhaps_gone >= ended;
      ++bounded;
    }
    readings.fetch_add(1);
    wrong += !is_right;
    return counts;
  };
  while (!stop.load()) read();
  for (std::thread& thread : threads) thread.join();
  const uint64_t last = read();
  std::printf(
      "%s, %llu statements, %llu truncates, %llu readings, %llu of them between two, %llu counts in the last; wrong readings: %llu\n",
      std::string(truncated).c_str(), static_cast<unsigned long long>(ledger.ended.load()),
      static_cast<unsigned long long>(ledger.truncates.load() / 2), static_cast<unsigned long long>(readings.load()),
      static_cast<unsigned long long>(bounded), static_cast<unsigned long long>(last), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(bounded, 0u);
}

TEST(Histograms, truncate_of_the_global_one_under_concurrent_statements) { TruncateUnderLoad(kGlobal, kGlobal); }
TEST(Histograms, truncate_of_the_summary_under_concurrent_statements) {
  TruncateUnderLoad("events_statements_summary_global_by_event_name", kGlobal);
}
TEST(Histograms, truncate_of_the_digests_under_concurrent_statements) { TruncateUnderLoad(kByDigest, kByDigest); }

}  // namespace
}  // namespace perfschema
