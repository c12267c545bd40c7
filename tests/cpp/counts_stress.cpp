// No event is lost, and none is counted twice: at rest the tables are exact, whatever threads did at the same time.
//
// Contract. N threads lock one mutex M times each: COUNT_STAR is N*M for the instance, for the instrument, and over
// the threads. Some threads use objects, others delete them, and others create them again. Totals by event name count
// every event, and never go back while a reader reads. Threads that end leave the totals unchanged.
//
// How it is checked. Every thread counts its own operations, in memory of its own. (PFS_BREAK_SEQLOCK does not matter
// here, because no reader's check is involved. The tests the_log_* below show that the comparison can fail.)
#include <fcntl.h>

#include <shared_mutex>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kByInstance[] = "events_waits_summary_by_instance", kByThread[] = "events_waits_summary_by_thread_by_event_name",
               kGlobal[] = "events_waits_summary_global_by_event_name", kFiles[] = "file_summary_by_event_name";

uint64_t Count(std::string_view table, const char* name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }

void CountLocks(int threads, int locks) {
  const pfs_key_t key = MutexKey("one");
  Truncate(kGlobal);
  Truncate(kByThread);
  const uint64_t global_before = Count(kGlobal, "wait/synch/mutex/live/one");
  EXPECT_EQ(global_before, 0u);
  pfs_mutex_t mutex;
  pfs_mutex_init(key, &mutex, nullptr);
  Meeting meeting(threads + 1);
  uint64_t guarded = 0;
  std::atomic<int> done{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      meeting.Wait();
      for (int i = 0; i < locks; ++i) {
        pfs_mutex_lock(&mutex);
        ++guarded;
        pfs_mutex_unlock(&mutex);
      }
      done.fetch_add(1);
      meeting.Wait();  // read while all live
      meeting.Wait();
    });
  }
  meeting.Wait();
  uint64_t frames = 0, last_instance = 0, last_global = 0, last_threads = 0;
  while (done.load() < threads) {
    const uint64_t instance = Count(kByInstance, "wait/synch/mutex/live/one");
    const uint64_t global = Count(kGlobal, "wait/synch/mutex/live/one");
    const uint64_t by_thread = Count(kByThread, "wait/synch/mutex/live/one");
    EXPECT_GE(instance, last_instance);
    EXPECT_GE(global, last_global);
    EXPECT_GE(by_thread, last_threads);
    EXPECT_LE(instance, static_cast<uint64_t>(threads) * static_cast<uint64_t>(locks));
    last_instance = instance, last_global = global, last_threads = by_thread;
    ++frames;
  }
  meeting.Wait();
  const uint64_t expected = static_cast<uint64_t>(threads) * static_cast<uint64_t>(locks);
  EXPECT_EQ(guarded, expected);
  EXPECT_EQ(Count(kByInstance, "wait/synch/mutex/live/one"), expected);
  EXPECT_EQ(Count(kGlobal, "wait/synch/mutex/live/one"), expected);
  EXPECT_EQ(Count(kByThread, "wait/synch/mutex/live/one"), expected);
  std::printf("%d threads x %d locks, %llu readings meanwhile\n", threads, locks, static_cast<unsigned long long>(frames));
  meeting.Wait();
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(Count(kGlobal, "wait/synch/mutex/live/one"), expected);
  EXPECT_EQ(Count(kByThread, "wait/synch/mutex/live/one"), 0u);  // its threads have ended
  pfs_mutex_destroy(&mutex);
  EXPECT_EQ(Count(kGlobal, "wait/synch/mutex/live/one"), expected);
  EXPECT_EQ(Count(kByInstance, "wait/synch/mutex/live/one"), 0u);
}

TEST(Counts, locks_of_one_thread) { CountLocks(1, 1000); }
TEST(Counts, locks_of_two_threads) { CountLocks(2, 300'000); }
TEST(Counts, locks_of_eight_threads) { CountLocks(8, 100'000); }

// ---- Objects that come and go ------------------------------------------------------------------------------------------------------

// The operations of one thread, by its own count.
struct Log {
  uint64_t mutex_events = 0, opens = 0, closes = 0, deletes = 0, reads = 0, writes = 0;
  uint64_t file_events() const { return opens + closes + deletes + reads + writes; }
  Log& operator+=(const Log& other) {
    mutex_events += other.mutex_events, opens += other.opens, closes += other.closes, deletes += other.deletes;
    reads += other.reads, writes += other.writes;
    return *this;
  }
};

// Mutexes and files that any thread uses and deletes. Files are read, written and unlinked at the same time.
class Objects {
 public:
  static constexpr int kCount = 6;

  Objects() : mutex_key_(MutexKey("churn")), file_key_(FileKey("churn")) {}
  ~Objects() {
    for (Slot& slot : slots_) {
      if (slot.lives) pfs_mutex_destroy(&slot.mutex);
      if (slot.fd >= 0) pfs_close(slot.fd);
    }
  }
  void Step(uint64_t dice, Log* log) {
    Slot& slot = slots_[dice % kCount];
    const std::string path = directory_ / std::to_string(dice % kCount);
    dice >>= 8;
    switch (dice % 16) {
      case 0: {  // birth or death
        const std::unique_lock<std::shared_mutex> lock(slot.lifetime);
        if (slot.lives) {
          EXPECT_EQ(pfs_mutex_destroy(&slot.mutex), 0);
        } else {
          EXPECT_EQ(pfs_mutex_init(mutex_key_, &slot.mutex, nullptr), 0);
        }
        slot.lives = !slot.lives;
        break;
      }
      case 1: {
        const std::unique_lock<std::shared_mutex> lock(slot.lifetime);
        if (slot.fd >= 0) {
          EXPECT_EQ(pfs_close(slot.fd), 0);
          slot.fd = -1;
          ++log->closes;
        } else {
          slot.fd = pfs_open(file_key_, path.c_str(), O_RDWR | O_CREAT, 0600);
          EXPECT_GE(slot.fd, 0);
          ++log->opens;
        }
        break;
      }
      case 2:
      case 3: {  // gone by name, while others read and write it
        const std::shared_lock<std::shared_mutex> lock(slot.lifetime);
        pfs_unlink(file_key_, path.c_str());
        ++log->deletes;
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7: {
        const std::shared_lock<std::shared_mutex> lock(slot.lifetime);
        if (!slot.lives) break;
        EXPECT_EQ(pfs_mutex_lock(&slot.mutex), 0);
        EXPECT_EQ(pfs_mutex_trylock(&slot.mutex), EBUSY);  // counts apart from the mutex's own cell
        pfs_mutex_unlock(&slot.mutex);
        log->mutex_events += 2;
        break;
      }
      default: {
        const std::shared_lock<std::shared_mutex> lock(slot.lifetime);
        if (slot.fd < 0) break;
        char bytes[11] = {};
        if (dice % 2 == 0) {
          EXPECT_EQ(pfs_pwrite(slot.fd, bytes, 11, 0), 11);
          ++log->writes;
        } else {
          EXPECT_GE(pfs_pread(slot.fd, bytes, 7, 0), 0);
          ++log->reads;
        }
      }
    }
  }

 private:
  struct Slot {
    std::shared_mutex lifetime;
    pfs_mutex_t mutex;
    bool lives = false;
    int fd = -1;
  };
  TemporaryDirectory directory_;
  pfs_key_t mutex_key_, file_key_;
  Slot slots_[kCount];
};

constexpr char kChurnMutex[] = "wait/synch/mutex/live/churn", kChurnFile[] = "wait/io/file/live/churn";

// The totals of the tables, minus their earlier values.
struct Shown {
  uint64_t mutex_events = Count(kGlobal, kChurnMutex), file_waits = Count(kGlobal, kChurnFile), file_events = Count(kFiles, kChurnFile),
           reads = SumWhere(kFiles, "EVENT_NAME", kChurnFile, "COUNT_READ"),
           writes = SumWhere(kFiles, "EVENT_NAME", kChurnFile, "COUNT_WRITE"),
           misc = SumWhere(kFiles, "EVENT_NAME", kChurnFile, "COUNT_MISC"),
           bytes = SumWhere(kFiles, "EVENT_NAME", kChurnFile, "SUM_NUMBER_OF_BYTES_WRITE");
};

bool Agree(const Shown& before, const Shown& now, const Log& log) {
  bool agree = true;
  const auto compare = [&](const char* what, uint64_t shown, uint64_t logged) {
    if (shown == logged) return;
    std::printf("%s: %llu shown, %llu logged\n", what, static_cast<unsigned long long>(shown), static_cast<unsigned long long>(logged));
    agree = false;
  };
  compare("mutex events", now.mutex_events - before.mutex_events, log.mutex_events);
  compare("file events, waits", now.file_waits - before.file_waits, log.file_events());
  compare("file events", now.file_events - before.file_events, log.file_events());
  compare("reads", now.reads - before.reads, log.reads);
  compare("writes", now.writes - before.writes, log.writes);
  compare("bytes", now.bytes - before.bytes, 11 * log.writes);
  return agree;
}

TEST(Counts, objects_that_come_and_go_in_one_thread) {
  Objects objects;
  const Shown before;
  Log log;
  std::mt19937_64 random(Seed());
  for (int i = 0; i < 3000; ++i) objects.Step(random(), &log);
  EXPECT_TRUE(Agree(before, Shown(), log));
}

TEST(Counts, the_log_and_the_tables_are_really_compared) {
  const Shown before;
  Shown after = before;
  EXPECT_TRUE(Agree(before, after, Log()));
  ++after.writes;
  EXPECT_FALSE(Agree(before, after, Log()));
}

TEST(Counts, objects_that_come_and_go_between_concurrent_threads) {
  constexpr int kThreads = 4;
  Objects objects;
  const Shown before;
  std::atomic<bool> stop{false};
  std::mutex logs_lock;
  Log log;
  uint64_t lives = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(t));
      // Threads come and go as well: each lives for some thousand steps.
      while (!stop.load(kRelaxed)) {
        std::thread([&, steps = random() % 4000, seed = random()] {
          std::mt19937_64 own(seed);
          Log mine;
          for (uint64_t i = 0; i < steps && !stop.load(kRelaxed); ++i) objects.Step(own(), &mine);
          const std::lock_guard<std::mutex> lock(logs_lock);
          log += mine;
          ++lives;
        }).join();
      }
    });
  }
  uint64_t readings = 0, last_mutex = 0, last_file = 0, went_back = 0;
  for (const uint64_t end = NowNanos() + 2'000'000 * StressTime().count(); NowNanos() < end; ++readings) {
    // If the total of a name could not be read, the name is missing in the frame: that is no step back.
    const uint64_t mutex_events = Count(kGlobal, kChurnMutex), file_events = Count(kFiles, kChurnFile);
    went_back += (mutex_events != 0 && mutex_events < last_mutex) || (file_events != 0 && file_events < last_file);
    last_mutex = std::max(last_mutex, mutex_events), last_file = std::max(last_file, file_events);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(went_back, 0u);
  EXPECT_TRUE(Agree(before, Shown(), log));
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), 0u);
  std::printf("%llu mutex events, %llu file events, %llu threads, %llu readings, %llu rows skipped\n",
              static_cast<unsigned long long>(log.mutex_events), static_cast<unsigned long long>(log.file_events()),
              static_cast<unsigned long long>(lives), static_cast<unsigned long long>(readings),
              static_cast<unsigned long long>(StatusNumber("Performance_schema_rows_skipped")));
}

}  // namespace
}  // namespace perfschema
