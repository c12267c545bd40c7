// shm/governor.h: the ceiling of what pfs may cost (performance_schema_overhead_limit): its settings, and what it has changed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/cell.h"

namespace perfschema {

// Says how much of an instrument's settings the ceiling leaves. kFull: all. kSampled: waits are SAMPLED, and locks that can be tried are
// CONTENDED. kCounted: events are only counted. kOff: nothing.
enum class Step : uint32_t { kFull = 0, kSampled, kCounted, kOff };
inline constexpr Step kLastStep = Step::kOff;

// Is one change. Threads: the governor writes.
struct alignas(64) ShmStep {
  HalfWord seq;
  HalfWord class_and_steps;  // class | old step << 16 | new step << 24
  Word number;               // 1 is the first; 0 = free
  Word micros;               // wall clock, since 1970
  Word overhead_ppm;         // of the process: why
  Word class_ppm;            // of the instrument
  Word limit_ppm;
  Word events_per_second;  // of the instrument
};
static_assert(sizeof(ShmStep) == 64);
inline constexpr uint32_t kKeptSteps = 32;

struct ShmGovernor {
  Word limit_ppm;     // of the process's processor time; 0 = no ceiling. Written under the cold lock, like the next one
  Word may_disable;   // 1: kOff is allowed
  Word overhead_ppm;  // predicted from the last period
  Word periods;       // so far
  Word steps_made;    // the last one is steps[(steps_made - 1) % kKeptSteps]
  ShmStep steps[kKeptSteps];
};

}  // namespace perfschema
