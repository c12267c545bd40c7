// Objects that are made and destroyed without a locked instruction (record/engine/free_lists.h, record/engine/barrier.h). Whoever closes
// that path, or makes a cell for another thread's object, executes a barrier in all threads instead.
//
// Contract. While the path is closed no thread changes its list of free slots, nor an object of it. A new object has no cells, whoever
// waited for the slot's last object while that was destroyed; and every such wait counts once.
//
// How it is checked. One thread makes and destroys conditions. It stores to lines that are in no cache before, so its later stores stay
// in its store buffer for a while: the other processor sees them late, which is what the barrier is for. The negative control is this
// program with a library whose barrier does nothing (PFS_BREAK_BARRIER): the test must fail. Each test runs again as on a system that
// refuses membarrier().
#include <array>

#include "live.h"
#include "record/engine/barrier.h"
#include "record/engine/cold_lock.h"
#include "record/engine/free_lists.h"
#include "record/family/locks.h"

namespace perfschema {
namespace {

pfs_key_t Key() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_cond_info_t cond[] = {{&made, "birth", 0, nullptr}};
    EXPECT_EQ(pfs_register_cond("births", cond, 1), PFS_OK);
    return made;
  }();
  return key;
}
constexpr char kName[] = "wait/synch/cond/births/birth";

// Stores to lines that the processor does not have: later stores wait behind these.
class Delay {
 public:
  void operator()(uint64_t random, int stores) {
    for (int i = 0; i < stores; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      lines_[(random >> 20) % kLines * 64].store(1, kRelaxed);
    }
  }

 private:
  static constexpr size_t kLines = 1u << 19;  // 32 MiB
  std::vector<std::atomic<uint8_t>> lines_ = std::vector<std::atomic<uint8_t>>(kLines * 64);
};

void Spin(uint64_t turns) {
  for (std::atomic<uint64_t> turn = 0; turn.load(kRelaxed) < turns; turn.store(turn.load(kRelaxed) + 1, kRelaxed)) {
  }
}

// Copies of what the path changes: free slots. (A live object is hidden before its thread looks whether the path is closed.)
using Seen = std::array<uint32_t, 1 + 3 * kMostCached>;
Seen Look(const ShmFreeLists& free_lists) {
  Seen seen{};
  seen[0] = free_lists.count.load(kAcquire);
  for (uint32_t i = 0; i < std::min(seen[0], kMostCached); ++i) {
    const uint32_t slot = free_lists.slots[i].load(kAcquire);
    seen[1 + i] = slot;
    seen[1 + kMostCached + i] = g_runtime.instances[slot].flags.load(kAcquire);
    seen[1 + 2 * kMostCached + i] = g_runtime.instance_lists[slot].version.load(kAcquire);
  }
  return seen;
}

void ClosesThePath() {
  std::mt19937_64 random(Seed());
  std::atomic<bool> stop{false};
  std::atomic<ShmFreeLists*> list{nullptr};
  std::thread worker([&, seed = random()] {
    std::mt19937_64 draws(seed);
    Delay delay;
    std::array<pfs_instance_t*, 4> objects{};
    for (uint64_t turn = 0; !stop.load(kRelaxed); ++turn) {
      const uint64_t draw = draws();
      pfs_instance_t*& place = objects[draw % objects.size()];
      delay(draw, static_cast<int>((draw >> 8) % 24));
      if (place == nullptr) {
        place = pfs_cond_create(Key(), &place);
      } else {
        pfs_cond_discard(place);
        place = nullptr;
      }
      if (turn == 1000) list.store(t_locals.free_lists);
    }
    list.store(nullptr);
    for (pfs_instance_t* object : objects) pfs_cond_discard(object);
  });
  while (list.load() == nullptr) std::this_thread::yield();
  const ShmFreeLists& of_worker = *list.load();
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  uint64_t looks = 0, wrong = 0;
  for (; NowNanos() < end; ++looks) {
    {
      const ColdLock lock;
      ASSERT_TRUE(static_cast<bool>(lock));
      CloseLockFreePath();
      const Seen before = Look(of_worker);
      Spin(100);
      if (Look(of_worker) != before) ++wrong;
      OpenLockFreePath();
    }
    Spin(random() % 500);
  }
  stop.store(true);
  worker.join();
  EXPECT_EQ(wrong, 0u);
  std::printf("%llu looks; changes behind a closed path: %llu\n", static_cast<unsigned long long>(looks),
              static_cast<unsigned long long>(wrong));
}

uint64_t Total() { return SumWhere("events_waits_summary_global_by_event_name", "EVENT_NAME", kName, "COUNT_STAR"); }

// Counts what a new object must not have.
uint64_t CellsOf(pfs_instance_t* object) { return HeadOf(g_runtime.instance_lists[IndexOf(*AsInstance(object))].cells) != 0 ? 1 : 0; }

// A waiter that has been woken ends its wait while the thread that made the condition destroys it.
void MakesNoCellForTheDead() {
  constexpr size_t kObjects = kMostCached;
  std::mt19937_64 random(Seed());
  Truncate("events_waits_summary_by_instance");
  Truncate("events_waits_summary_global_by_event_name");
  std::array<pfs_instance_t*, kObjects> objects{};
  std::atomic<uint64_t> at_work{0}, begun{0}, go{0}, ended{0};
  std::atomic<bool> stop{false};
  std::thread waiter([&, seed = random()] {
    std::mt19937_64 draws(seed);
    uint64_t rounds = 0, turn = 0;
    while (!stop.load()) {
      if (at_work.load() == rounds) {
        std::this_thread::yield();
        continue;
      }
      ++rounds;
      std::array<pfs_wait_t, kObjects> waits;
      for (size_t i = 0; i < kObjects; ++i) {
        EXPECT_EQ(pfs_cond_wait_begin(&waits[i], objects[i], PFS_WAIT), 1);
        begun.fetch_add(1);
        ++turn;
        while (go.load() < turn) {
        }
        Spin(draws() % 100);
        pfs_cond_wait_end(&waits[i], 0);
        ended.store(turn);
      }
    }
  });
  Delay delay;
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  uint64_t turn = 0, wrong = 0, plain = 0;
  while (NowNanos() < end) {
    // A slot that another thread has counted on is destroyed by a locked instruction from then on, until it is given back.
    std::thread([&, seed = random()] {
      std::mt19937_64 draws(seed);
      for (int repeat = 0; repeat < 2; ++repeat) {
        if (repeat > 0) {
          for (pfs_instance_t* object : objects) pfs_cond_discard(object);
        }
        for (pfs_instance_t*& object : objects) object = pfs_cond_create(Key(), &object);
      }
      for (pfs_instance_t* object : objects) {
        wrong += CellsOf(object);
        plain += g_runtime.instance_lists[IndexOf(*AsInstance(object))].home.load() == HomeOf(*t_locals.free_lists) ? 1u : 0u;
      }
      at_work.fetch_add(1);
      for (pfs_instance_t*& object : objects) {
        while (begun.load() == turn) {
        }
        const uint64_t draw = draws();
        ++turn;
        go.store(turn);
        delay(draw, static_cast<int>((draw >> 8) % 24));
        Spin((draw >> 16) % 100);
        pfs_cond_discard(object);
        while (ended.load() != turn) {
        }
      }
      for (pfs_instance_t*& object : objects) object = pfs_cond_create(Key(), &object);
      for (pfs_instance_t* object : objects) wrong += CellsOf(object);
      for (pfs_instance_t* object : objects) pfs_cond_discard(object);
    }).join();
  }
  stop.store(true);
  waiter.join();
  EXPECT_GT(plain, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(Total(), turn);
  std::printf("%llu waits, %llu plain; wrong cells: %llu\n", static_cast<unsigned long long>(turn), static_cast<unsigned long long>(plain),
              static_cast<unsigned long long>(wrong));
}

TEST(Births, closed_path_is_empty_concurrent) { ClosesThePath(); }
TEST(Births, no_cell_for_the_dead_concurrent) { MakesNoCellForTheDead(); }

// Last: nothing makes the library trust membarrier() again.
TEST(Births, the_same_without_membarrier) {
  {
    const ColdLock lock;
    ASSERT_TRUE(static_cast<bool>(lock));
    DoWithoutBarrier();
  }
  EXPECT_FALSE(HasBarrier());
  ClosesThePath();
  MakesNoCellForTheDead();
}

}  // namespace
}  // namespace perfschema
