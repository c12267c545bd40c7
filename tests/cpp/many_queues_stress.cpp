// The pool of chunks on a machine with many processors: it has 128 queues, and more threads than that.
//
// Contract. The number of queues changes no table. Each event counts once. events_waits_history has the last N events of each thread, and
// events_waits_history_long the last M of the process: of each thread an unbroken run up to its newest event. When one thread goes on
// alone, all M rows become its own, so the chunks of all other queues come back.
//
// How it is checked. The pool is told how many processors there are before pfs starts. Events have numbers by thread (EVENT_ID), so that
// "the newest N" is a known set. control_a_short_history_is_noticed shows that a view without the newest rows fails the check.
#include <sys/resource.h>

#include <algorithm>

#include "event_source.h"
#include "record/probe/chunk_pool.h"

namespace perfschema {
namespace {

constexpr uint32_t kThreads = 150;
constexpr uint64_t kHistory = 10, kHistoryLong = 30'000;
constexpr char kLong[] = "events_waits_history_long", kLast[] = "events_waits_history";

class ManyQueues : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    g_assumed_processors = 512;
    pfs_init("performance_schema_events_waits_history_size=10,performance_schema_events_waits_history_long_size=30000");
    ASSERT_TRUE(pfs_is_on());
    ASSERT_EQ(ChunkQueues(), 128u);
  }
};

// Returns whether these are the last `most` of the events 1 .. `made`, or fewer of them if `most` is 0.
bool AreNewest(const std::vector<uint64_t>& ids, uint64_t made, uint64_t most) {
  return IsRun(ids) && ids.back() == made && (most == 0 || ids.size() == std::min(made, most));
}

TEST(Queues, there_is_a_queue_for_each_four_processors) {
  EXPECT_EQ(QueuesFor(0), 16u);  // unknown
  EXPECT_EQ(QueuesFor(1), 16u);
  EXPECT_EQ(QueuesFor(64), 16u);
  EXPECT_EQ(QueuesFor(65), 32u);
  EXPECT_EQ(QueuesFor(128), 32u);
  EXPECT_EQ(QueuesFor(256), 64u);
  EXPECT_EQ(QueuesFor(512), 128u);
  EXPECT_EQ(QueuesFor(8192), 128u);
  EXPECT_EQ(QueuesFor(~0u), 128u);
}

TEST(Queues, control_a_short_history_is_noticed) {
  EXPECT_TRUE(AreNewest({3, 4, 5}, 5, 3));
  EXPECT_FALSE(AreNewest({2, 3, 4}, 5, 3));
  EXPECT_FALSE(AreNewest({4, 5}, 5, 3));
  EXPECT_FALSE(AreNewest({3, 5}, 5, 0));
  EXPECT_FALSE(AreNewest({}, 5, 0));
}

TEST_F(ManyQueues, concurrent_threads_lose_nothing_and_keep_the_newest) {
  const uint64_t lost_before = StatusNumber("Performance_schema_events_lost");
  Meeting meeting(kThreads + 1);
  std::atomic<bool> stop{false};
  struct Made {
    uint64_t thread = 0, events = 0;
  };
  std::vector<Made> made(kThreads);
  std::vector<std::thread> threads;
  for (Made& mine : made) {
    threads.emplace_back([&, seed = Seed() + threads.size()] {
      std::mt19937_64 random(seed);
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 15);  // beside so many threads the reader would hardly run
      Source source;
      mine.thread = pfs_thread_id();
      for (uint64_t rounds = 0; rounds < 3 || !stop.load(kRelaxed); ++rounds) {
        const uint64_t events = 1 + random() % 2000;
        source.Make(events);
        mine.events += events;
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      }
      meeting.Wait();
      meeting.Wait();
    });
  }
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  while (NowNanos() < end) {
    for (const auto& [thread, ids] : Ids(kLast)) EXPECT_TRUE(AreNewest(ids, ids.back(), 0)) << thread;
  }
  stop.store(true);
  meeting.Wait();

  const auto history = Ids(kLast), all = Ids(kLong);
  std::map<uint64_t, uint64_t> counts;
  {
    const Frame frame("events_waits_summary_by_thread_by_event_name", {"THREAD_ID", "EVENT_NAME", "COUNT_STAR"});
    for (size_t i = 0; i < frame.rows(); ++i) {
      if (frame.text(i, 1) == "wait/synch/mutex/live/source") counts[frame.number(i, 0)] = frame.number(i, 2);
    }
  }
  uint64_t events = 0, rows = 0;
  for (const Made& mine : made) {
    events += mine.events;
    EXPECT_EQ(counts[mine.thread], mine.events);
    ASSERT_EQ(history.count(mine.thread), 1u);
    EXPECT_TRUE(AreNewest(history.at(mine.thread), mine.events, kHistory)) << mine.thread;
    const auto found = all.find(mine.thread);
    if (found == all.end()) continue;
    EXPECT_TRUE(AreNewest(found->second, mine.events, 0)) << mine.thread;
    rows += found->second.size();
  }
  EXPECT_EQ(rows, std::min(events, kHistoryLong));
  EXPECT_EQ(StatusNumber("Performance_schema_events_lost"), lost_before);

  // One thread goes on alone, while the others are there and after they have ended.
  Source source;
  const uint64_t own = pfs_thread_id();
  uint64_t mine = 0;
  for (const bool have_ended : {false, true}) {
    source.Make(4 * kHistoryLong);
    mine += 4 * kHistoryLong;
    const auto now = Ids(kLong);
    EXPECT_EQ(now.size(), 1u);
    ASSERT_EQ(now.count(own), 1u);
    EXPECT_TRUE(AreNewest(now.at(own), mine, kHistoryLong)) << now.at(own).size() << " rows";
    EXPECT_TRUE(AreNewest(Ids(kLast).at(own), mine, kHistory));
    if (have_ended) continue;
    meeting.Wait();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(StatusNumber("Performance_schema_events_lost"), lost_before);
  std::printf("%llu events of %u threads\n", static_cast<unsigned long long>(events), kThreads);
}

}  // namespace
}  // namespace perfschema
