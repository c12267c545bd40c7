// shm/roles.h: the time of threads that have ended. A part of layout.h, whose rules apply here.
#pragma once

#include <cstdint>

#include "base/time_states.h"
#include "shm/cell.h"

namespace perfschema {

inline constexpr uint32_t kMostRoles = 256;      // the last one has the threads of all further roles
inline constexpr uint32_t kMostWaitStates = 32;  // for states to come
static_assert(kWaitStates <= kMostWaitStates);

// Sums over the threads of a role that have ended: those with one name but for its numbers. Times are picoseconds.
// Threads: written under the cold lock.
struct alignas(64) ShmRole {
  HalfWord seq;   // covers the sums; cell.h
  HalfWord hash;  // of the name
  Word threads;
  Word wall, computing, runnable, elsewhere;
  Word waits[kMostWaitStates];  // by WaitState
  Word name[16];                // zero padded; constant
};

}  // namespace perfschema
