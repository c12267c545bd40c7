// Locks that are tried first (TIMED = 'CONTENDED'): no count is lost, and the locks exclude, whatever TIMED becomes
// meanwhile.
//
// Contract. COUNT_STAR of mutexes and rwlocks is exact, failed tries and passed deadlines included. Meanwhile TIMED
// goes from YES over CONTENDED to NO and back, records are switched on and off, and a reader reads. Each row of
// events_waits_history_long that has times has TIMER_WAIT = TIMER_END - TIMER_START. At the end no lock is held. An
// uncontended lock is not timed and makes no row.
//
// How it is checked. Every thread logs its operations; the mutexes guard plain counters (ThreadSanitizer checks the
// exclusion). The tests a_lock_that_is_held_* check that a lock that was waited for makes a row.
#include "live.h"

namespace perfschema {
namespace {

constexpr char kGlobal[] = "events_waits_summary_global_by_event_name", kByThread[] = "events_waits_summary_by_thread_by_event_name",
               kByInstance[] = "events_waits_summary_by_instance", kLong[] = "events_waits_history_long";
constexpr char kMutexName[] = "wait/synch/mutex/live/tried", kLockName[] = "wait/synch/rwlock/live/tried";

void Set(std::string_view table_name, const char* pattern, const char* column, const char* value) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable(table_name, &table).ok());
  const Condition where{"NAME", pattern, true};
  const Assignment set{column, value};
  uint64_t changed = 0;
  const Status status = UpdateTable(*table, {&where, 1}, {&set, 1}, &changed);
  ASSERT_TRUE(status.ok()) << status.message();
}
void SetTimed(const char* value) { Set("setup_instruments", "wait/synch/%/live/tried", "TIMED", value); }

uint64_t Count(std::string_view table, const char* name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }
uint64_t Waited(const char* name) { return SumWhere(kGlobal, "EVENT_NAME", name, "SUM_TIMER_WAIT"); }
size_t RowsOf(const char* name) {
  const Frame frame(kLong, {"EVENT_NAME"});
  size_t found = 0;
  for (size_t i = 0; i < frame.rows(); ++i) found += frame.text(i, 0) == name ? 1 : 0;
  return found;
}

pfs_key_t LockKey() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_rwlock_info_t info[] = {{&made, "tried", 0, nullptr}};
    EXPECT_EQ(pfs_register_rwlock("live", info, 1), PFS_OK);
    return made;
  }();
  return key;
}

struct Objects {
  static constexpr size_t kEach = 2;
  pfs_mutex_t mutexes[kEach];
  pfs_rwlock_t locks[kEach];
  uint64_t guarded[kEach] = {}, written[kEach] = {};

  Objects() {
    for (pfs_mutex_t& m : mutexes) EXPECT_EQ(pfs_mutex_init(MutexKey("tried"), &m, nullptr), 0);
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_init(LockKey(), &rw, nullptr), 0);
  }
  ~Objects() {
    for (pfs_mutex_t& m : mutexes) EXPECT_EQ(pfs_mutex_destroy(&m), 0);
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_destroy(&rw), 0);
  }
};

struct Log {
  uint64_t mutex_events = 0, lock_events = 0;

  void Step(Objects& all, std::mt19937_64& random) {
    const size_t at = random() % Objects::kEach;
    pfs_mutex_t* m = &all.mutexes[at];
    pfs_rwlock_t* rw = &all.locks[at];
    const timespec soon{1, 0};  // has passed
    int rc = 0;
    switch (random() % 8) {
      case 0:
        rc = pfs_mutex_trylock(m);
        break;
      case 1:
        rc = pfs_mutex_timedlock(m, &soon);
        break;
      case 2:
      case 3:
        rc = pfs_mutex_lock(m);
        break;
      case 4:
        return Release(rw, pfs_rwlock_rdlock(rw), nullptr);
      case 5:
        return Release(rw, pfs_rwlock_tryrdlock(rw), nullptr);
      case 6:
        return Release(rw, pfs_rwlock_wrlock(rw), &all.written[at]);
      default:
        return Release(rw, pfs_rwlock_trywrlock(rw), &all.written[at]);
    }
    ++mutex_events;
    if (rc != 0) return;
    ++all.guarded[at];
    EXPECT_EQ(pfs_mutex_unlock(m), 0);
  }
  void Release(pfs_rwlock_t* rw, int rc, uint64_t* guarded) {
    ++lock_events;
    if (rc != 0) return;
    if (guarded != nullptr) ++*guarded;
    EXPECT_EQ(pfs_rwlock_unlock(rw), 0);
  }
};

TEST(Contended, a_lock_that_is_free_is_counted_and_nothing_else) {
  Objects objects;
  SetTimed("CONTENDED");
  Truncate(kGlobal);
  Truncate(kLong);
  std::mt19937_64 random(Seed());
  Log log;
  for (int i = 0; i < 5000; ++i) log.Step(objects, random);
  EXPECT_EQ(Count(kGlobal, kMutexName), log.mutex_events);
  EXPECT_EQ(Count(kGlobal, kLockName), log.lock_events);
  EXPECT_EQ(Waited(kMutexName) + Waited(kLockName), 0u);
  EXPECT_EQ(RowsOf(kMutexName) + RowsOf(kLockName), 0u);
}

TEST(Contended, a_lock_that_is_held_is_an_event) {
  Objects objects;
  SetTimed("CONTENDED");
  Truncate(kGlobal);
  Truncate(kLong);
  EXPECT_EQ(pfs_mutex_lock(&objects.mutexes[0]), 0);
  std::thread waiter([&] {
    EXPECT_EQ(pfs_mutex_lock(&objects.mutexes[0]), 0);
    EXPECT_EQ(pfs_mutex_unlock(&objects.mutexes[0]), 0);
  });
  while (SumWhere("events_waits_current", "EVENT_NAME", kMutexName, "EVENT_ID") == 0) std::this_thread::yield();
  EXPECT_EQ(pfs_mutex_unlock(&objects.mutexes[0]), 0);
  waiter.join();
  EXPECT_EQ(Count(kGlobal, kMutexName), 2u);
  EXPECT_GT(Waited(kMutexName), 0u);
  EXPECT_EQ(RowsOf(kMutexName), 1u);
}

TEST(Contended, counts_are_exact_while_timed_is_switched_concurrent) {
  constexpr int kThreads = 4;
  Objects objects;
  Truncate(kGlobal);
  Truncate(kByThread);
  std::atomic<bool> stop{false};
  Meeting meeting(kThreads + 1);
  std::vector<Log> logs(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(t));
      while (!stop.load(kRelaxed)) logs[static_cast<size_t>(t)].Step(objects, random);
      meeting.Wait();  // read while all live
      meeting.Wait();
    });
  }
  std::mt19937_64 random(Seed());
  uint64_t rounds = 0, wrong_times = 0, timed_rows = 0;
  for (const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()); NowNanos() < end; ++rounds) {
    constexpr const char* kValues[] = {"YES", "CONTENDED", "NO", "CONTENDED"};
    SetTimed(kValues[random() % 4]);
    if (random() % 4 == 0) Set("setup_consumers", "events_waits_current", "ENABLED", random() % 2 == 0 ? "YES" : "NO");
    const Frame frame(kLong, {"TIMER_START", "TIMER_END", "TIMER_WAIT"});
    for (size_t i = 0; i < frame.rows(); ++i) {
      if (frame.is_null(i, 2)) continue;
      ++timed_rows;
      wrong_times += frame.number(i, 1) - frame.number(i, 0) != frame.number(i, 2);
    }
  }
  stop.store(true);
  meeting.Wait();
  Log all;
  for (const Log& log : logs) all.mutex_events += log.mutex_events, all.lock_events += log.lock_events;
  for (const char* table : {kGlobal, kByInstance, kByThread}) {
    EXPECT_EQ(Count(table, kMutexName), all.mutex_events) << table;
    EXPECT_EQ(Count(table, kLockName), all.lock_events) << table;
  }
  const Frame holders("rwlock_instances", {"WRITE_LOCKED_BY_THREAD_ID", "READ_LOCKED_BY_COUNT"});
  for (size_t i = 0; i < holders.rows(); ++i) EXPECT_EQ(holders.number(i, 0) + holders.number(i, 1), 0u);
  const Frame owners("mutex_instances", {"LOCKED_BY_THREAD_ID"});
  for (size_t i = 0; i < owners.rows(); ++i) EXPECT_EQ(owners.number(i, 0), 0u);
  meeting.Wait();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_times, 0u);
  EXPECT_GT(timed_rows, 0u);
  EXPECT_EQ(StatusNumber("Performance_schema_locker_lost"), 0u);
  std::printf("%llu mutex events, %llu rwlock events, %llu turns, %llu timed rows seen\n",
              static_cast<unsigned long long>(all.mutex_events), static_cast<unsigned long long>(all.lock_events),
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(timed_rows));
  Set("setup_consumers", "events_waits_current", "ENABLED", "YES");
}

}  // namespace
}  // namespace perfschema
