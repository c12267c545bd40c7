// Small chunks (shm/records.h): a thread begins with one, and goes on in chunks of the full size.
//
// Contract. No view shows where a chunk ends: history, history_long and TRUNCATE are exact after each number of events. Threads of a crowd
// share the pages of their first chunks. The oldest rows leave first: chunks of a living thread are taken away in their order, and the
// newest rows of ended threads stay.
//
// How it is checked. Events have numbers by thread (EVENT_ID), and each thread says how many it has made. The negative control is this
// program with a library in which a thread begins with any chunk, and a small chunk keeps its rows when others go on
// (PFS_BREAK_FIRST_CHUNKS): rows of ended threads must be missing, and runs of living ones must have gaps.
#include <algorithm>
#include <memory>
#include <set>

#include "event_source.h"

namespace perfschema {
namespace {

constexpr uint64_t kHistory = 20, kHistoryLong = 1000;
constexpr uint32_t kSmall = SmallChunk(Kind::kWait);
constexpr int kCrowd = 40;
constexpr char kLong[] = "events_waits_history_long", kLast[] = "events_waits_history";

class SmallChunks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pfs_init("performance_schema_events_waits_history_size=20,performance_schema_events_waits_history_long_size=1000");
    ASSERT_TRUE(pfs_is_on());
  }
};

std::vector<uint64_t> FromTo(uint64_t from, uint64_t to) {
  std::vector<uint64_t> ids;
  for (uint64_t id = from; id <= to; ++id) ids.push_back(id);
  return ids;
}

// Calls use(chunk) for each chunk of waits that a thread was the last to take.
template <typename Use>
void ForEachChunkOf(uint64_t thread, Use use) {
  const uint64_t used = OwnSegment().used(ArrayId::kWaitChunks);
  for (uint64_t i = 1; i < used; ++i) {
    const auto* const chunk = OwnSegment().at<ShmChunk>(ArrayId::kWaitChunks, i);
    if (chunk->thread_id.load() == thread) use(*chunk);
  }
}

TEST_F(SmallChunks, threads_of_a_crowd_share_pages) {
  constexpr int kThreads = kCrowd;
  Meeting meeting(kThreads + 1);
  std::vector<uint64_t> ids(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t& id : ids) {
    threads.emplace_back([&] {
      Source own;
      for (int i = 0; i < 10; ++i) own.Lock();
      id = pfs_thread_id();
      meeting.Wait();
      meeting.Wait();
      for (uint32_t i = 10; i <= kSmall; ++i) own.Lock();
      meeting.Wait();
      meeting.Wait();
    });
  }
  meeting.Wait();
  std::set<uint64_t> begins, pages;
  for (const uint64_t id : ids) {
    ForEachChunkOf(id, [&](const ShmChunk& chunk) {
      EXPECT_EQ(chunk.ready.load(), kSmall);
      EXPECT_TRUE(begins.insert(chunk.begin.load()).second) << "two threads write the same records";
      pages.insert(chunk.begin.load() / 4096);
    });
    EXPECT_EQ(Ids(kLast)[id], FromTo(1, 10));
  }
  EXPECT_EQ(begins.size(), size_t{kThreads});
  EXPECT_LE(pages.size(), size_t{kThreads} / SmallPerSpace(Kind::kWait) + 2);
  meeting.Wait();
  meeting.Wait();
  for (const uint64_t id : ids) {
    uint32_t large = 0;
    ForEachChunkOf(id, [&](const ShmChunk& chunk) { large += chunk.ready.load() == PerChunk(Kind::kWait) ? 1 : 0; });
    EXPECT_EQ(large, 1u);
    EXPECT_EQ(Ids(kLast)[id], FromTo(1, kSmall + 1));
  }
  meeting.Wait();
  for (std::thread& thread : threads) thread.join();
}

// Threads that stay, so that other threads are the first ones of their slots.
class Parked {
 public:
  explicit Parked(int count) : meeting_(count + 1) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        EXPECT_NE(pfs_thread_id(), 0u);
        meeting_.Wait();
        meeting_.Wait();
      });
    }
    meeting_.Wait();
  }
  ~Parked() {
    meeting_.Wait();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  Meeting meeting_;
  std::vector<std::thread> threads_;
};

// Makes events, and truncates the views after `hidden` of them.
void CheckViews(uint32_t files_of_8, uint64_t hidden) {
  Source source;
  const uint64_t thread = pfs_thread_id();
  for (uint64_t made = 1; made <= 150; ++made) {
    source.MakeOne(made, files_of_8);
    if (made == 1) ForEachChunkOf(thread, [](const ShmChunk& chunk) { EXPECT_EQ(chunk.ready.load(), kSmall); });
    const uint64_t from = made <= hidden ? 0 : hidden;
    ASSERT_EQ(Ids(kLast)[thread], FromTo(std::max(from, made < kHistory ? 0 : made - kHistory) + 1, made)) << hidden;
    ASSERT_EQ(Ids(kLong)[thread], FromTo(from + 1, made)) << hidden;
    ASSERT_EQ(Ids("events_waits_current")[thread], FromTo(made, made));
    if (made != hidden) continue;
    Truncate(kLast);
    Truncate(kLong);
    ASSERT_TRUE(Ids(kLast)[thread].empty() && Ids(kLong)[thread].empty());
  }
}

TEST_F(SmallChunks, views_are_exact_after_each_number_of_events) {
  constexpr uint64_t kHidden[] = {0, kSmall / 2, kSmall - 1, kSmall, kSmall + 1, 40};
  std::vector<std::unique_ptr<Parked>> parked;
  parked.push_back(std::make_unique<Parked>(kCrowd));
  Sample sample;
  for (const uint32_t files_of_8 : {0u, 8u, 3u}) {
    for (const uint64_t hidden : kHidden) {
      if (!sample.TakesNext()) continue;
      std::thread([&] { CheckViews(files_of_8, hidden); }).join();
      parked.push_back(std::make_unique<Parked>(1));  // takes the slot
    }
  }
}

TEST_F(SmallChunks, open_events_stay_in_a_small_chunk_while_others_take_it) {
  std::thread([] {
    pfs_instance_t* row = pfs_mutex_create(MutexKey("own"), &row);
    Source source;
    const uint64_t thread = pfs_thread_id();
    for (uint32_t i = 1; i < kSmall; ++i) source.Lock();
    pfs_wait_t wait;
    ASSERT_EQ(pfs_mutex_wait_begin(&wait, row, PFS_LOCK), 1);
    for (int i = 0; i < 5000; ++i) source.Lock();
    for (int i = 0; i < 200; ++i) std::thread([] { Source().Lock(); }).join();
    EXPECT_EQ(Ids("events_waits_current")[thread], std::vector<uint64_t>{kSmall});
    pfs_mutex_wait_end(&wait, 0, 0);
    pfs_mutex_released(row);
    const auto ids = Ids(kLast)[thread];
    EXPECT_TRUE(std::find(ids.begin(), ids.end(), kSmall) != ids.end());
    for (uint64_t i = 0; i < kHistory; ++i) source.Lock();
    const auto later = Ids(kLast)[thread];
    EXPECT_EQ(later, FromTo(kSmall + 5001, kSmall + 5000 + kHistory));
    pfs_mutex_discard(row);
  }).join();
}

// Returns which chunks of waits each thread has records in, by their numbers. REQUIRES: no thread makes events.
std::map<uint64_t, std::set<uint64_t>> ChunksByThread() {
  const SegmentView view = OwnSegment();
  const char* const records =
      reinterpret_cast<const char*>(&view.header()) + view.header().arrays[static_cast<uint32_t>(ArrayId::kWaitRecords)].offset;
  std::map<uint64_t, std::set<uint64_t>> chunks;
  for (uint64_t i = 1; i < view.used(ArrayId::kWaitChunks); ++i) {
    const auto* const chunk = view.at<ShmChunk>(ArrayId::kWaitChunks, i);
    const auto* const first = reinterpret_cast<const ShmRecord*>(records + chunk->begin.load());
    if (first->state.load() >> 32 == chunk->lap.load()) chunks[chunk->thread_id.load()].insert(chunk->sequence.load());
  }
  return chunks;
}

// Chunks of a thread are taken away in their order, so that its records are a run up to the newest one.
TEST_F(SmallChunks, records_of_living_concurrent_threads_have_no_gaps) {
  constexpr int kThreads = 30;
  uint64_t checked = 0, gaps = 0, without_first = 0;
  std::mt19937_64 random(Seed());
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  for (int turn = 0; turn < 10 || NowNanos() < end; ++turn) {
    Meeting meeting(kThreads + 1);
    std::vector<uint64_t> ids(kThreads);
    std::vector<std::thread> threads;
    for (uint64_t& id : ids) {
      threads.emplace_back([&, seed = random()] {
        std::mt19937_64 own(seed);
        Source source;
        id = pfs_thread_id();
        meeting.Wait();
        const uint64_t events = 100 + own() % 4000;
        for (uint64_t i = 0; i < events; ++i) source.MakeOne(i, seed % 3 == 0 ? 3 : 0);
        meeting.Wait();
        meeting.Wait();
      });
    }
    meeting.Wait();
    meeting.Wait();
    auto chunks = ChunksByThread();
    for (const uint64_t id : ids) {
      const std::set<uint64_t>& found = chunks[id];
      ASSERT_FALSE(found.empty());
      ++checked;
      gaps += *found.rbegin() - *found.begin() + 1 != found.size() ? 1 : 0;
      without_first += *found.begin() != 1 ? 1 : 0;
    }
    meeting.Wait();
    for (std::thread& thread : threads) thread.join();
  }
  std::printf("threads: %llu, whose first chunk was taken: %llu, gaps: %llu\n", static_cast<unsigned long long>(checked),
              static_cast<unsigned long long>(without_first), static_cast<unsigned long long>(gaps));
  EXPECT_GT(without_first, 0u);
  EXPECT_EQ(gaps, 0u);
}

// Batches of threads: all end before the next batch begins. The pool soon has its size.
TEST_F(SmallChunks, the_newest_rows_of_ended_concurrent_threads_stay) {
  constexpr int kBatch = 8, kKept = 9;
  constexpr uint64_t kEvents = 10;
  std::vector<std::vector<uint64_t>> batches;
  uint64_t missing = 0, checked = 0;
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  for (int turn = 0; turn < 100 || NowNanos() < end; ++turn) {
    std::vector<uint64_t> ids(kBatch);
    std::vector<std::thread> threads;
    Meeting meeting(kBatch);
    for (uint64_t& id : ids) {
      threads.emplace_back([&] {
        meeting.Wait();  // all are there at once
        Source source;
        for (uint64_t i = 0; i < kEvents; ++i) source.Lock();
        id = pfs_thread_id();
        meeting.Wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    batches.push_back(ids);
    if (batches.size() > kKept) batches.erase(batches.begin());
    std::map<uint64_t, uint64_t> rows;
    const Frame frame(kLong, {"THREAD_ID"});
    for (size_t i = 0; i < frame.rows(); ++i) ++rows[frame.number(i, 0)];
    for (const auto& batch : batches) {
      for (const uint64_t id : batch) {
        ++checked;
        missing += kEvents - std::min(kEvents, rows[id]);
      }
    }
  }
  std::printf("threads: %llu, missing rows: %llu\n", static_cast<unsigned long long>(checked), static_cast<unsigned long long>(missing));
  EXPECT_EQ(missing, 0u);
}

}  // namespace
}  // namespace perfschema
