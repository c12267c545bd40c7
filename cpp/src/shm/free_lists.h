// shm/free_lists.h: slots of instances that a thread of the system keeps for the next object of the same instrument. See record/engine/free_lists.h.
#pragma once

#include <cstdint>

#include "shm/cell.h"

namespace perfschema {

inline constexpr uint32_t kMostCached = 8;

// Threads: of the one thread that has it; but under the cold lock, with the short way closed, anybody's.
struct alignas(64) ShmFreeLists {
  HalfWord is_busy;  // 1: its thread is on the short way
  HalfWord count;
  HalfWord next;     // link of the free list
  HalfWord slots[kMostCached];  // of kInstances
};
static_assert(sizeof(ShmFreeLists) == 64);

}  // namespace perfschema
