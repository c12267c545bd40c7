// base/clock.h: the timers, and picoseconds since the segment's epoch.
//
// CYCLE, NANOSECOND, MICROSECOND and MILLISECOND are one reading of one counter, the *time base*: the cycle counter where it can be
// trusted, else CLOCK_MONOTONIC. The three slower ones are the picoseconds of that reading, truncated to their unit. So events of any two
// of them nest, however long the process runs, and whatever the kernel does to its own clock meanwhile. TICK and THREAD_CPU have their
// own clocks.
//
// One multiply and one shift turn ticks of every timer into picoseconds, without floating point.
//
// The time base is the cycle counter if CPUID promises a constant rate and the kernel lists `tsc` among its clock sources (in use, or
// beside kvm-clock, Hyper-V's or Xen's clock). Otherwise it is CLOCK_MONOTONIC: then CYCLE in performance_timers is NULL, and
// Performance_schema_timer_reason says why.
//
// The rate is measured once, over 2 ms at start, and never changes, so that a summary equals its events. It is wrong by some tenths of a
// ppm: TIMER_* drift from the wall clock by up to a few milliseconds an hour. TIMESTAMP columns read the wall clock itself. If the
// machine sets the counter back in a suspend to RAM, an event across the suspend takes no time. Later ones have their durations, and
// TIMER_START 0 until the counter has passed its value at the epoch.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "perfschema/abi.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace perfschema {

__extension__ using Wide = unsigned __int128;  // product of two 64-bit numbers

// The order is that of performance_timers: highest frequency first. The number is stored in flag words and in the segment.
enum class TimerId : uint8_t { kCycle = 0, kNanosecond, kMicrosecond, kMillisecond, kTick, kThreadCpu };
inline constexpr int kTimerCount = 6;
inline constexpr const char* kTimerNames[kTimerCount] = {"CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK", "THREAD_CPU"};

// Converts raw ticks of one timer into picoseconds: (ticks - origin) * multiplier / 2^kFractionBits.
struct TimerScale {
  static constexpr int kFractionBits = 28;  // the slowest timer (10 ms a tick) still fits into 64 bits

  uint64_t origin;      // raw value at the epoch
  uint64_t multiplier;  // picoseconds per tick, fixed point
  uint64_t frequency;   // ticks per second; 0 = timer unavailable
  uint64_t source;      // TimerId that is actually read (differs from its own after a fallback)

  // This one function computes every summary and every TIMER_WAIT, so sums agree to the picosecond.
  static uint64_t Scale(uint64_t ticks, uint64_t multiplier) {
    return static_cast<uint64_t>((static_cast<Wide>(ticks) * multiplier) >> kFractionBits);
  }
  uint64_t Duration(uint64_t ticks) const { return Scale(ticks, multiplier); }

  uint64_t Picos(uint64_t ticks) const {
    // Another core's counter may lag by some ticks, and a suspend may set the counter back; a time is never before the epoch.
    const auto delta = static_cast<int64_t>(ticks - origin);
    return Scale(delta > 0 ? static_cast<uint64_t>(delta) : 0, multiplier);
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

// Returns a clock of the kernel by a system call. Calibration and deadlines read it: a preloaded library may have replaced clock_gettime(),
// and its clock may stand still.
uint64_t ReadKernelNanos(clockid_t clock);

// Returns the microseconds since 1970, UTC.
inline uint64_t WallClockMicros() { return ReadClockNanos(CLOCK_REALTIME) / 1000; }
// Returns the seconds at the kernel's last tick. It is time(), whose address the dynamic linker would have to ask code of the C library for
// at the start of each process.
inline uint64_t WallSeconds() { return ReadClockNanos(CLOCK_REALTIME_COARSE) / 1'000'000'000; }

// The counter behind CYCLE, NANOSECOND, MICROSECOND and MILLISECOND.
struct TimeBase {
  uint64_t origin;      // counter at the epoch
  uint64_t multiplier;  // as in TimerScale
  bool is_cycle;        // the counter is the cycle counter, else CLOCK_MONOTONIC in nanoseconds

  // Returns the time base of a segment: the scale of CYCLE describes it, whichever counter that is.
  static TimeBase Of(const TimerScale& cycle) {
    return {cycle.origin, cycle.multiplier, cycle.source == static_cast<uint64_t>(TimerId::kCycle)};
  }
  uint64_t Counter() const { return is_cycle ? ReadCycle() : ReadClockNanos(CLOCK_MONOTONIC); }

  // Returns whole units of 10^kDigits picoseconds since the epoch. Exact for centuries of milliseconds, for 4.6 years of nanoseconds:
  // floor(floor(x / 2^n) / 5^k) is floor(x / (2^n 5^k)), and the first step leaves 64 bits. Before the epoch, where a suspend may set the
  // counter, the number is negative (two's complement), so that durations stay differences.
  template <int kDigits>
  uint64_t Units(uint64_t counter) const {
    const auto delta = static_cast<int64_t>(counter - origin);
    return __builtin_expect(delta >= 0, 1) ? UnitsSince<kDigits>(static_cast<uint64_t>(delta))
                                           : 0 - UnitsSince<kDigits>(0 - static_cast<uint64_t>(delta));
  }
  template <int kDigits>
  uint64_t UnitsSince(uint64_t delta) const {
    constexpr auto kPowerOfFive = [] {
      uint64_t power = 1;
      for (int i = 0; i < kDigits; ++i) power *= 5;
      return power;
    }();
    return static_cast<uint64_t>((static_cast<Wide>(delta) * multiplier) >> (TimerScale::kFractionBits + kDigits)) / kPowerOfFive;
  }

  // Returns the value of a timer when the counter is at `counter`. REQUIRES: not TICK, not THREAD_CPU.
  uint64_t Ticks(TimerId timer, uint64_t counter) const {
    switch (timer) {
      case TimerId::kMillisecond:
        return Units<9>(counter);
      case TimerId::kMicrosecond:
        return Units<6>(counter);
      case TimerId::kNanosecond:
        return Units<3>(counter);
      default:
        return counter;
    }
  }
};

// Is this process's time base, from StartTimers() on.
// Threads: constant after start.
extern TimeBase g_time_base;

// Reads a timer; the slow path of ReadTimer. Threads: any.
uint64_t ReadSlowTimer(TimerId timer);

// The folder in which the kernel lists the clocks that it found to be good.
inline constexpr const char* kClockSourceFolder = "/sys/devices/system/clocksource/clocksource0";

// Returns why the cycle counter cannot be the time base; empty: it can. The processor must promise a constant rate (CPUID), and the
// kernel must use "tsc" or offer it beside a paravirtual clock. It does neither with a counter that it has marked unstable. If the folder
// cannot be read, the processor's promise is enough.
std::string WhyNoCycleCounter(const char* clock_source_folder = kClockSourceFolder);

// Measures all scales with a common epoch, now, and sets g_time_base. `use_cycle` = false makes CYCLE fall back to NANOSECOND, and
// CLOCK_MONOTONIC the time base. Sleeps two milliseconds to measure the frequency of the cycle counter, unless `known_rate` is it: cycles
// per 1000 seconds.
void StartTimers(bool use_cycle, TimerScale scales[kTimerCount], uint64_t known_rate = 0);

// A process may tell those that it starts how fast the cycle counter is: "RATE BOOT", the rate as above, and which boot of the system it
// was measured in. MeasuredCycleRate() makes that text; it is empty if the counter cannot be the time base. KnownCycleRate() reads it: 0
// if it is not of this boot, or no possible rate.
PFS_API std::string MeasuredCycleRate(std::string_view boot);
uint64_t KnownCycleRate(std::string_view text, std::string_view boot);

// Is one row of performance_timers. Each call measures it again; nothing is cached.
struct TimerTraits {
  uint64_t frequency;   // ticks per second
  uint64_t resolution;  // smallest step seen, in ticks
  uint64_t overhead;    // smallest of 20 calls, in ticks of the time base: cycles, or nanoseconds
};
TimerTraits MeasureTimer(TimerId timer, const TimeBase& base);

}  // namespace perfschema
