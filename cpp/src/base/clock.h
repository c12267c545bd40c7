// base/clock.h: the timers, and picoseconds since the segment's epoch.
//
// Every timer is read as raw ticks and turned into picoseconds by one multiply and one shift, so that all of them share one epoch
// and one unit. No division and no floating point on the way (seed wl2360, "Canonical time unit").
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace perfschema {

__extension__ using Wide = unsigned __int128;  // product of two 64-bit numbers

// The order is that of performance_timers: highest frequency first. The number is stored in flag words and in the segment.
enum class TimerId : uint8_t { kCycle = 0, kNanosecond, kMicrosecond, kMillisecond, kTick, kThreadCpu };
inline constexpr int kTimerCount = 6;
inline constexpr const char* kTimerNames[kTimerCount] = {"CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK", "THREAD_CPU"};

// How raw ticks of one timer become picoseconds: (ticks - origin) * multiplier / 2^kFractionBits.
struct TimerScale {
  static constexpr int kFractionBits = 28;  // the slowest timer (10 ms a tick) still fits into 64 bits

  uint64_t origin;      // raw value at the epoch
  uint64_t multiplier;  // picoseconds per tick, fixed point
  uint64_t frequency;   // ticks per second; 0 = timer unavailable
  uint64_t source;      // TimerId that really answers (differs from its own when it had to fall back)

  // Every summary and every TIMER_WAIT is made by this one function: sums agree to the picosecond.
  static uint64_t Scale(uint64_t ticks, uint64_t multiplier) {
    return static_cast<uint64_t>((static_cast<Wide>(ticks) * multiplier) >> kFractionBits);
  }
  uint64_t Duration(uint64_t ticks) const { return Scale(ticks, multiplier); }

  uint64_t Picos(uint64_t ticks) const {
    // Another core's counter may lag by some ticks: never before the epoch.
    const uint64_t delta = ticks > origin ? ticks - origin : 0;
    return Scale(delta, multiplier);
  }
};

inline uint64_t ReadCycle() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#endif
}

inline uint64_t ReadClockNanos(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);  // vDSO for the clocks used here, THREAD_CPU excepted
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Since 1970, UTC.
inline uint64_t WallClockMicros() { return ReadClockNanos(CLOCK_REALTIME) / 1000; }

// Any thread. The cold switch behind ReadTimer.
uint64_t ReadSlowTimer(TimerId timer);

inline uint64_t ReadTimer(TimerId timer) {
  if (__builtin_expect(timer == TimerId::kCycle, 1)) return ReadCycle();
  return ReadSlowTimer(timer);
}

// True if the cycle counter ticks at a constant rate on all cores; `why_not` says what is missing otherwise.
bool CycleCounterIsInvariant(const char** why_not);

// Measures all scales with a common epoch: now. `use_cycle` = false makes CYCLE fall back to the closest timer (NANOSECOND).
// Sleeps two milliseconds to learn the frequency of the cycle counter.
void CalibrateTimers(bool use_cycle, TimerScale scales[kTimerCount]);

// One row of performance_timers, measured anew at each call (seed wl2360): nothing is remembered.
struct TimerFacts {
  uint64_t frequency;   // ticks per second
  uint64_t resolution;  // smallest step seen, in ticks
  uint64_t overhead;    // smallest of 20 calls, in cycles (nanoseconds where there is no cycle counter)
};
TimerFacts MeasureTimer(TimerId timer, bool use_cycle);

}  // namespace perfschema
