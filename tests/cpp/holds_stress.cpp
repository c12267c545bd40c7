// How long locks are held (consumer lock_holds): no hold is lost, whatever happens meanwhile.
//
// Contract. COUNT_HOLD of an instrument is the number of its releases, objects that died included, while threads make, use and destroy
// locks and a reader reads. The numbers of a row are of one moment: COUNT * MIN <= SUM <= COUNT * MAX. COUNT_HOLD of an instrument never
// goes down. After the consumer was switched and the tables were truncated meanwhile, no owner is left behind, and later holds are exact.
//
// How it is checked. Every thread counts its releases. Some locks are shared by all threads, others live for a few holds of one thread,
// so that their slots go from object to object.
#include "live.h"

namespace perfschema {
namespace {

constexpr char kByObject[] = "lock_holds_summary_by_instance", kByEvent[] = "lock_holds_summary_global_by_event_name";
constexpr char kName[] = "wait/synch/mutex/live/held";

void Switch(const char* value) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_consumers", &table).ok());
  const Condition where{"NAME", "lock_holds", true};
  const Assignment set{"ENABLED", value};
  uint64_t changed = 0;
  const Status status = UpdateTable(*table, {&where, 1}, {&set, 1}, &changed);
  ASSERT_TRUE(status.ok()) << status.message();
}

uint64_t Holds(const char* table) { return SumWhere(table, "EVENT_NAME", kName, "COUNT_HOLD"); }

struct Shared {
  pfs_key_t key = MutexKey("held");
  pfs_mutex_t all[2];
  uint64_t guarded[2] = {};

  Shared() {
    for (pfs_mutex_t& m : all) EXPECT_EQ(pfs_mutex_init(key, &m, nullptr), 0);
  }
  ~Shared() {
    for (pfs_mutex_t& m : all) EXPECT_EQ(pfs_mutex_destroy(&m), 0);
  }
};

// Returns the number of releases.
uint64_t Step(Shared& shared, std::mt19937_64& random) {
  const size_t at = random() % 2;
  switch (random() % 4) {
    case 0: {  // a lock of a few holds
      pfs_mutex_t own;
      EXPECT_EQ(pfs_mutex_init(shared.key, &own, nullptr), 0);
      const uint64_t times = random() % 3;
      for (uint64_t i = 0; i < times; ++i) {
        EXPECT_EQ(pfs_mutex_lock(&own), 0);
        EXPECT_EQ(pfs_mutex_unlock(&own), 0);
      }
      EXPECT_EQ(pfs_mutex_destroy(&own), 0);
      return times;
    }
    case 1:
      if (pfs_mutex_trylock(&shared.all[at]) != 0) return 0;
      break;
    default:
      EXPECT_EQ(pfs_mutex_lock(&shared.all[at]), 0);
  }
  ++shared.guarded[at];
  EXPECT_EQ(pfs_mutex_unlock(&shared.all[at]), 0);
  return 1;
}

// Returns how many rows do not belong together.
uint64_t TornRows(const char* table) {
  const Frame frame(table, {"COUNT_HOLD", "SUM_TIMER_HOLD", "MIN_TIMER_HOLD", "MAX_TIMER_HOLD", "LONGEST_THREAD_ID"});
  uint64_t torn = 0;
  for (size_t i = 0; i < frame.rows(); ++i) {
    const uint64_t count = frame.number(i, 0), sum = frame.number(i, 1);
    torn += count == 0 || sum < count * frame.number(i, 2) || sum > count * frame.number(i, 3) || frame.number(i, 4) == 0;
  }
  return torn;
}

// Runs threads while `meanwhile` is called again and again. Returns the number of releases.
template <typename Meanwhile>
uint64_t RunThreads(Shared& shared, Meanwhile meanwhile) {
  constexpr int kThreads = 4;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> released{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(t));
      uint64_t own = 0;
      while (!stop.load(kRelaxed)) own += Step(shared, random);
      released.fetch_add(own);
    });
  }
  for (const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()); NowNanos() < end;) meanwhile();
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  return released.load();
}

TEST(LockHolds, one_thread_counts_its_releases) {
  Shared shared;
  Switch("YES");
  Truncate(kByEvent);
  std::mt19937_64 random(Seed());
  uint64_t released = 0;
  for (int i = 0; i < 5000; ++i) released += Step(shared, random);
  EXPECT_EQ(Holds(kByEvent), released);
  EXPECT_EQ(Holds(kByObject), shared.guarded[0] + shared.guarded[1]);
  EXPECT_EQ(TornRows(kByObject) + TornRows(kByEvent), 0u);
}

TEST(LockHolds, no_hold_is_lost_concurrent) {
  Shared shared;
  Switch("YES");
  Truncate(kByEvent);
  uint64_t last = 0, torn = 0, backward = 0, reads = 0;
  const uint64_t released = RunThreads(shared, [&] {
    torn += TornRows(kByObject) + TornRows(kByEvent);
    const uint64_t now = Holds(kByEvent);
    backward += now < last;
    last = now;
    ++reads;
  });
  EXPECT_EQ(Holds(kByEvent), released);
  EXPECT_EQ(Holds(kByObject), shared.guarded[0] + shared.guarded[1]);
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(backward, 0u);
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), 0u);
  std::printf("%llu holds, %llu reads\n", static_cast<unsigned long long>(released), static_cast<unsigned long long>(reads));
}

TEST(LockHolds, switching_and_truncating_leave_nothing_behind_concurrent) {
  Shared shared;
  std::mt19937_64 random(Seed());
  uint64_t torn = 0;
  RunThreads(shared, [&] {
    Switch(random() % 2 == 0 ? "YES" : "NO");
    if (random() % 2 == 0) Truncate(random() % 2 == 0 ? kByObject : kByEvent);
    torn += TornRows(kByObject) + TornRows(kByEvent);
  });
  EXPECT_EQ(torn, 0u);
  const Frame owners("mutex_instances", {"LOCKED_BY_THREAD_ID"});
  for (size_t i = 0; i < owners.rows(); ++i) EXPECT_EQ(owners.number(i, 0), 0u);
  Switch("YES");
  Truncate(kByEvent);
  EXPECT_EQ(Holds(kByEvent) + Holds(kByObject), 0u);
  uint64_t released = 0;
  for (int i = 0; i < 1000; ++i) released += Step(shared, random);
  EXPECT_EQ(Holds(kByEvent), released);
  Switch("NO");
}

}  // namespace
}  // namespace perfschema
