// The views of events keep all of the newest events, and an open event as long as it is open.
//
// Contract. events_waits_history has the last N events of each live thread, whatever other threads do.
// events_waits_history_long has the last M of the process. This is exact from the M-th event on if one thread makes
// them, also after others have stopped. Of each thread it has an unbroken run up to its newest event. An open event
// is in events_waits_current, and is whole when it ends, however many later events have passed through the pool
// meanwhile.
//
// How it is checked. Events have numbers by thread (EVENT_ID), so "the newest N" is a known set. a_gap_is_noticed
// shows that the check rejects gaps.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "event_source.h"
#include "record/context/threads.h"
#include "record/engine/runtime.h"
#include "shm/extents.h"

namespace perfschema {
namespace {

constexpr uint64_t kHistory = 40, kHistoryLong = 1000;

class History : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pfs_init("performance_schema_events_waits_history_size=40,performance_schema_events_waits_history_long_size=1000");
    pfs_mutex_init(MutexKey("plain"), &mutex, nullptr);
    row = pfs_mutex_create(MutexKey("own"), &row);
  }
  static void TearDownTestSuite() {
    pfs_mutex_destroy(&mutex);
    pfs_mutex_discard(row);
  }
  static pfs_mutex_t mutex;
  static pfs_instance_t* row;
};
pfs_mutex_t History::mutex;
pfs_instance_t* History::row;

uint64_t LastId() {
  const uint64_t thread = pfs_thread_id();
  return Ids("events_waits_history")[thread].back();
}

TEST(HistoryCheck, a_gap_is_noticed) {
  EXPECT_TRUE(IsRun({3, 4, 5}));
  EXPECT_FALSE(IsRun({3, 5}));
  EXPECT_FALSE(IsRun({3, 3, 4, 6}));
  EXPECT_FALSE(IsRun({}));
}

// A signal handler cannot wait for the lock under which the pool grows if it interrupted the owner. First: later, the pool has its size.
TEST_F(History, has_each_event_or_counts_it_as_lost_while_the_pool_cannot_grow) {
  constexpr uint64_t kEvents = 150;
  const uint64_t before = StatusNumber("Performance_schema_events_lost");
  std::thread([&] {
    const auto make = [](uint64_t events) {
      for (uint64_t i = 0; i < events; ++i) {  // without a mutex: it would be taken under the cold lock, and before it
        pfs_wait_t wait;
        EXPECT_TRUE(pfs_mutex_wait_begin(&wait, row, PFS_LOCK));
        pfs_mutex_wait_end(&wait, EBUSY, PFS_NO_SPINS);
      }
    };
    make(1);
    if (const ColdLock lock; lock) {
      make(kEvents - 2);
      pfs_wait_t outer, inner;
      EXPECT_TRUE(pfs_mutex_wait_begin(&outer, row, PFS_LOCK));
      EXPECT_TRUE(pfs_mutex_wait_begin(&inner, row, PFS_LOCK));
      EXPECT_NE(t_locals.state->open_waits[0].record, t_locals.state->open_waits[1].record);
      pfs_mutex_wait_end(&inner, EBUSY, PFS_NO_SPINS);
      pfs_mutex_wait_end(&outer, EBUSY, PFS_NO_SPINS);
    }
    make(1);
    const uint64_t lost = StatusNumber("Performance_schema_events_lost") - before;
    EXPECT_GT(lost, kEvents / 2);
    EXPECT_EQ(Ids("events_waits_history_long")[pfs_thread_id()].size() + lost, kEvents + 2);
  }).join();
}

TEST_F(History, has_the_newest_of_one_thread) {
  const uint64_t thread = pfs_thread_id();
  Source(0).Make(1);
  for (const uint32_t files_of_8 : {0, 8, 0, 3, 8, 1}) {
    Source source(files_of_8);
    for (const uint64_t events :
         {kHistory + 3, uint64_t{1}, kHistoryLong + 777, uint64_t{31}, uint64_t{32}, uint64_t{33}, uint64_t{333}, 7 * kHistoryLong}) {
      const uint64_t last = LastId() + events;
      source.Make(events);
      const auto ids = Ids("events_waits_history")[thread];
      EXPECT_TRUE(IsRun(ids));
      EXPECT_EQ(ids.back(), last);
      EXPECT_EQ(ids.size(), std::min(kHistory, last));
      const auto all = Ids("events_waits_history_long")[thread];
      EXPECT_TRUE(IsRun(all)) << events;
      EXPECT_EQ(all.back(), last);
      EXPECT_EQ(all.size(), std::min(kHistoryLong, last)) << events << " events, files " << files_of_8;
    }
  }
}

TEST_F(History, each_of_concurrent_threads_has_its_newest) {
  constexpr int kThreads = 4;
  Meeting meeting(kThreads + 1);
  struct Made {
    uint64_t thread, events;
  } made[kThreads];
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::mt19937_64 random(Seed());
  for (auto& mine : made) {
    threads.emplace_back([&, seed = random()] {
      std::mt19937_64 own(seed);
      Source source(seed % 3 == 0 ? 0 : static_cast<uint32_t>(seed % 9));
      mine = {pfs_thread_id(), 0};
      while (!stop.load(kRelaxed)) {
        const uint64_t events = 1 + own() % 100;
        source.Make(events);
        mine.events += events;
        if (own() % 500 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000));
      }
      meeting.Wait();
      meeting.Wait();
    });
  }
  // A reader that runs meanwhile sees an unbroken run of one thread's events, and a full one once it was full. (If
  // the reader is suspended for longer than a chunk stays in the pool, eight times in a row, it gets fewer: rare.)
  uint64_t readings = 0, gaps = 0, short_ones = 0;
  std::map<uint64_t, uint64_t> most, newest;
  for (const uint64_t end = NowNanos() + 1'000'000 * StressTime().count(); NowNanos() < end; ++readings) {
    for (const auto& [thread, ids] : Ids("events_waits_history")) {
      if (thread == pfs_thread_id()) continue;
      if (!IsRun(ids) || ids.back() < newest[thread]) {
        ++gaps;
        std::printf("thread %llu, newest was %llu, now:", static_cast<unsigned long long>(thread),
                    static_cast<unsigned long long>(newest[thread]));
        for (const uint64_t id : ids) std::printf(" %llu", static_cast<unsigned long long>(id));
        std::printf("\n");
      }
      short_ones += ids.size() < most[thread];
      most[thread] = std::max<uint64_t>(most[thread], ids.size());
      newest[thread] = std::max(newest[thread], ids.back());
    }
  }
  stop.store(true);
  meeting.Wait();
  EXPECT_EQ(gaps, 0u);
  EXPECT_LE(short_ones, readings * kThreads / 100);
  const auto history = Ids("events_waits_history");
  const auto all = Ids("events_waits_history_long");
  uint64_t rows = 0, events = 0;
  for (const Made& mine : made) {
    const auto& ids = history.at(mine.thread);
    EXPECT_TRUE(IsRun(ids));
    EXPECT_EQ(ids.back(), mine.events);
    EXPECT_EQ(ids.size(), std::min(kHistory, mine.events));
    events += mine.events;
  }
  for (const auto& [thread, ids] : all) {
    EXPECT_TRUE(IsRun(ids)) << thread;
    for (const Made& mine : made) {
      if (mine.thread == thread) {
        EXPECT_EQ(ids.back(), mine.events);
      }
    }
    rows += ids.size();
  }
  EXPECT_EQ(rows, kHistoryLong);
  std::printf("%llu events, %llu readings, %llu short, %llu events lost\n", static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(readings), static_cast<unsigned long long>(short_ones),
              static_cast<unsigned long long>(StatusNumber("Performance_schema_events_lost")));
  meeting.Wait();
  for (std::thread& thread : threads) thread.join();
  // The threads have ended, and their history with them; history_long keeps their events.
  for (const Made& mine : made) EXPECT_EQ(Ids("events_waits_history").count(mine.thread), 0u);
  EXPECT_EQ(Ids("events_waits_history_long").size(), all.size());
}

TEST_F(History, long_is_exact_for_a_thread_that_goes_on_alone) {
  for (const bool others_end : {false, true}) {
    Meeting meeting(3);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        Source source(others_end ? 8 : 0);
        source.Make(5000);
        meeting.Wait();
        meeting.Wait();
      });
    }
    Source source(others_end ? 0 : 8);
    source.Make(5000);
    meeting.Wait();
    if (others_end) {
      meeting.Wait();
      for (std::thread& thread : threads) thread.join();
    }
    // The remaining events of other threads leave within as many events as the view has rows.
    source.Make(kHistoryLong);
    for (int repetition = 0; repetition < 5; ++repetition) {
      source.Make(kHistoryLong + 17);
      const auto all = Ids("events_waits_history_long");
      EXPECT_EQ(all.size(), 1u);
      const auto& ids = all.at(pfs_thread_id());
      EXPECT_TRUE(IsRun(ids));
      EXPECT_EQ(ids.size(), kHistoryLong);
      EXPECT_EQ(ids.back(), LastId());
    }
    if (!others_end) {
      meeting.Wait();
      for (std::thread& thread : threads) thread.join();
    }
  }
}

// A thread that goes on makes chunks in advance. It may stop before it fills them: then others have as many more.
TEST_F(History, long_is_exact_while_other_threads_have_chunks_ready) {
  constexpr int kOwners = 20, kOthers = 20;
  Meeting full(kOwners + 1), all_here(kOwners + kOthers + 1);
  std::atomic<uint64_t> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kOwners; ++t) {
    threads.emplace_back([&] {
      Source source;
      source.Make(5000);
      full.Wait();
      all_here.Wait();
      source.Make(kMostPerChunk);
      ready.fetch_add(t_locals.state->ready_chunks[static_cast<uint32_t>(Kind::kWait)].count);
      for (int i = 0; i < 3; ++i) all_here.Wait();
    });
  }
  full.Wait();
  for (int t = 0; t < kOthers; ++t) {  // the pool may grow by what each of them needs
    threads.emplace_back([&] {
      Source source;
      source.Lock();
      all_here.Wait();
      all_here.Wait();
      source.Make(5 * kMostPerChunk);
      EXPECT_EQ(t_locals.state->ready_chunks[static_cast<uint32_t>(Kind::kWait)].count, 0u);
      all_here.Wait();
      all_here.Wait();
    });
  }
  for (int i = 0; i < 3; ++i) all_here.Wait();
  EXPECT_GT(ready.load(), 50u);
  Source source;
  source.Make(2 * kHistoryLong);
  const auto all = Ids("events_waits_history_long");
  EXPECT_TRUE(IsRun(all.at(pfs_thread_id())));
  EXPECT_EQ(all.at(pfs_thread_id()).size(), kHistoryLong);
  all_here.Wait();
  for (std::thread& thread : threads) thread.join();
}

// Finds one row of a view of events, by EVENT_ID of this thread.
struct Event {
  bool found = false, is_open = false;
  uint64_t end_event_id = 0, nesting_event_id = 0, spins = 0, wait = 0;
  std::string name;
};
Event Find(const char* table, uint64_t id) {
  const Frame frame(table, {"THREAD_ID", "EVENT_ID", "END_EVENT_ID", "NESTING_EVENT_ID", "SPINS", "TIMER_WAIT", "EVENT_NAME"});
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.number(i, 0) != pfs_thread_id() || frame.number(i, 1) != id) continue;
    return {true,
            frame.is_null(i, 2),
            frame.number(i, 2),
            frame.number(i, 3),
            frame.number(i, 4),
            frame.number(i, 5),
            std::string(frame.text(i, 6))};
  }
  return {};
}

void KeepOpenEvents(pfs_instance_t* row, bool others_work) {
  constexpr uint64_t kLater = 20'000;
  constexpr int kDeep = 4;  // one level is for the later events
  // Another thread takes all chunks from the pool that it can get.
  std::atomic<bool> stop{!others_work};
  std::thread other([&] {
    Source source(2);
    while (!stop.load(kRelaxed)) source.Make(100);
  });
  Source source;
  source.Make(1);
  pfs_wait_t waits[kDeep];
  uint64_t ids[kDeep];
  uint64_t next = LastId() + 1;
  for (int i = 0; i < kDeep; ++i) {
    pfs_mutex_wait_begin(&waits[i], row, PFS_LOCK);
    ids[i] = next++;
    source.Make(kLater);
    next += kLater;
  }
  for (int i = 0; i < kDeep; ++i) {
    const Event open = Find("events_waits_current", ids[i]);
    EXPECT_TRUE(open.found && open.is_open) << i;
    EXPECT_EQ(open.nesting_event_id, i == 0 ? 0 : ids[i - 1]);
    EXPECT_EQ(open.name, "wait/synch/mutex/live/own");
  }
  EXPECT_EQ(Find("events_waits_history", next - 1).nesting_event_id, ids[kDeep - 1]);
  for (int i = kDeep - 1; i >= 0; --i) {
    pfs_mutex_wait_end(&waits[i], 0, static_cast<uint32_t>(100 + i));
    pfs_mutex_released(row);
    const Event ended = Find("events_waits_history", ids[i]);
    EXPECT_TRUE(ended.found && !ended.is_open) << i;
    EXPECT_EQ(ended.end_event_id, next - 1);
    EXPECT_EQ(ended.spins, static_cast<uint64_t>(100 + i));
    EXPECT_GT(ended.wait, 0u);
    // Otherwise it is among the newest of the process for some microseconds only.
    if (!others_work) {
      EXPECT_TRUE(Find("events_waits_history_long", ids[i]).found) << i;
    }
  }
  // They were the last to finish, so they leave the history last, whatever their EVENT_IDs.
  source.Make(kHistory - kDeep);
  for (const uint64_t id : ids) EXPECT_TRUE(Find("events_waits_history", id).found);
  source.Make(kDeep);
  for (const uint64_t id : ids) EXPECT_FALSE(Find("events_waits_history", id).found);
  stop.store(true);
  other.join();
}

TEST_F(History, open_events_stay_over_thousands_of_later_ones) { KeepOpenEvents(row, false); }
TEST_F(History, open_events_stay_while_concurrent_threads_take_chunks) { KeepOpenEvents(row, true); }

TEST_F(History, too_many_nested_waits_are_counted) {
  pfs_wait_t waits[8];
  const uint64_t before = StatusNumber("Performance_schema_locker_lost");
  int recorded = 0;
  for (pfs_wait_t& wait : waits) recorded += pfs_mutex_wait_begin(&wait, row, PFS_LOCK);
  for (int i = 7; i >= 0; --i) pfs_mutex_wait_end(&waits[i], EBUSY, PFS_NO_SPINS);
  EXPECT_EQ(recorded, 5);
  EXPECT_EQ(StatusNumber("Performance_schema_locker_lost") - before, 3u);
}

// A read of a page that has no memory allocates it, or kills the reader if none is left.
TEST_F(History, nobody_looks_behind_the_records_of_a_chunk) {
  for (int t = 0; t < 20; ++t)
    std::thread([] { Source().Make(PerChunk(Kind::kWait)); }).join();  // each ends with a chunk that it has written nothing to
  Ids("events_waits_history_long");
  const ShmHeader& header = OwnSegment().header();
  const ShmArray& records = header.arrays[static_cast<uint32_t>(ArrayId::kWaitRecords)];
  const uint64_t used = header.arrays[static_cast<uint32_t>(ArrayId::kWaitChunks)].used.load();
  const int file = open(pfs_segment_path(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_GT(used, 20u);
  for (uint64_t chunk = 1; chunk < used; ++chunk) {
    const uint64_t space = OwnSegment().at<ShmChunk>(ArrayId::kWaitChunks, chunk)->begin.load() / records.stride * records.stride;
    const uint64_t behind = space + PerChunk(Kind::kWait) * header.record_bytes[0];
    for (const FilePiece& piece : PiecesOf(records, behind, space + records.stride)) {
      const off_t data = lseek(file, static_cast<off_t>(piece.in_file), SEEK_DATA);
      EXPECT_TRUE(data < 0 || data >= static_cast<off_t>(piece.in_file + piece.bytes)) << "chunk " << chunk;
    }
  }
  close(file);
}

TEST_F(History, truncate_hides_what_was_and_nothing_that_comes) {
  Source source;
  source.Make(2 * kHistoryLong);
  for (const char* table : {"events_waits_history", "events_waits_history_long"}) {
    Truncate(table);
    EXPECT_TRUE(Ids(table).empty()) << table;
    source.Make(33);
    const auto ids = Ids(table)[pfs_thread_id()];
    EXPECT_TRUE(IsRun(ids)) << table;
    EXPECT_EQ(ids.size(), 33u) << table;
    EXPECT_EQ(ids.back(), LastId());
  }
}

}  // namespace
}  // namespace perfschema
