// The timers: they are one time base, whatever a counter shows; and the cases in which the cycle counter may be used.
#include "base/clock.h"

#include <fstream>
#include <random>
#include <vector>

#include "live.h"
#include "record/engine/runtime.h"

namespace perfschema {
namespace {

constexpr TimerId kOfTheTimeBase[] = {TimerId::kCycle, TimerId::kNanosecond, TimerId::kMicrosecond, TimerId::kMillisecond};
constexpr uint64_t kUnit[] = {1, 1'000, 1'000'000, 1'000'000'000};  // picoseconds

// A time base of a counter of `frequency` ticks a second, and the scales of a segment with it.
struct Simulated {
  TimeBase base{};
  TimerScale scales[4] = {};

  Simulated(uint64_t frequency, uint64_t origin) {
    base = {origin, static_cast<uint64_t>((static_cast<Wide>(1'000'000'000'000u) << TimerScale::kFractionBits) / frequency), true};
    scales[0] = {origin, base.multiplier, frequency, 0};
    for (uint64_t i = 1; i < 4; ++i) scales[i] = {0, kUnit[i] << TimerScale::kFractionBits, 1'000'000'000'000u / kUnit[i], i};
  }
  uint64_t Start(TimerId timer, uint64_t counter) const { return scales[static_cast<int>(timer)].Picos(base.Ticks(timer, counter)); }
  uint64_t Wait(TimerId timer, uint64_t begin, uint64_t end) const {
    return scales[static_cast<int>(timer)].Duration(base.Ticks(timer, end) - base.Ticks(timer, begin));
  }
};

TEST(Clock, events_of_any_two_timers_nest_for_months) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t frequency = round % 3 == 0   ? 1'000'000'000
                               : round % 3 == 1 ? 24'000'000 + below(100'000'000)
                                                : 1'000'000'000 + below(4'500'000'000);
    const Simulated clock(frequency, random() >> below(60));
    // The times run from the start to beyond 213 days, where picoseconds restart at 0.
    uint64_t at[4];
    at[0] = clock.base.origin + below(frequency * 86'400) * (1 + below(300));
    for (int i = 1; i < 4; ++i) at[i] = at[i - 1] + (below(2) == 0 ? below(10) : below(frequency * (below(2) == 0 ? 1 : 86'400)));
    for (int outer = 0; outer < 4; ++outer) {
      for (int inner = 0; inner < 4; ++inner) {
        // An event from at[0] to at[3] contains one from at[1] to at[2]. The test compares differences: times may
        // have restarted at 0 in between.
        const uint64_t unit = std::max(kUnit[outer], kUnit[inner]);
        const uint64_t outer_start = clock.Start(kOfTheTimeBase[outer], at[0]), inner_start = clock.Start(kOfTheTimeBase[inner], at[1]);
        const uint64_t outer_end = outer_start + clock.Wait(kOfTheTimeBase[outer], at[0], at[3]);
        const uint64_t inner_end = inner_start + clock.Wait(kOfTheTimeBase[inner], at[1], at[2]);
        ASSERT_GT(static_cast<int64_t>(inner_start - outer_start), -static_cast<int64_t>(unit))
            << frequency << " Hz, timers " << outer << " and " << inner;
        // The end of an event by CYCLE is the sum of two truncated numbers: it may be a picosecond less.
        ASSERT_GT(static_cast<int64_t>(outer_end - inner_end), -static_cast<int64_t>(unit) - 1)
            << frequency << " Hz, timers " << outer << " and " << inner;
      }
    }
  }
}

TEST(Clock, slower_timers_are_the_fastest_one_truncated_to_their_unit) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100'000; ++round) {
    const uint64_t frequency = 1'000'000'000 + random() % 4'500'000'000;
    const Simulated clock(frequency, random() >> 20);
    const uint64_t counter = clock.base.origin + random() % (frequency * 86'400 * 200);  // 200 days
    const uint64_t exact = clock.Start(TimerId::kCycle, counter);
    for (int i = 1; i < 4; ++i) ASSERT_EQ(clock.Start(kOfTheTimeBase[i], counter), exact - exact % kUnit[i]);
  }
  const Simulated clock(2'500'000'000, 1'000'000);
  for (const TimerId timer : kOfTheTimeBase) EXPECT_EQ(clock.Start(timer, 999'000), 0u);  // another core's counter lags
}

TEST(Clock, timers_read_in_turn_never_go_backwards) {
  const TimeBase own = g_time_base;
  for (const bool use_cycle : {WhyNoCycleCounter().empty(), false}) {
    TimerScale scales[kTimerCount];
    StartTimers(use_cycle, scales);
    uint64_t latest = 0;
    for (int i = 0; i < 200'000; ++i) {
      const int of = i * 7 % 4;
      const TimerId asked = kOfTheTimeBase[of];
      const auto timer = static_cast<TimerId>(scales[of].source);
      const uint64_t now = scales[static_cast<int>(timer)].Picos(ReadSlowTimer(timer)), unit = kUnit[static_cast<int>(timer)];
      ASSERT_GE(now, latest - latest % unit) << kTimerNames[static_cast<int>(asked)];
      latest = std::max(latest, now);
    }
    EXPECT_GT(latest, 0u);
    EXPECT_EQ(scales[0].source, static_cast<uint64_t>(use_cycle ? TimerId::kCycle : TimerId::kNanosecond));
    // The epoch is that of the time base, from which a reader of the segment computes the present time.
    const TimeBase base = TimeBase::Of(scales[0]);
    const uint64_t before = ReadSlowTimer(TimerId::kNanosecond), there = base.Ticks(TimerId::kNanosecond, base.Counter());
    EXPECT_GE(there, before);
    EXPECT_LE(there, ReadSlowTimer(TimerId::kNanosecond));
  }
  g_time_base = own;
}

// A running program repeats a wait by CYCLE inside a stage by NANOSECOND. With two clocks the waits would leave their
// stages within a second.
TEST(Clock, waits_stay_in_their_stages_for_seconds) {
  setenv("PFS_SEGMENT", "private", 1);
  pfs_init("performance_schema_events_waits_history_long_size=10000");
  const pfs_key_t lock = MutexKey("nested");
  pfs_key_t step = 0;
  pfs_stage_info_t info[] = {{&step, "step", 0, nullptr}};
  ASSERT_EQ(pfs_register_stage("live", info, 1), PFS_OK);
  pfs_mutex_t mutex;
  pfs_mutex_init(lock, &mutex, nullptr);
  constexpr size_t kRounds = 2'000;
  for (size_t i = 0; i < kRounds; ++i) {
    pfs_stage_begin(step);
    pfs_mutex_lock(&mutex);
    pfs_stage_end();
    pfs_mutex_unlock(&mutex);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pfs_mutex_destroy(&mutex);
  struct Span {
    uint64_t start, end;
  };
  std::map<uint64_t, Span> stages;
  const Frame outer("events_stages_history_long", {"EVENT_ID", "TIMER_START", "TIMER_END"});
  for (size_t i = 0; i < outer.rows(); ++i) stages[outer.number(i, 0)] = {outer.number(i, 1), outer.number(i, 2)};
  const Frame inner("events_waits_history_long", {"NESTING_EVENT_ID", "TIMER_START", "TIMER_END"});
  size_t nested = 0;
  uint64_t last = 0, closest = ~uint64_t{0};
  for (size_t i = 0; i < inner.rows(); ++i) {
    const auto stage = stages.find(inner.number(i, 0));
    if (stage == stages.end()) continue;
    ASSERT_GE(inner.number(i, 1), stage->second.start);
    ASSERT_LT(inner.number(i, 2), stage->second.end + 1000) << "the wait ends after its stage";
    closest = std::min(closest, stage->second.end + 1000 - inner.number(i, 2));
    last = stage->second.end;
    ++nested;
  }
  EXPECT_EQ(nested, kRounds);
  EXPECT_GT(last, 2 * 1'000'000'000'000u);
  std::printf("least time between the ends of a wait and its stage: %llu ps\n", static_cast<unsigned long long>(closest));
}

// Moves the epoch of the running library, as if a suspend had set the counter back by `cycles`; the destructor lets the counter pass its
// old value.
class CounterSetBack {
 public:
  explicit CounterSetBack(uint64_t cycles) : cycles_(cycles) { Move(cycles_); }
  ~CounterSetBack() { Move(0 - cycles_); }
  CounterSetBack(const CounterSetBack&) = delete;
  CounterSetBack& operator=(const CounterSetBack&) = delete;

 private:
  static void Move(uint64_t cycles) {
    g_time_base.origin += cycles;
    g_runtime.header->timers[static_cast<int>(TimerId::kCycle)].origin += cycles;
  }
  const uint64_t cycles_;
};

// Events of a mutex or a stage, from the newest history: TIMER_START, TIMER_WAIT.
struct Times {
  uint64_t start, wait;
};
std::vector<Times> TimesOf(std::string_view table, std::string_view name) {
  std::vector<Times> found;
  const Frame events(table, {"EVENT_NAME", "TIMER_START", "TIMER_WAIT"});
  for (size_t i = 0; i < events.rows(); ++i) {
    if (events.text(i, 0) == name) found.push_back({events.number(i, 1), events.number(i, 2)});
  }
  return found;
}

// A suspend to RAM may restart the counter. No sum becomes nonsense: an event across the suspend took no time, later ones take their
// time and start at 0, until the counter has passed its old value.
TEST(Clock, a_suspend_that_sets_the_counter_back_spoils_no_sum) {
  setenv("PFS_SEGMENT", "private", 1);
  const pfs_key_t lock = MutexKey("suspended");
  pfs_key_t across = 0, later = 0;
  pfs_stage_info_t info[] = {{&across, "across", 0, nullptr}, {&later, "later", 0, nullptr}};
  ASSERT_EQ(pfs_register_stage("live", info, 2), PFS_OK);
  if (!g_time_base.is_cycle) GTEST_SKIP() << "the time base is the kernel's clock, which no suspend sets back";
  pfs_mutex_t mutex;
  pfs_mutex_init(lock, &mutex, nullptr);
  const auto use = [&] {
    pfs_mutex_lock(&mutex);
    pfs_mutex_unlock(&mutex);
  };
  use();
  constexpr uint64_t kSecond = 1'000'000'000'000;
  const std::string waits = "events_waits_history_long", stages = "events_stages_history_long";
  const std::string mutex_name = "wait/synch/mutex/live/suspended";
  pfs_stage_begin(across);
  {
    const CounterSetBack suspend(uint64_t{3'600} * 10'000'000'000);  // an hour and more, on any processor
    use();
    pfs_stage_begin(later);  // ends the one that began before
    use();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pfs_stage_end();
    const std::vector<Times> locks = TimesOf(waits, mutex_name);
    ASSERT_EQ(locks.size(), 3u);
    for (const Times& each : {locks[1], locks[2]}) {
      EXPECT_EQ(each.start, 0u);
      EXPECT_GT(each.wait, 0u);
      EXPECT_LT(each.wait, kSecond);
    }
    const std::vector<Times> ended = TimesOf(stages, "stage/live/across");
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].wait, 0u);
    const std::vector<Times> whole = TimesOf(stages, "stage/live/later");
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole[0].start, 0u);
    EXPECT_GE(whole[0].wait, 5u * 1'000'000'000);  // what it slept
    EXPECT_LT(whole[0].wait, kSecond);
  }
  use();
  const std::vector<Times> locks = TimesOf(waits, mutex_name);
  ASSERT_EQ(locks.size(), 4u);
  EXPECT_GT(locks[3].start, locks[0].start);
  for (const char* const table : {"events_waits_summary_global_by_event_name", "events_stages_summary_global_by_event_name"}) {
    EXPECT_LT(SumWhere(table, "EVENT_NAME", table[7] == 'w' ? mutex_name : "stage/live/later", "SUM_TIMER_WAIT"), kSecond) << table;
  }
  EXPECT_EQ(SumWhere("events_waits_summary_global_by_event_name", "EVENT_NAME", mutex_name, "COUNT_STAR"), 4u);
  pfs_mutex_destroy(&mutex);
}

// The kernel's verdict, in the form of its files.
class ClockSources : public ::testing::Test {
 protected:
  std::string WhyNot(const char* current, const char* available) {
    std::ofstream(folder_ / "current_clocksource") << current << "\n";
    std::ofstream(folder_ / "available_clocksource") << available << " \n";
    return WhyNoCycleCounter((folder_ / "").c_str());
  }
  const TemporaryDirectory folder_;
};

TEST_F(ClockSources, a_counter_that_the_kernel_does_not_offer_is_not_the_time_base) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the counter of this processor is the kernel's clock";
#endif
  if (!WhyNoCycleCounter("/nowhere").empty()) GTEST_SKIP() << "the processor itself has none: " << WhyNoCycleCounter("/nowhere");
  EXPECT_EQ(WhyNot("tsc", "tsc hpet acpi_pm"), "");
  // Virtual machines prefer their own clock, which is derived from the counter.
  EXPECT_EQ(WhyNot("kvm-clock", "kvm-clock tsc acpi_pm"), "");
  EXPECT_EQ(WhyNot("hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page tsc acpi_pm"), "");
  EXPECT_EQ(WhyNot("hpet", "tsc hpet acpi_pm"), "");  // an administrator chose the other one
  // The counter is marked unstable, or was never found to be good.
  EXPECT_EQ(WhyNot("hpet", "hpet acpi_pm"), "the kernel does not trust the time stamp counter: it uses hpet");
  EXPECT_NE(WhyNot("kvm-clock", "kvm-clock acpi_pm"), "");
  EXPECT_NE(WhyNot("tsc-early", "tsc-early"), "");
  EXPECT_NE(WhyNot("hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page"), "");
  EXPECT_LT(WhyNot("hyperv_clocksource_tsc_page", "hyperv_clocksource_tsc_page acpi_pm").size() + std::string("CYCLE is not used: ").size(),
            128u);
}

}  // namespace
}  // namespace perfschema
