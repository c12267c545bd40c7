// TIMED = 'SAMPLED': no event is lost or counted twice, and the events that are not timed are known exactly.
//
// Contract. COUNT_STAR is exact, as with YES. COUNT_STAR - COUNT_NOT_SAMPLED events were timed, and these are the rows of
// events_waits_history_long. Both hold for live and dead objects, for threads, and after a TRUNCATE. A reader never sees
// more events that were not timed than events, and AVG lies between MIN and MAX. COUNT_STAR also stays exact while TIMED
// goes through all of its values, and while another table is truncated.
//
// How it is checked. Every thread logs its operations. Objects come and go, so that numbers move from objects to their
// classes. Negative control: the library built with PFS_BREAK_UNSAMPLED forgets, when an object dies, which of its events
// were not timed.
#include <fcntl.h>
#include <unistd.h>

#include <cmath>

#include "live.h"
#include "record/engine/runtime.h"
#include "setup/ceiling.h"

namespace perfschema {
namespace {

constexpr char kGlobal[] = "events_waits_summary_global_by_event_name", kByThread[] = "events_waits_summary_by_thread_by_event_name",
               kByInstance[] = "events_waits_summary_by_instance", kLong[] = "events_waits_history_long";
constexpr char kMutexName[] = "wait/synch/mutex/live/sampled", kLockName[] = "wait/synch/rwlock/live/sampled",
               kFileName[] = "wait/io/file/live/sampled";
constexpr const char* kNames[] = {kMutexName, kLockName, kFileName};

void SetTimed(const char* name, const char* value) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_instruments", &table).ok());
  const Condition where{"NAME", name, false};
  const Assignment set{"TIMED", value};
  uint64_t changed = 0;
  const Status status = UpdateTable(*table, {&where, 1}, {&set, 1}, &changed);
  ASSERT_TRUE(status.ok()) << status.message();
}
void SetTimed(const char* value) {
  for (const char* name : kNames) SetTimed(name, value);
}
void TruncateAll() {
  for (const char* table : {kLong, kByThread, kGlobal}) Truncate(table);
}

uint64_t Count(std::string_view table, const char* name, std::string_view column = "COUNT_STAR") {
  return SumWhere(table, "EVENT_NAME", name, column);
}
uint64_t Timed(std::string_view table, const char* name) { return Count(table, name) - Count(table, name, "COUNT_NOT_SAMPLED"); }
size_t RowsOf(const char* name) {
  const Frame frame(kLong, {"EVENT_NAME"});
  size_t found = 0;
  for (size_t i = 0; i < frame.rows(); ++i) found += frame.text(i, 0) == name ? 1 : 0;
  return found;
}

pfs_key_t Key() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_rwlock_info_t info[] = {{&made, "sampled", 0, nullptr}};
    EXPECT_EQ(pfs_register_rwlock("live", info, 1), PFS_OK);
    return made;
  }();
  return key;
}

// Objects that all threads use.
struct Objects {
  static constexpr size_t kEach = 3;
  pfs_mutex_t mutexes[kEach];
  pfs_rwlock_t locks[kEach];
  uint64_t guarded[kEach] = {};
  int file = -1;
  TemporaryDirectory folder;

  Objects() {
    for (pfs_mutex_t& m : mutexes) EXPECT_EQ(pfs_mutex_init(MutexKey("sampled"), &m, nullptr), 0);
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_init(Key(), &rw, nullptr), 0);
    file = pfs_open(FileKey("sampled"), (folder / "file").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_GE(file, 0);
    EXPECT_EQ(pfs_write(file, "0123456789", 10), 10);
  }
  ~Objects() {
    for (pfs_mutex_t& m : mutexes) EXPECT_EQ(pfs_mutex_destroy(&m), 0);
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_destroy(&rw), 0);
    EXPECT_EQ(pfs_close(file), 0);
  }
};

// What one thread has done, by instrument, as kNames.
struct Log {
  uint64_t events[3] = {}, bytes_read = 0;

  void Step(Objects& all, std::mt19937_64& random) {
    const size_t at = random() % Objects::kEach;
    switch (random() % 8) {
      case 0: {  // an object of its own, which dies
        pfs_mutex_t own;
        EXPECT_EQ(pfs_mutex_init(MutexKey("sampled"), &own, nullptr), 0);
        for (int i = 0; i < 5; ++i) Lock(&own, pfs_mutex_lock(&own), nullptr);
        EXPECT_EQ(pfs_mutex_destroy(&own), 0);
        return;
      }
      case 1:
        return Lock(&all.mutexes[at], pfs_mutex_trylock(&all.mutexes[at]), &all.guarded[at]);
      case 2:
        return Shared(&all.locks[at], pfs_rwlock_rdlock(&all.locks[at]));
      case 3:
        return Shared(&all.locks[at], pfs_rwlock_wrlock(&all.locks[at]));
      case 4:
      case 5: {
        char buffer[4];
        EXPECT_EQ(pfs_pread(all.file, buffer, sizeof buffer, 0), 4);
        bytes_read += 4;
        ++events[2];
        return;
      }
      default:
        return Lock(&all.mutexes[at], pfs_mutex_lock(&all.mutexes[at]), &all.guarded[at]);
    }
  }
  void Lock(pfs_mutex_t* m, int rc, uint64_t* guarded) {
    ++events[0];
    if (rc != 0) return;
    if (guarded != nullptr) ++*guarded;
    EXPECT_EQ(pfs_mutex_unlock(m), 0);
  }
  void Shared(pfs_rwlock_t* rw, int rc) {
    ++events[1];
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(pfs_rwlock_unlock(rw), 0);
  }
  Log& operator+=(const Log& other) {
    for (int i = 0; i < 3; ++i) events[i] += other.events[i];
    bytes_read += other.bytes_read;
    return *this;
  }
};

// Returns the number of rows that contradict themselves.
uint64_t WrongRows(std::string_view table) {
  const Frame frame(table, {"COUNT_STAR", "COUNT_NOT_SAMPLED", "MIN_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT"});
  uint64_t wrong = 0;
  for (size_t i = 0; i < frame.rows(); ++i) {
    wrong += frame.number(i, 1) > frame.number(i, 0) ? 1 : 0;
    wrong += frame.number(i, 3) > frame.number(i, 4) ? 1 : 0;
  }
  return wrong;
}

// `threads` do `steps` each, or until `stop`. `meanwhile` runs in this thread. Calls check() while all threads live.
template <typename Meanwhile, typename Check>
void Work(Objects& objects, int count, int steps, Meanwhile meanwhile, Check check) {
  std::atomic<bool> stop{false};
  std::atomic<int> working{count};
  Meeting meeting(count + 1);
  std::vector<Log> logs(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(t));
      Log& log = logs[static_cast<size_t>(t)];
      for (int i = 0; steps == 0 ? !stop.load(kRelaxed) : i < steps; ++i) log.Step(objects, random);
      working.fetch_sub(1);
      meeting.Wait();
      meeting.Wait();
    });
  }
  while (meanwhile(working.load())) {
  }
  stop.store(true);
  meeting.Wait();
  Log all;
  for (const Log& log : logs) all += log;
  check(all);
  meeting.Wait();
  for (std::thread& thread : threads) thread.join();
}

TEST(Sampled, the_timed_events_are_the_rows_of_history) {
  pfs_init("performance_schema_events_waits_history_long_size=10000");  // all that are timed
  Objects objects;
  SetTimed("SAMPLED");
  uint64_t wrong = 0, rounds = 0, timed = 0, events = 0;
  for (const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()); rounds == 0 || NowNanos() < end;
       ++rounds) {
    for (const char* name : kNames) {
      SetTimed(name, "NO");
    }
    SetTimed("SAMPLED");
    TruncateAll();
    const auto reading = [&](int working) {
      wrong += WrongRows(kGlobal) + WrongRows(kByInstance) + WrongRows(kByThread);
      return working > 0;
    };
    Work(objects, rounds % 2 == 0 ? 4 : 1, 20'000, reading, [&](const Log& all) {
      for (int i = 0; i < 3; ++i) {
        for (const char* table : {kGlobal, kByThread}) {
          EXPECT_EQ(Count(table, kNames[i]), all.events[i]) << table << " " << kNames[i];
          wrong += Timed(table, kNames[i]) != RowsOf(kNames[i]) ? 1 : 0;
        }
        timed += RowsOf(kNames[i]);
        events += all.events[i];
        const double expected = static_cast<double>(all.events[i]) / 64;
        EXPECT_NEAR(static_cast<double>(RowsOf(kNames[i])), expected, 6 * std::sqrt(expected) + 10) << kNames[i];
      }
      EXPECT_EQ(Count(kByInstance, kFileName), all.events[2]);
      EXPECT_EQ(Timed(kByInstance, kFileName), RowsOf(kFileName));
      EXPECT_EQ(Count(kByInstance, kLockName), all.events[1]);
      EXPECT_EQ(Timed(kByInstance, kLockName), RowsOf(kLockName));
      EXPECT_EQ(SumWhere("file_summary_by_event_name", "EVENT_NAME", kFileName, "SUM_NUMBER_OF_BYTES_READ"), all.bytes_read);
    });
    // The threads have ended, and the object of each table that died is in the total.
    wrong += Timed(kGlobal, kMutexName) != RowsOf(kMutexName) ? 1 : 0;
  }
  std::printf("%llu events, %llu timed, %llu rounds; wrong numbers: %llu\n", static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(timed), static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(StatusNumber("Performance_schema_locker_lost"), 0u);
}

TEST(Sampled, counts_are_exact_while_timed_is_switched_concurrent) {
  Objects objects;
  SetTimed("SAMPLED");
  TruncateAll();
  std::mt19937_64 random(Seed());
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  uint64_t turns = 0, wrong = 0;
  const auto switching = [&](int) {
    constexpr const char* kValues[] = {"YES", "SAMPLED", "NO", "SAMPLED", "CONTENDED"};
    const char* const value = kValues[random() % 5];
    for (const char* name : kNames) SetTimed(name, name == kFileName && value[0] == 'C' ? "SAMPLED" : value);
    if (random() % 4 == 0) Truncate(kByThread);
    wrong += WrongRows(kGlobal) + WrongRows(kByInstance) + WrongRows(kByThread);
    ++turns;
    return NowNanos() < end;
  };
  Work(objects, 4, 0, switching, [&](const Log& all) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Count(kGlobal, kNames[i]), all.events[i]) << kNames[i];
    EXPECT_EQ(SumWhere("file_summary_by_event_name", "EVENT_NAME", kFileName, "SUM_NUMBER_OF_BYTES_READ"), all.bytes_read);
  });
  const Frame holders("rwlock_instances", {"WRITE_LOCKED_BY_THREAD_ID", "READ_LOCKED_BY_COUNT"});
  for (size_t i = 0; i < holders.rows(); ++i) EXPECT_EQ(holders.number(i, 0) + holders.number(i, 1), 0u);
  const Frame owners("mutex_instances", {"LOCKED_BY_THREAD_ID"});
  for (size_t i = 0; i < owners.rows(); ++i) EXPECT_EQ(owners.number(i, 0), 0u);
  std::printf("%llu turns; wrong rows: %llu\n", static_cast<unsigned long long>(turns), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
}

uint32_t ClassNumber(const char* name) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint32_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    if (entry.family != 0 && std::string_view(reinterpret_cast<const char*>(entry.name), entry.name_bytes) == name) return i;
  }
  ADD_FAILURE() << "no instrument " << name;
  return 0;
}

// The ceiling (setup/ceiling.h) steps all instruments up and down, a thousand times and more, while eight threads count, this one reads and
// truncates, and the governor itself runs.
TEST(Sampled, counts_are_exact_while_the_ceiling_steps_concurrent) {
  constexpr uint64_t kSteps = 1000;
  Objects objects;
  SetTimed("YES");
  ASSERT_TRUE(UpdateCeiling(1'000'000, std::nullopt).ok());
  TruncateAll();
  uint32_t classes[3];
  for (int i = 0; i < 3; ++i) classes[i] = ClassNumber(kNames[i]);
  std::mt19937_64 random(Seed());
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  uint64_t turns = 0, wrong = 0, steps = 0;
  const auto stepping = [&](int) {
    std::vector<StepChange> changes;
    for (const uint32_t at : classes) {
      const auto to = static_cast<Step>(random() % 3);  // never off
      steps += to != StepOf(g_runtime.classes[at]) ? 1 : 0;
      changes.push_back({at, to, 0, 0, 0});
    }
    ApplySteps(changes);
    if (turns % 8 == 0) Truncate(kByThread);
    if (turns % 4 == 0) wrong += WrongRows(kGlobal) + WrongRows(kByInstance) + WrongRows(kByThread);
    ++turns;
    return NowNanos() < end || steps < kSteps;
  };
  Work(objects, 8, 0, stepping, [&](const Log& all) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Count(kGlobal, kNames[i]), all.events[i]) << kNames[i];
    EXPECT_EQ(SumWhere("file_summary_by_event_name", "EVENT_NAME", kFileName, "SUM_NUMBER_OF_BYTES_READ"), all.bytes_read);
  });
  const Frame owners("mutex_instances", {"LOCKED_BY_THREAD_ID"});
  for (size_t i = 0; i < owners.rows(); ++i) EXPECT_EQ(owners.number(i, 0), 0u);
  const Frame noted("overhead_steps", {"STEP_NUMBER"});
  EXPECT_EQ(noted.rows(), kKeptSteps);
  std::printf("%llu steps in %llu turns; wrong rows: %llu\n", static_cast<unsigned long long>(steps),
              static_cast<unsigned long long>(turns), static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(steps, kSteps);
  ASSERT_TRUE(UpdateCeiling(0, std::nullopt).ok());
  for (const uint32_t at : classes) EXPECT_EQ(StepOf(g_runtime.classes[at]), Step::kFull);
}

}  // namespace
}  // namespace perfschema
