// base/clock.h: the timers, and picoseconds since the segment's epoch.
//
// CYCLE, NANOSECOND, MICROSECOND and MILLISECOND are one reading of one counter, the *time base*: the cycle counter where it can be trusted, else
// CLOCK_MONOTONIC. The three slower ones are the picoseconds of that reading, truncated to their unit. So events of any two of them nest
// however long the process runs, and whatever the kernel does to its own clock meanwhile. TICK and THREAD_CPU are clocks of their own.
//
// Ticks of every timer become picoseconds by one multiply and one shift. No floating point on the way (seed wl2360, "Canonical time unit").
//
// The time base is the cycle counter if CPUID promises a constant rate and the kernel lists `tsc` among its clock sources (in use, or
// beside kvm-clock, Hyper-V's or Xen's clock). Otherwise it is CLOCK_MONOTONIC: then CYCLE in performance_timers is NULL, and
// Performance_schema_timer_reason says why.
//
// The rate is measured once, over 2 ms at start, and never changes, so that a summary equals its events. It is wrong by some tenths of a
// ppm: TIMER_* drift from the wall clock by up to a few milliseconds an hour. TIMESTAMP columns read the wall clock itself. If the
// machine sets the counter back in a suspend to RAM, durations stay right, and TIMER_START is 0 until the counter has passed its old
// value.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

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

// What CYCLE, NANOSECOND, MICROSECOND and MILLISECOND are read from.
struct TimeBase {
  uint64_t origin;      // counter at the epoch
  uint64_t multiplier;  // as in TimerScale
  bool is_cycle;        // the counter is the cycle counter, else CLOCK_MONOTONIC in nanoseconds

  // Of a segment: the scale of CYCLE is the time base, whichever counter that is.
  static TimeBase Of(const TimerScale& cycle) {
    return {cycle.origin, cycle.multiplier, cycle.source == static_cast<uint64_t>(TimerId::kCycle)};
  }
  uint64_t Counter() const { return is_cycle ? ReadCycle() : ReadClockNanos(CLOCK_MONOTONIC); }

  // Whole units of 10^kDigits picoseconds since the epoch. Exact for centuries of milliseconds, for 4.6 years of nanoseconds:
  // floor(floor(x / 2^n) / 5^k) is floor(x / (2^n 5^k)), and the first step leaves 64 bits.
  template <int kDigits>
  uint64_t Units(uint64_t counter) const {
    constexpr auto kPowerOfFive = [] {
      uint64_t power = 1;
      for (int i = 0; i < kDigits; ++i) power *= 5;
      return power;
    }();
    const uint64_t delta = counter > origin ? counter - origin : 0;
    return static_cast<uint64_t>((static_cast<Wide>(delta) * multiplier) >> (TimerScale::kFractionBits + kDigits)) / kPowerOfFive;
  }

  // What a timer shows when the counter shows `counter`. REQUIRES: not TICK, not THREAD_CPU.
  uint64_t Ticks(TimerId timer, uint64_t counter) const {
    switch (timer) {
      case TimerId::kMillisecond: return Units<9>(counter);
      case TimerId::kMicrosecond: return Units<6>(counter);
      case TimerId::kNanosecond: return Units<3>(counter);
      default: return counter;
    }
  }
};

// This process's, from StartTimers() on.
// Threads: constant after start.
extern TimeBase g_time_base;

// Any thread. The cold switch behind ReadTimer.
uint64_t ReadSlowTimer(TimerId timer);

// Where the kernel says which clocks it has found to be good.
inline constexpr const char* kClockSourceFolder = "/sys/devices/system/clocksource/clocksource0";

// Returns why the cycle counter cannot be the time base; empty: it can. The processor must promise a constant rate (CPUID), and the kernel must not
// have found otherwise: it uses "tsc", or offers it beside a paravirtual clock. A counter that the kernel has marked unstable is neither.
// Where the folder cannot be read, the processor's word is enough.
std::string WhyNoCycleCounter(const char* clock_source_folder = kClockSourceFolder);

// Measures all scales with a common epoch: now, and sets g_time_base. `use_cycle` = false makes CYCLE fall back to NANOSECOND, and CLOCK_MONOTONIC the
// time base. Sleeps two milliseconds to learn the frequency of the cycle counter.
void StartTimers(bool use_cycle, TimerScale scales[kTimerCount]);

// One row of performance_timers, measured anew at each call (seed wl2360): nothing is remembered.
struct TimerFacts {
  uint64_t frequency;   // ticks per second
  uint64_t resolution;  // smallest step seen, in ticks
  uint64_t overhead;    // smallest of 20 calls, in ticks of the time base: cycles, or nanoseconds
};
TimerFacts MeasureTimer(TimerId timer, const TimeBase& base);

}  // namespace perfschema
