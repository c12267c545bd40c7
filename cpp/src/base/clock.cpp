#include "base/clock.h"

#include <algorithm>
#include <sys/times.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace perfschema {
namespace {

constexpr uint64_t kPicosPerSecond = 1'000'000'000'000u;

struct CycleSample {
  uint64_t cycles;
  uint64_t nanos;
};

// The pair of readings, out of several, that was least disturbed.
CycleSample SampleCycle() {
  CycleSample best{};
  uint64_t best_gap = ~uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = ReadCycle();
    const uint64_t nanos = ReadClockNanos(CLOCK_MONOTONIC);
    const uint64_t after = ReadCycle();
    if (after - before < best_gap) {
      best_gap = after - before;
      best = {before + (after - before) / 2, nanos};
    }
  }
  return best;
}

uint64_t CycleFrequencySince(CycleSample first) {
  timespec pause{0, 2'000'000};
  nanosleep(&pause, nullptr);
  const CycleSample last = SampleCycle();
  const uint64_t nanos = std::max<uint64_t>(last.nanos - first.nanos, 1);
  return static_cast<uint64_t>(static_cast<Wide>(last.cycles - first.cycles) * 1'000'000'000u / nanos);
}

uint64_t NominalFrequency(TimerId timer) {
  switch (timer) {
    case TimerId::kMicrosecond: return 1'000'000;
    case TimerId::kMillisecond: return 1'000;
    case TimerId::kTick: return static_cast<uint64_t>(std::max<long>(sysconf(_SC_CLK_TCK), 1));
    default: return 1'000'000'000;
  }
}

}  // namespace

uint64_t ReadSlowTimer(TimerId timer) {
  switch (timer) {
    case TimerId::kCycle: return ReadCycle();
    case TimerId::kNanosecond: return ReadClockNanos(CLOCK_MONOTONIC);
    case TimerId::kMicrosecond: return ReadClockNanos(CLOCK_MONOTONIC) / 1'000;
    case TimerId::kMillisecond: return ReadClockNanos(CLOCK_MONOTONIC_COARSE) / 1'000'000;
    case TimerId::kTick: {
      struct tms unused;
      return static_cast<uint64_t>(times(&unused));
    }
    case TimerId::kThreadCpu: return ReadClockNanos(CLOCK_THREAD_CPUTIME_ID);
  }
  return 0;
}

bool CycleCounterIsInvariant(const char** why_not) {
  *why_not = "";
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (d & (1u << 4)) == 0) {
    *why_not = "the processor has no time stamp counter";
    return false;
  }
  if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || (d & (1u << 8)) == 0) {
    *why_not = "the processor does not promise an invariant time stamp counter";
    return false;
  }
#endif
  return true;
}

void CalibrateTimers(bool use_cycle, TimerScale scales[kTimerCount]) {
  const CycleSample epoch = SampleCycle();
  for (int i = 0; i < kTimerCount; ++i) {
    const auto timer = static_cast<TimerId>(i);
    TimerScale& scale = scales[i];
    scale.source = static_cast<uint64_t>(i);
    scale.frequency = NominalFrequency(timer);
    scale.multiplier = (kPicosPerSecond / scale.frequency) << TimerScale::kFractionBits;
    switch (timer) {
      case TimerId::kNanosecond: scale.origin = epoch.nanos; break;
      case TimerId::kMicrosecond: scale.origin = epoch.nanos / 1'000; break;
      case TimerId::kMillisecond: scale.origin = epoch.nanos / 1'000'000; break;
      case TimerId::kThreadCpu: scale.origin = 0; break;  // counts from the thread's own start
      default: scale.origin = ReadSlowTimer(timer); break;
    }
  }
  TimerScale& cycle = scales[static_cast<int>(TimerId::kCycle)];
  if (!use_cycle) {
    cycle = scales[static_cast<int>(TimerId::kNanosecond)];
    return;
  }
#if defined(__aarch64__)
  uint64_t frequency;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
  cycle.frequency = frequency;
#else
  cycle.frequency = CycleFrequencySince(epoch);
#endif
  cycle.origin = epoch.cycles;
  cycle.multiplier = static_cast<uint64_t>((static_cast<Wide>(kPicosPerSecond) << TimerScale::kFractionBits) / std::max<uint64_t>(cycle.frequency, 1));
}

TimerFacts MeasureTimer(TimerId timer, bool use_cycle) {
  if (timer == TimerId::kCycle && !use_cycle) timer = TimerId::kNanosecond;
  TimerFacts facts{NominalFrequency(timer), 0, 0};
  if (timer == TimerId::kCycle) {
    facts.frequency = CycleFrequencySince(SampleCycle());
  }

  facts.overhead = ~uint64_t{0};
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = ReadTimer(use_cycle ? TimerId::kCycle : TimerId::kNanosecond);
    (void)ReadTimer(timer);
    const uint64_t after = ReadTimer(use_cycle ? TimerId::kCycle : TimerId::kNanosecond);
    facts.overhead = std::min(facts.overhead, after - before);
  }

  // The smallest step between two different readings. A timer slower than 10 ms a step is given up on: bounded by time, not by calls.
  facts.resolution = ~uint64_t{0};
  const uint64_t give_up = ReadClockNanos(CLOCK_MONOTONIC) + 25'000'000;
  uint64_t last = ReadTimer(timer);
  for (int steps = 0; steps < 10;) {
    const uint64_t now = ReadTimer(timer);
    if (now != last) {
      facts.resolution = std::min(facts.resolution, now - last);
      last = now;
      ++steps;
      if (facts.resolution == 1) break;
    }
    if (ReadClockNanos(CLOCK_MONOTONIC) > give_up) break;
  }
  if (facts.resolution == ~uint64_t{0}) facts.resolution = 1;
  return facts;
}

}  // namespace perfschema
