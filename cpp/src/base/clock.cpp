#include "base/clock.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace perfschema {
namespace {

constexpr uint64_t kPicosPerSecond = 1'000'000'000'000u;

// Holds the cycle counter and CLOCK_MONOTONIC at the same moment: the mean of the least disturbed pairs out of many readings. A single
// pair is accurate to a nanosecond only, which is 0.5 ppm of two milliseconds.
struct CycleSample {
  uint64_t cycles;  // values of the first pair; the means count from them
  uint64_t nanos;
  double mean_cycles;
  double mean_nanos;
};

CycleSample SampleCycle() {
  struct Pair {
    uint64_t gap;
    uint32_t cycles, nanos;
  };
  Pair pairs[128];  // some 10 microseconds
  CycleSample sample{};
  uint64_t best_gap = ~uint64_t{0};
  for (Pair& pair : pairs) {
    const uint64_t before = ReadCycle(), nanos = ReadKernelNanos(CLOCK_MONOTONIC), gap = ReadCycle() - before;
    if (&pair == pairs) sample = {before, nanos, 0, 0};
    const bool fits = before + gap - sample.cycles <= ~uint32_t{0} &&
                      nanos - sample.nanos <= ~uint32_t{0};  // the thread may have been descheduled for seconds
    pair = {fits ? gap : ~uint64_t{0}, static_cast<uint32_t>(before + gap / 2 - sample.cycles),
            static_cast<uint32_t>(nanos - sample.nanos)};
    best_gap = std::min(best_gap, pair.gap);
  }
  int used = 0;
  for (const Pair& pair : pairs) {
    if (pair.gap == ~uint64_t{0} || pair.gap > best_gap + best_gap / 8) continue;
    sample.mean_cycles += pair.cycles;
    sample.mean_nanos += pair.nanos;
    ++used;
  }
  sample.mean_cycles /= std::max(used, 1);
  sample.mean_nanos /= std::max(used, 1);
  return sample;
}

// Returns the frequency in cycles per second.
double CycleFrequencySince(const CycleSample& first) {
  timespec pause{0, 2'000'000};
  nanosleep(&pause, nullptr);
  const CycleSample last = SampleCycle();
  const double cycles = static_cast<double>(last.cycles - first.cycles) + last.mean_cycles - first.mean_cycles;
  const double nanos = static_cast<double>(last.nanos - first.nanos) + last.mean_nanos - first.mean_nanos;
  return cycles * 1e9 / std::max(nanos, 1.0);
}

uint64_t NominalFrequency(TimerId timer) {
  switch (timer) {
    case TimerId::kMicrosecond:
      return 1'000'000;
    case TimerId::kMillisecond:
      return 1'000;
    case TimerId::kTick:
      return static_cast<uint64_t>(std::max<long>(sysconf(_SC_CLK_TCK), 1));
    default:
      return 1'000'000'000;
  }
}

// lround() is libm's, which each program would have to load.
uint64_t Rounded(double positive) { return (static_cast<uint64_t>(2 * positive) + 1) / 2; }

}  // namespace

TimeBase g_time_base{0, uint64_t{1000} << TimerScale::kFractionBits, false};

namespace {
uint64_t ReadTimer(TimerId timer, const TimeBase& base) {
  switch (timer) {
    case TimerId::kTick: {
      struct tms unused;
      return static_cast<uint64_t>(times(&unused));
    }
    case TimerId::kThreadCpu:
      return ReadClockNanos(CLOCK_THREAD_CPUTIME_ID);
    default:
      return base.Ticks(timer, base.Counter());
  }
}

#if defined(__x86_64__)
// Returns the text of a small file, empty if it cannot be read.
std::string TextOf(const std::string& path) {
  char text[256];
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  const ssize_t bytes = read(descriptor, text, sizeof text);
  close(descriptor);
  std::string found(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  while (!found.empty() && (found.back() == '\n' || found.back() == ' ')) found.pop_back();
  return found;
}
bool HasWord(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (text.substr(0, end) == word) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}
#endif
}  // namespace

uint64_t ReadKernelNanos(clockid_t clock) {
  timespec now{};
#if defined(__x86_64__)
  // Not by syscall(): a library that fakes the time may have replaced that function as well.
  long result = SYS_clock_gettime;
  asm volatile("syscall" : "+a"(result) : "D"(clock), "S"(&now) : "rcx", "r11", "memory");
#else
  register long number asm("x8") = SYS_clock_gettime;
  register long argument asm("x0") = clock;
  register timespec* place asm("x1") = &now;
  asm volatile("svc #0" : "+r"(argument) : "r"(number), "r"(place) : "memory");
#endif
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t ReadSlowTimer(TimerId timer) {
  // Checks the common one first: stages, statements and transactions.
  if (__builtin_expect(timer == TimerId::kNanosecond, 1)) return g_time_base.Units<3>(g_time_base.Counter());
  // CYCLE reads the cycle counter even if that is not the time base.
  return timer == TimerId::kCycle ? ReadCycle() : ReadTimer(timer, g_time_base);
}

std::string WhyNoCycleCounter([[maybe_unused]] const char* clock_source_folder) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (d & (1u << 4)) == 0) return "the processor has no time stamp counter";
  if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || (d & (1u << 8)) == 0)
    return "the processor does not promise an invariant time stamp counter";
  // Does not offer a counter that the kernel found to be unstable, or different on two processors. In a virtual machine the current clock
  // may be another (kvm-clock, hyperv_clocksource_tsc_page, xen) although the counter is good.
  const std::string folder(clock_source_folder);
  const std::string current = TextOf(folder + "/current_clocksource"), available = TextOf(folder + "/available_clocksource");
  if ((current.empty() && available.empty()) || HasWord(current, "tsc") || HasWord(available, "tsc")) return {};
  return "the kernel does not trust the time stamp counter: it uses " + (current.empty() ? "no clock source" : current);
#else
  return {};
#endif
}

std::string MeasuredCycleRate([[maybe_unused]] std::string_view boot) {
#if defined(__x86_64__)
  if (boot.empty() || !WhyNoCycleCounter().empty()) return {};
  return std::to_string(Rounded(CycleFrequencySince(SampleCycle()) * 1000)) + " " + std::string(boot);
#else
  return {};  // a register has the rate
#endif
}

uint64_t KnownCycleRate(std::string_view text, std::string_view boot) {
  constexpr uint64_t kLeast = 1'000'000'000, kMost = 100'000'000'000'000;  // 1 MHz, 100 GHz
  uint64_t rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  const bool is_of_boot = !boot.empty() && !rest.empty() && rest[0] == ' ' && rest.substr(1) == boot;
  return error == std::errc() && is_of_boot && rate >= kLeast && rate <= kMost ? rate : 0;
}

void StartTimers(bool use_cycle, TimerScale scales[kTimerCount], uint64_t known_rate) {
  const CycleSample epoch = known_rate != 0 || !use_cycle ? CycleSample{ReadCycle(), 0, 0, 0} : SampleCycle();
  for (int i = 0; i < kTimerCount; ++i) {
    const auto timer = static_cast<TimerId>(i);
    TimerScale& scale = scales[i];
    scale.source = static_cast<uint64_t>(i);
    scale.frequency = NominalFrequency(timer);
    scale.multiplier = (kPicosPerSecond / scale.frequency) << TimerScale::kFractionBits;
    // Truncations of the time base count from the epoch, a thread's processor time from the thread's start.
    scale.origin = timer == TimerId::kTick ? ReadSlowTimer(timer) : 0;
  }
  TimerScale& cycle = scales[static_cast<int>(TimerId::kCycle)];
  if (use_cycle) {
#if defined(__aarch64__)
    uint64_t frequency;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency));
    const auto exact = static_cast<double>(frequency);
#else
    const double exact = known_rate != 0 ? static_cast<double>(known_rate) / 1000 : CycleFrequencySince(epoch);
#endif
    cycle.origin = epoch.cycles;
    cycle.frequency = Rounded(exact);
    cycle.multiplier =
        static_cast<uint64_t>(static_cast<double>(kPicosPerSecond << 8) * (uint64_t{1} << (TimerScale::kFractionBits - 8)) / exact);
  } else {
    cycle.origin = ReadClockNanos(CLOCK_MONOTONIC);
    cycle.source = static_cast<uint64_t>(TimerId::kNanosecond);
  }
  g_time_base = TimeBase::Of(cycle);
}

TimerTraits MeasureTimer(TimerId timer, const TimeBase& base) {
  TimerTraits traits{NominalFrequency(timer), 0, 0};
  if (timer == TimerId::kCycle && base.is_cycle) traits.frequency = Rounded(CycleFrequencySince(SampleCycle()));

  traits.overhead = ~uint64_t{0};
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = base.Counter();
    (void)ReadTimer(timer, base);
    const uint64_t after = base.Counter();
    traits.overhead = std::min(traits.overhead, after - before);
  }

  // Finds the smallest step between two different readings. Gives up on a timer slower than 10 ms a step: bounded by time, not by calls.
  traits.resolution = ~uint64_t{0};
  const uint64_t give_up = ReadKernelNanos(CLOCK_MONOTONIC) + 25'000'000;
  uint64_t last = ReadTimer(timer, base);
  for (int steps = 0; steps < 10;) {
    const uint64_t now = ReadTimer(timer, base);
    if (now != last) {
      traits.resolution = std::min(traits.resolution, now - last);
      last = now;
      ++steps;
      if (traits.resolution == 1) break;
    }
    if (ReadKernelNanos(CLOCK_MONOTONIC) > give_up) break;
  }
  if (traits.resolution == ~uint64_t{0}) traits.resolution = 1;
  return traits;
}

}  // namespace perfschema
