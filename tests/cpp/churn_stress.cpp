// Objects that are made and destroyed all the time, most of them without the cold lock (record/engine/free_lists.h).
// No event is lost or counted twice.
//
// Contract. Objects are created, used and destroyed, by the thread that made them or by another one. Meanwhile totals
// of instruments never go down, never exceed the number of begun events, and no row is missing. At rest totals are
// exact, every live object has one row with its own events, and no dead object has a row. A TRUNCATE removes the
// events that ended before it and no event that begins after it. An object is refused only if the limit of live
// objects is reached.
//
// How it is checked. Every thread counts the events that it begins and ends. The negative control is this program
// with a library that reuses slots with their numbers (PFS_BREAK_FREE_LISTS): the test must fail.
#include <array>
#include <memory>

#include "live.h"
#include "record/engine/classes.h"
#include "record/engine/runtime.h"

namespace perfschema {
namespace {

constexpr char kByInstance[] = "events_waits_summary_by_instance", kGlobal[] = "events_waits_summary_global_by_event_name";
constexpr int kKinds = 4, kThreads = 4;
constexpr const char* kNames[kKinds] = {"wait/synch/mutex/live/one", "wait/synch/mutex/live/two", "wait/synch/cond/live/one",
                                        "wait/synch/rwlock/live/one"};
constexpr const char* kTables[kKinds] = {"mutex_instances", "mutex_instances", "cond_instances", "rwlock_instances"};

const std::array<pfs_key_t, kKinds>& Keys() {
  static const std::array<pfs_key_t, kKinds> keys = [] {
    std::array<pfs_key_t, kKinds> made{};
    made[0] = MutexKey("one"), made[1] = MutexKey("two");
    pfs_cond_info_t cond[] = {{&made[2], "one", 0, nullptr}};
    pfs_rwlock_info_t rwlock[] = {{&made[3], "one", 0, nullptr}};
    EXPECT_EQ(pfs_register_cond("live", cond, 1), PFS_OK);
    EXPECT_EQ(pfs_register_rwlock("live", rwlock, 1), PFS_OK);
    return made;
  }();
  return keys;
}

struct Counts {
  std::atomic<uint64_t> begun[kKinds] = {}, done[kKinds] = {};
};

class Object {
 public:
  explicit Object(int kind) : kind_(kind) {
    const pfs_key_t key = Keys()[static_cast<size_t>(kind)];
    const int rc = kind < 2    ? pfs_mutex_init(key, &mutex_, nullptr)
                   : kind == 2 ? pfs_cond_init(key, &cond_, nullptr)
                               : pfs_rwlock_init(key, &rwlock_, nullptr);
    EXPECT_EQ(rc, 0);
  }
  ~Object() { EXPECT_EQ(kind_ < 2 ? pfs_mutex_destroy(&mutex_) : kind_ == 2 ? pfs_cond_destroy(&cond_) : pfs_rwlock_destroy(&rwlock_), 0); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void Use(Counts& counts) {
    counts.begun[kind_].fetch_add(1);
    if (kind_ < 2) {
      pfs_mutex_lock(&mutex_);
      pfs_mutex_unlock(&mutex_);
    } else if (kind_ == 2) {
      const timespec past{-1, 0};
      static thread_local pfs_mutex_t plain = {PTHREAD_MUTEX_INITIALIZER, nullptr, nullptr};
      pfs_mutex_lock(&plain);
      EXPECT_EQ(pfs_cond_timedwait(&cond_, &plain, &past), ETIMEDOUT);
      pfs_mutex_unlock(&plain);
    } else {
      pfs_rwlock_rdlock(&rwlock_);
      pfs_rwlock_unlock(&rwlock_);
    }
    counts.done[kind_].fetch_add(1);
    ++uses_;
  }
  int kind() const { return kind_; }
  uint64_t uses() const { return uses_; }
  bool is_recorded() const { return (kind_ < 2 ? mutex_.instance : kind_ == 2 ? cond_.instance : rwlock_.instance) != nullptr; }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(&mutex_); }

 private:
  const int kind_;
  uint64_t uses_ = 0;
  union {
    pfs_mutex_t mutex_;
    pfs_cond_t cond_;
    pfs_rwlock_t rwlock_;
  };
};

uint64_t Total(int kind) { return SumWhere(kGlobal, "EVENT_NAME", kNames[kind], "COUNT_STAR"); }

// The objects that the threads leave alive.
using Kept = std::vector<std::unique_ptr<Object>>;

// Objects that another thread destroys.
std::array<std::atomic<Object*>, 8> handed;

void Churn(std::mt19937_64 random, Counts& counts, uint64_t end, Kept& kept) {
  while (NowNanos() < end) {
    for (int i = 0; i < 64; ++i) {
      const uint64_t draw = random();
      auto object = std::make_unique<Object>(static_cast<int>(draw % kKinds));
      EXPECT_TRUE(object->is_recorded());
      // Most are never used.
      for (uint64_t use = (draw >> 8) % 4 == 0 ? (draw >> 10) % 4 : 0; use > 0; --use) object->Use(counts);
      if ((draw >> 16) % 16 == 0) {
        delete handed[(draw >> 20) % handed.size()].exchange(object.release());
      } else if ((draw >> 16) % 16 == 1) {
        auto& place = kept[(draw >> 20) % kept.size()];
        place = std::move(object);
      }
    }
  }
}

// Compares the rows of all live objects with their events. Returns the number of wrong rows.
int WrongRows(const std::vector<Kept>& kept, bool was_truncated) {
  std::map<uint64_t, const Object*> live;
  for (const Kept& of_thread : kept) {
    for (const auto& object : of_thread) {
      if (object != nullptr) live[object->address()] = object.get();
    }
  }
  for (const auto& place : handed) {
    if (const Object* object = place.load(); object != nullptr) live[object->address()] = object;
  }
  int wrong = 0;
  size_t rows = 0;
  const Frame frame(kByInstance, {"OBJECT_INSTANCE_BEGIN", "EVENT_NAME", "COUNT_STAR"});
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 1).find("/live/") == std::string_view::npos) continue;
    ++rows;
    const auto found = live.find(frame.number(i, 0));
    const bool is_right = found != live.end() && frame.text(i, 1) == kNames[found->second->kind()] &&
                          (was_truncated ? frame.number(i, 2) <= found->second->uses() : frame.number(i, 2) == found->second->uses());
    wrong += is_right ? 0 : 1;
  }
  wrong += rows == live.size() ? 0 : 1;
  size_t listed = 0;
  for (const char* table : {kTables[0], kTables[2], kTables[3]}) {
    const Frame instances(table, {"OBJECT_INSTANCE_BEGIN", "NAME"});
    for (size_t i = 0; i < instances.rows(); ++i) listed += instances.text(i, 1).find("/live/") != std::string_view::npos ? 1 : 0;
  }
  return wrong + (listed == live.size() ? 0 : 1);
}

void Rounds(bool truncates, int rounds) {
  std::mt19937_64 random(Seed());
  std::vector<Kept> kept(kThreads);
  for (Kept& of_thread : kept) of_thread.resize(5);
  Counts counts;
  uint64_t before[kKinds] = {}, checks = 0, wrong = 0;
  Truncate(kGlobal);
  Truncate(kByInstance);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()) / static_cast<uint64_t>(rounds);
    std::vector<std::thread> workers;
    for (size_t t = 0; t < kThreads; ++t) workers.emplace_back(Churn, std::mt19937_64(random()), std::ref(counts), end, std::ref(kept[t]));
    // For each kind: the least and the most events that were counted after the last TRUNCATE.
    uint64_t gone_least[kKinds], gone_most[kKinds], seen[kKinds] = {};
    std::copy_n(before, kKinds, gone_least);
    std::copy_n(before, kKinds, gone_most);
    while (NowNanos() < end) {
      if (truncates) {
        for (int kind = 0; kind < kKinds; ++kind) gone_least[kind] = counts.done[kind].load();
        Truncate(kGlobal);
        for (int kind = 0; kind < kKinds; ++kind) gone_most[kind] = counts.begun[kind].load();
        std::fill_n(seen, kKinds, 0u);
      }
      for (int attempt = 0; attempt < 5; ++attempt, ++checks) {
        uint64_t done[kKinds];
        for (int kind = 0; kind < kKinds; ++kind) done[kind] = counts.done[kind].load();
        const Frame frame(kGlobal, {"EVENT_NAME", "COUNT_STAR"});
        EXPECT_EQ(frame.skipped(), 0u);
        for (size_t i = 0; i < frame.rows(); ++i) {
          const auto kind = std::find(std::begin(kNames), std::end(kNames), frame.text(i, 0)) - std::begin(kNames);
          if (kind == kKinds) continue;
          const uint64_t count = frame.number(i, 1);
          wrong += count < seen[kind] || count + gone_least[kind] > counts.begun[kind].load() ? 1 : 0;
          wrong += count + gone_most[kind] < done[kind] ? 1 : 0;
          seen[kind] = count;
        }
        const Frame instances(kByInstance, {"OBJECT_INSTANCE_BEGIN"});
        EXPECT_EQ(instances.skipped(), 0u);
      }
    }
    for (std::thread& worker : workers) worker.join();
    wrong += static_cast<uint64_t>(WrongRows(kept, truncates));
    for (int kind = 0; kind < kKinds; ++kind) {
      const uint64_t done = counts.done[kind].load(), count = Total(kind);
      wrong += count + gone_least[kind] > done || count + gone_most[kind] < done ? 1 : 0;
      before[kind] = done - count;
    }
  }
  for (auto& place : handed) delete place.exchange(nullptr);
  kept.clear();
  for (int kind = 0; kind < kKinds; ++kind) EXPECT_EQ(Total(kind), counts.done[kind].load() - before[kind]) << kNames[kind];
  EXPECT_EQ(WrongRows({}, false), 0);
  EXPECT_EQ(wrong, 0u);
  for (const char* lost : {"object_cells", "mutex_instances", "cond_instances", "rwlock_instances"}) {
    EXPECT_EQ(StatusNumber(std::string("Performance_schema_") + lost + "_lost"), 0u) << lost;
  }
  std::printf("%llu looks; wrong numbers: %llu\n", static_cast<unsigned long long>(checks), static_cast<unsigned long long>(wrong));
}
TEST(Churn, conservation_of_concurrent_threads) { Rounds(false, 8); }
TEST(Churn, conservation_with_a_truncater) { Rounds(true, 8); }

// Threads that live on use objects which another one destroys: each leaves a cell that only the thread that used it may fold. They do not
// pile up: no event is lost, and few cells are taken.
TEST(Churn, cells_of_live_threads_do_not_pile_up) {
  constexpr size_t kUsers = 12;
  constexpr uint64_t kTurns = 1'700, kObjects = kTurns * kUsers;  // more than can wait at once (shm/plan.cpp)
  constexpr int kRwlock = 3;
  const auto cells = [] { return g_runtime.segment.array(ArrayId::kCells).used.load(); };
  std::array<std::atomic<Object*>, kUsers> given{};
  Object over(0);  // its user ends
  Counts counts;
  Truncate(kGlobal);
  const uint64_t lost = StatusNumber("Performance_schema_object_cells_lost"), before = cells();
  std::vector<std::thread> users;
  for (std::atomic<Object*>& mine : given) {
    users.emplace_back([&] {
      for (;;) {
        mine.wait(nullptr);
        Object* const object = mine.load();
        if (object == &over) return;
        object->Use(counts);
        mine.store(nullptr);
        mine.notify_one();
      }
    });
  }
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    std::array<std::unique_ptr<Object>, kUsers> objects;
    for (size_t i = 0; i < kUsers; ++i) {
      objects[i] = std::make_unique<Object>(kRwlock);
      given[i].store(objects[i].get());
      given[i].notify_one();
    }
    for (size_t i = 0; i < kUsers; ++i) given[i].wait(objects[i].get());
  }
  for (std::atomic<Object*>& user : given) {
    user.store(&over);
    user.notify_one();
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(Total(kRwlock), kObjects);
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), lost);
  EXPECT_LT(cells() - before, 1000u);
}

// Setup changes while objects are created on the lock-free path: live objects have the flags of the setup afterwards.
// A thread that is done with one kind of object makes the next kind from its free slots as well, and not under the cold lock each time.
TEST(Churn, slots_of_another_class_leave_a_full_list) {
  std::thread([] {
    Counts counts;
    {
      std::vector<std::unique_ptr<Object>> first;
      for (uint32_t i = 0; i < 2 * kMostCached; ++i) first.push_back(std::make_unique<Object>(1));
      for (const auto& object : first) object->Use(counts);
    }
    const auto slots_of = [](uint32_t class_index) {
      uint32_t found = 0;
      for (uint32_t i = 0; i < t_locals.free_lists->count.load(); ++i) {
        const uint32_t slot = t_locals.free_lists->slots[i].load();
        found += g_runtime.instances[slot].class_index.load() == class_index ? 1 : 0;
      }
      return found;
    };
    const uint32_t class_one = ClassOfKey(Family::kMutex, Keys()[0]), class_two = ClassOfKey(Family::kMutex, Keys()[1]);
    EXPECT_EQ(slots_of(class_two), kMostCached);
    for (int i = 0; i < 100; ++i) Object(0).Use(counts);
    EXPECT_EQ(slots_of(class_one), kMostCached / 2);
    EXPECT_EQ(slots_of(class_two), kMostCached / 2);
    for (int i = 0; i < 100; ++i) Object(1).Use(counts);
    EXPECT_EQ(slots_of(class_one), kMostCached / 2) << "both have enough";
  }).join();
}

TEST(Churn, flags_are_those_of_the_setup) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_instruments", &table).ok());
  bool enabled = true;
  std::atomic<bool> stop{false};
  std::atomic<int> at_rest{0};
  std::atomic<uint64_t> go{0};
  std::vector<std::thread> workers;
  std::array<std::atomic<pfs_instance_t*>, kThreads> last{};
  for (size_t t = 0; t < kThreads; ++t) {
    workers.emplace_back([&, t] {
      for (uint64_t round_number = 1; !stop.load(); ++round_number) {
        while (go.load() < round_number && !stop.load()) std::this_thread::yield();
        pfs_instance_t* instance = nullptr;
        for (int i = 0; i < 300; ++i) {
          pfs_mutex_discard(instance);
          instance = pfs_mutex_create(Keys()[0], &last[t]);
          EXPECT_NE(instance, nullptr);
        }
        last[t].store(instance);
        at_rest.fetch_add(1);
        while (go.load() == round_number && !stop.load()) std::this_thread::yield();
        pfs_mutex_discard(last[t].exchange(nullptr));
      }
    });
  }
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  uint64_t wrong = 0, turns = 0;
  while (NowNanos() < end) {
    at_rest.store(0);
    go.fetch_add(1);
    while (at_rest.load() < kThreads) {
      enabled = !enabled;
      const Condition where{"NAME", kNames[0], false};
      const Assignment set{"ENABLED", enabled ? "YES" : "NO"};
      uint64_t changed = 0;
      ASSERT_TRUE(UpdateTable(*table, {&where, 1}, {&set, 1}, &changed).ok());
    }
    for (const auto& instance : last) wrong += (pfs_enabled_(instance.load()) != 0) == enabled ? 0 : 1;
    ++turns;
  }
  stop.store(true);
  for (std::thread& worker : workers) worker.join();
  const Condition where{"NAME", kNames[0], false};
  const Assignment set{"ENABLED", "YES"};
  uint64_t changed = 0;
  ASSERT_TRUE(UpdateTable(*table, {&where, 1}, {&set, 1}, &changed).ok());
  EXPECT_EQ(wrong, 0u);
  std::printf("%llu turns\n", static_cast<unsigned long long>(turns));
}

}  // namespace
}  // namespace perfschema
