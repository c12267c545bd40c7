// Read locks are counted by their holders, each in a place of its own, and READ_LOCKED_BY_COUNT is exact
// nevertheless.
//
// Contract. When no thread is inside a call of the lock, READ_LOCKED_BY_COUNT is the number of read locks that were
// taken while instrumented and not yet released. This holds for any number of threads and locks, in any order; across
// TRUNCATE, across changes of setup, across the end of threads. COUNT_STAR is exact. At any time a row that names a
// writer has no readers, and no row has more readers than possible. If a thread that signals a condition destroys it,
// waits on it are counted, for the condition or for its class.
//
// How it is checked. Every thread logs its locks and operations; at a barrier the tables must agree.
// a_release_that_goes_past_pfs_is_seen shows that the comparison can fail: it makes one release by the plain call.
#include <algorithm>
#include <array>
#include <memory>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kByInstance[] = "events_waits_summary_by_instance", kByThread[] = "events_waits_summary_by_thread_by_event_name",
               kGlobal[] = "events_waits_summary_global_by_event_name";
constexpr char kLockName[] = "wait/synch/rwlock/live/rw";
constexpr const char* kCondNames[] = {"wait/synch/cond/live/common", "wait/synch/cond/live/third"};

pfs_key_t LockKey() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_rwlock_info_t info[] = {{&made, "rw", 0, nullptr}};
    EXPECT_EQ(pfs_register_rwlock("live", info, 1), PFS_OK);
    return made;
  }();
  return key;
}

uint64_t Count(std::string_view table, const char* name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }

void Enable(bool enabled) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_instruments", &table).ok());
  const Condition where{"NAME", kLockName, false};
  const Assignment set{"ENABLED", enabled ? "YES" : "NO"};
  uint64_t changed = 0;
  ASSERT_TRUE(UpdateTable(*table, {&where, 1}, {&set, 1}, &changed).ok());
}

struct Holder {
  uint64_t writer, readers;
};
// Returns the holders of each live lock, by address.
std::map<uint64_t, Holder> Holders() {
  const Frame frame("rwlock_instances", {"OBJECT_INSTANCE_BEGIN", "WRITE_LOCKED_BY_THREAD_ID", "READ_LOCKED_BY_COUNT"});
  std::map<uint64_t, Holder> holders;
  for (size_t i = 0; i < frame.rows(); ++i) holders[frame.number(i, 0)] = {frame.number(i, 1), frame.number(i, 2)};
  return holders;
}

constexpr int kLocks = 5;
struct Locks {
  pfs_rwlock_t locks[kLocks];
  Locks() {
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_init(LockKey(), &rw, nullptr), 0);
  }
  ~Locks() {
    for (pfs_rwlock_t& rw : locks) EXPECT_EQ(pfs_rwlock_destroy(&rw), 0);
  }
};

// The locks and operations of one thread.
struct Log {
  std::array<uint64_t, kLocks> held{};    // and counted
  std::array<uint64_t, kLocks> unseen{};  // held, and not counted
  uint64_t events = 0;

  void Step(Locks& all, std::mt19937_64& random, bool instrumented) {
    const size_t at = random() % kLocks;
    pfs_rwlock_t* rw = &all.locks[at];
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        // These are tries only, because locks are held in any order. A try fails if another thread's trywrlock has
        // succeeded.
        for (int rc = EBUSY; rc != 0; events += instrumented) rc = pfs_rwlock_tryrdlock(rw);
        ++(instrumented ? held : unseen)[at];
        break;
      case 3:  // fails while any thread reads
        if (pfs_rwlock_trywrlock(rw) == 0) pfs_rwlock_unlock(rw);
        events += instrumented;
        break;
      default:
        Release(all, at);
        break;
    }
  }
  // Counted locks are released first.
  void Release(Locks& all, size_t at) {
    if (held[at] + unseen[at] == 0) return;
    EXPECT_EQ(pfs_rwlock_unlock(&all.locks[at]), 0);
    --(held[at] != 0 ? held : unseen)[at];
  }
  void ReleaseAll(Locks& all) {
    for (size_t at = 0; at < kLocks; ++at) {
      while (held[at] + unseen[at] != 0) Release(all, at);
    }
  }
};

bool Agree(const Locks& locks, const std::vector<Log>& logs) {
  bool agree = true;
  const std::map<uint64_t, Holder> holders = Holders();
  for (size_t at = 0; at < kLocks; ++at) {
    uint64_t logged = 0;
    for (const Log& log : logs) logged += log.held[at];
    const auto found = holders.find(reinterpret_cast<uintptr_t>(&locks.locks[at]));
    if (found == holders.end()) return false;
    agree &= found->second.readers == logged && found->second.writer == 0;
    if (found->second.readers != logged) {
      std::printf("lock %zu: %llu readers shown, %llu logged\n", at, static_cast<unsigned long long>(found->second.readers),
                  static_cast<unsigned long long>(logged));
    }
  }
  return agree;
}

TEST(Rwlocks, a_release_that_goes_past_pfs_is_seen) {
  Locks locks;
  std::vector<Log> logs(1);
  EXPECT_EQ(pfs_rwlock_rdlock(&locks.locks[2]), 0);
  logs[0].held[2] = 1;
  EXPECT_TRUE(Agree(locks, logs));
  pthread_rwlock_unlock(&locks.locks[2].lock);
  logs[0].held[2] = 0;
  EXPECT_FALSE(Agree(locks, logs));
  EXPECT_EQ(pfs_rwlock_rdlock(&locks.locks[2]), 0);
  EXPECT_EQ(pfs_rwlock_unlock(&locks.locks[2]), 0);
  EXPECT_FALSE(Agree(locks, logs));
}

// A thread's last used cell is of a lock that died, and a new lock has its slot.
TEST(Rwlocks, a_lock_in_the_place_of_a_dead_one_has_readers_of_its_own) {
  pfs_rwlock_t rw;
  Meeting meeting(2);
  std::thread reader([&] {
    for (int lives = 0; lives < 3; ++lives) {
      meeting.Wait();
      EXPECT_EQ(pfs_rwlock_rdlock(&rw), 0);
      meeting.Wait();
      meeting.Wait();
      EXPECT_EQ(pfs_rwlock_unlock(&rw), 0);
      meeting.Wait();
    }
  });
  const pfs_instance_t* place = nullptr;
  for (int lives = 0; lives < 3; ++lives) {
    ASSERT_EQ(pfs_rwlock_init(LockKey(), &rw, nullptr), 0);
    EXPECT_TRUE(place == nullptr || rw.instance == place);
    place = rw.instance;
    meeting.Wait();
    meeting.Wait();
    EXPECT_EQ(Holders().begin()->second.readers, 1u);
    EXPECT_EQ(Count(kByInstance, kLockName), 1u);
    meeting.Wait();
    meeting.Wait();
    EXPECT_EQ(Holders().begin()->second.readers, 0u);
    EXPECT_EQ(pfs_rwlock_destroy(&rw), 0);
  }
  reader.join();
}

// Runs threads for a number of rounds, and checks the tables while all rest. A thread may leave only after it has
// released all locks.
void Rest(int threads, int rounds) {
  Locks locks;
  std::vector<Log> logs(static_cast<size_t>(threads));
  std::mt19937_64 random(Seed());
  bool instrumented = true;
  Truncate(kGlobal);
  uint64_t counted_before = 0;
  for (int round = 0; round < rounds; ++round) {
    const bool last = round + 1 == rounds;
    // Now and then a new thread takes over a log that holds no lock: it continues in the slot of an ended thread.
    Meeting meeting(threads + 1);
    std::vector<std::thread> workers;
    for (size_t t = 0; t < logs.size(); ++t) {
      workers.emplace_back([&, t, seed = random()] {
        std::mt19937_64 own(seed);
        for (int repetition = 0; repetition < 4; ++repetition) {
          meeting.Wait();
          for (uint64_t i = own() % 400; i > 0; --i) logs[t].Step(locks, own, instrumented);
          meeting.Wait();  // all rest
        }
        meeting.Wait();
        logs[t].ReleaseAll(locks);
        meeting.Wait();
      });
    }
    for (int repetition = 0; repetition < 4; ++repetition) {
      if (random() % 3 == 0) Enable(instrumented = !instrumented);
      meeting.Wait();
      meeting.Wait();
      EXPECT_TRUE(Agree(locks, logs)) << "round " << round;
      uint64_t events = 0;
      for (const Log& log : logs) events += log.events;
      EXPECT_EQ(Count(kGlobal, kLockName), events - counted_before);
      EXPECT_EQ(Count(kByInstance, kLockName), events - counted_before);
      if (random() % 2 == 0) {
        Truncate(random() % 2 == 0 ? kGlobal : kByThread);
        if (Count(kGlobal, kLockName) == 0) counted_before = events;
        EXPECT_TRUE(Agree(locks, logs)) << "after TRUNCATE, round " << round;
      }
    }
    meeting.Wait();
    meeting.Wait();
    for (std::thread& worker : workers) worker.join();
    EXPECT_TRUE(Agree(locks, logs));
    if (last) Enable(true);
  }
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), 0u);
}
TEST(Rwlocks, readers_at_rest_in_one_thread) { Rest(1, 30); }
TEST(Rwlocks, readers_at_rest_of_concurrent_threads) { Rest(4, 30); }

// N x M on one lock, readers and writers, while another thread reads the tables.
void CountLocks(int threads, int locks) {
  pfs_rwlock_t rw;
  ASSERT_EQ(pfs_rwlock_init(LockKey(), &rw, nullptr), 0);
  Truncate(kGlobal);
  Truncate(kByThread);
  Meeting meeting(threads + 1);
  std::atomic<int> done{0};
  uint64_t guarded = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      meeting.Wait();
      for (int i = 0; i < locks; ++i) {
        if (i % 16 == 0) {
          pfs_rwlock_wrlock(&rw);
          ++guarded;
          if (i % 512 == 0) std::this_thread::yield();  // long enough to be seen
          pfs_rwlock_unlock(&rw);
        } else {
          pfs_rwlock_rdlock(&rw);
          if (i % 4 == 1 && pfs_rwlock_tryrdlock(&rw) == 0) {
            ++i;
            pfs_rwlock_unlock(&rw);
          }
          pfs_rwlock_unlock(&rw);
        }
      }
      done.fetch_add(1);
      meeting.Wait();
      meeting.Wait();
    });
  }
  meeting.Wait();
  uint64_t looks = 0, with_writer = 0, with_readers = 0;
  while (done.load() < threads) {
    const Holder now = Holders().begin()->second;
    EXPECT_TRUE(now.writer == 0 || now.readers == 0);
    EXPECT_LE(now.readers, 2u * static_cast<uint64_t>(threads));
    with_writer += now.writer != 0, with_readers += now.readers != 0, ++looks;
  }
  meeting.Wait();
  const auto expected = static_cast<uint64_t>(threads) * static_cast<uint64_t>(locks);
  EXPECT_EQ(guarded, static_cast<uint64_t>(threads) * static_cast<uint64_t>((locks + 15) / 16));
  for (const char* table : {kByInstance, kGlobal, kByThread}) EXPECT_EQ(Count(table, kLockName), expected) << table;
  EXPECT_EQ(Holders().begin()->second.readers, 0u);
  EXPECT_EQ(Holders().begin()->second.writer, 0u);
  meeting.Wait();
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(Count(kGlobal, kLockName), expected);
  EXPECT_EQ(pfs_rwlock_destroy(&rw), 0);
  EXPECT_EQ(Count(kGlobal, kLockName), expected);
  EXPECT_EQ(Count(kByInstance, kLockName), 0u);
  std::printf("%d threads x %d locks, %llu looks: %llu saw a writer, %llu readers\n", threads, locks,
              static_cast<unsigned long long>(looks), static_cast<unsigned long long>(with_writer),
              static_cast<unsigned long long>(with_readers));
}
TEST(Rwlocks, counts_of_one_thread) { CountLocks(1, 1600); }
TEST(Rwlocks, counts_of_four_concurrent_threads) { CountLocks(4, 16 * (StressTime().count() > 1000 ? 10'000 : 2'000)); }

// Locks are made and destroyed while others are read; threads come and go; only the end is at rest.
TEST(Rwlocks, objects_and_threads_that_come_and_go) {
  struct Slot {
    std::mutex lifetime;  // readers of the slot do not meet its end
    std::unique_ptr<pfs_rwlock_t> rw;
    std::atomic<int> users{0};
    std::atomic<uint64_t> events{0};  // of this lock, not of those that were here before
  };
  std::array<Slot, 6> slots;
  std::atomic<uint64_t> events{0};
  Truncate(kGlobal);
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(t));
      while (NowNanos() < end) {
        std::thread([&, seed = random()] {
          std::mt19937_64 own(seed);
          uint64_t mine = 0;
          for (uint64_t i = own() % 500; i > 0; --i) {
            Slot& slot = slots[own() % slots.size()];
            pfs_rwlock_t* rw = nullptr;
            {
              const std::lock_guard<std::mutex> lock(slot.lifetime);
              if (slot.rw == nullptr) {
                slot.rw = std::make_unique<pfs_rwlock_t>();
                slot.events.store(0);
                EXPECT_EQ(pfs_rwlock_init(LockKey(), slot.rw.get(), nullptr), 0);
              } else if (own() % 8 == 0 && slot.users.load() == 0) {
                EXPECT_EQ(pfs_rwlock_destroy(slot.rw.get()), 0);
                slot.rw.reset();
                continue;
              }
              slot.users.fetch_add(1);
              rw = slot.rw.get();
            }
            EXPECT_EQ(pfs_rwlock_rdlock(rw), 0);
            EXPECT_EQ(pfs_rwlock_trywrlock(rw), EBUSY);
            EXPECT_EQ(pfs_rwlock_unlock(rw), 0);
            mine += 2;
            slot.events.fetch_add(2);
            slot.users.fetch_sub(1);
          }
          events.fetch_add(mine);
        }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [address, holder] : Holders()) EXPECT_EQ(holder.readers, 0u) << address;
  EXPECT_EQ(Count(kGlobal, kLockName), events.load());
  const Frame instances(kByInstance, {"OBJECT_INSTANCE_BEGIN", "COUNT_STAR"});
  for (size_t row = 0; row < instances.rows(); ++row) {
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const Slot& one) { return reinterpret_cast<uintptr_t>(one.rw.get()) == instances.number(row, 0); });
    ASSERT_NE(slot, slots.end());
    EXPECT_EQ(instances.number(row, 1), slot->events.load());
  }
  for (Slot& slot : slots) {
    if (slot.rw != nullptr) pfs_rwlock_destroy(slot.rw.get());
  }
  EXPECT_EQ(Count(kGlobal, kLockName), events.load());
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), 0u);
  std::printf("%llu events\n", static_cast<unsigned long long>(events.load()));
}

// ---- Conditions ------------------------------------------------------------------------------------------------------------------

// The thread that wakes the others destroys the condition at once, while they are leaving it, and makes the next one,
// of another class, in its place.
TEST(Conditions, that_die_while_woken_threads_leave_them_count_every_wait) {
  constexpr int kWaiters = 3;
  pfs_key_t keys[2] = {}, mutex_key = MutexKey("LOCK_changed");
  pfs_cond_info_t info[] = {{&keys[0], "common", 0, nullptr}, {&keys[1], "third", 0, nullptr}};
  ASSERT_EQ(pfs_register_cond("live", info, 2), PFS_OK);
  pfs_mutex_t mutex;
  pfs_mutex_init(mutex_key, &mutex, nullptr);
  Truncate(kGlobal);
  Truncate(kByThread);
  std::unique_ptr<pfs_cond_t> changed;
  uint64_t generation = 0, waits[2] = {}, waiting = 0, lives = 0;
  const auto kind = [](uint64_t lifetime) {
    return lifetime % 3 == 2 ? 1 : 0;
  };  // not alternating: a mistake about neighbors must not cancel out
  const auto make = [&] {
    changed = std::make_unique<pfs_cond_t>();
    EXPECT_EQ(pfs_cond_init(keys[kind(lives++)], changed.get(), nullptr), 0);
  };
  make();
  bool stop = false;
  std::vector<std::thread> waiters;
  Meeting meeting(kWaiters + 1);
  for (int t = 0; t < kWaiters; ++t) {
    waiters.emplace_back([&] {
      pfs_mutex_lock(&mutex);
      while (!stop) {
        const uint64_t mine = generation;
        ++waiting;
        while (generation == mine && !stop) {
          EXPECT_EQ(pfs_cond_wait(changed.get(), &mutex), 0);
          ++waits[kind(mine)];
        }
      }
      pfs_mutex_unlock(&mutex);
      meeting.Wait();
      meeting.Wait();
    });
  }
  for (const uint64_t end = NowNanos() + 1'000'000 * StressTime().count(); !stop; std::this_thread::yield()) {
    pfs_mutex_lock(&mutex);
    if (waiting == kWaiters) {
      waiting = 0;
      ++generation;
      stop = NowNanos() > end;
      pfs_cond_broadcast(changed.get());
      EXPECT_EQ(pfs_cond_destroy(changed.get()), 0);
      changed = nullptr;
      if (!stop) make();
      if (lives % 64 == 0) {
        EXPECT_LE(Count(kGlobal, kCondNames[0]), waits[0] + kWaiters);
      }
    }
    pfs_mutex_unlock(&mutex);
  }
  meeting.Wait();
  for (int i : {0, 1}) {
    EXPECT_EQ(Count(kGlobal, kCondNames[i]), waits[i]);
    EXPECT_EQ(Count(kByThread, kCondNames[i]), waits[i]);
    EXPECT_EQ(Count(kByInstance, kCondNames[i]), 0u);
  }
  meeting.Wait();
  for (std::thread& waiter : waiters) waiter.join();
  for (int i : {0, 1}) EXPECT_EQ(Count(kGlobal, kCondNames[i]), waits[i]);
  EXPECT_EQ(pfs_mutex_destroy(&mutex), 0);
  std::printf("%llu conditions, %llu waits\n", static_cast<unsigned long long>(lives),
              static_cast<unsigned long long>(waits[0] + waits[1]));
}

}  // namespace
}  // namespace perfschema
