// shm/free_lists.h: slots of instances that a thread caches for its next objects of the same instruments. See
// record/engine/free_lists.h.
#pragma once

#include <cstdint>

#include "shm/cell.h"

namespace perfschema {

inline constexpr uint32_t kMostCached = 8;
// Of a slot's `home`: as 0, but until the slot is free. A thread has made a cell for an object that another thread might have destroyed.
inline constexpr uint32_t kTravels = ~uint32_t{0};

// Threads: the owner writes; under the cold lock, with the lock-free path closed, any thread may.
struct alignas(64) ShmFreeLists {
  HalfWord is_busy;  // 1: its thread is on the lock-free path
  HalfWord count;
  HalfWord next;                // link of the free list
  HalfWord slots[kMostCached];  // of kInstances
  HalfWord is_light;            // 1: who closes the path executes the barrier for this thread, too (record/engine/barrier.h)
};
static_assert(sizeof(ShmFreeLists) == 64);

}  // namespace perfschema
