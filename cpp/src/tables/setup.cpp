// setup_* and performance_timers: what is instrumented, and which clock measures it.
#include "setup/setup.h"

#include <array>
#include <atomic>
#include <memory>

#include "snapshot/state.h"
#include "tables/enums.h"
#include "tables/tables.h"
#include "tables/timers.h"

namespace perfschema {
namespace {

struct InstrumentProperties {};
struct InstrumentFlags {};
enum class TimerName : uint8_t {};     // TimerId of a timer that is legal in setup_timers
enum class AnyTimerName : uint8_t {};  // TimerId

}  // namespace

template <>
struct SetNames<InstrumentProperties> {
  static constexpr std::string_view kValues[] = {"singleton", "progress", "user", "global_statistics", "mutable", "controlled_by_default"};
  static_assert(std::size(kValues) == std::size(kPropertyNames));
};
template <>
struct SetNames<InstrumentFlags> {
  static constexpr std::string_view kValues[] = {"controlled"};
};
template <>
struct EnumNames<TimerName> {
  static constexpr std::string_view kValues[] = {"CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK"};
};
template <>
struct EnumNames<AnyTimerName> {
  static constexpr std::string_view kValues[] = {"CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK", "THREAD_CPU"};
  static_assert(std::size(kValues) == kTimerCount);
};

namespace {

struct InstrumentRow {
  Text<128> name;
  YesNo enabled;
  std::optional<TimedValue> timed;
  SetOf<InstrumentProperties> properties;
  std::optional<SetOf<InstrumentFlags>> flags;
  int32_t volatility;
  std::optional<LongText> documentation;
  YesNo trace_enabled;
  Step step;
  uint32_t class_index;
};
constexpr auto kInstrumentColumns =
    columns(col<&InstrumentRow::name>("NAME", Unit::kNone, "Name of the instrument."),
            col<&InstrumentRow::enabled>("ENABLED", Unit::kNone, "Whether its events are counted and recorded.").writable(),
            col<&InstrumentRow::timed>("TIMED", Unit::kNone,
                                       "Whether its events are timed; CONTENDED: locks only if they wait; SAMPLED: one wait in some; "
                                       "STATE: no wait, and locks have rows only if they wait; NULL if its events have no duration.")
                .writable(),
            col<&InstrumentRow::properties>("PROPERTIES", Unit::kNone, "Properties from its registration."),
            col<&InstrumentRow::flags>("FLAGS", Unit::kNone, "Whether a memory instrument counts as controlled memory; NULL for others.")
                .writable(),
            col<&InstrumentRow::volatility>("VOLATILITY", Unit::kNone,
                                            "How long its objects live: 0 unknown, 1 the whole process, up to 8 a very short time."),
            col<&InstrumentRow::documentation>("DOCUMENTATION", Unit::kNone, "Description from its registration."),
            col<&InstrumentRow::trace_enabled>(
                "TRACE_ENABLED", Unit::kNone,
                "Whether its events are written to the trace; never without ENABLED, and NO for instruments without events.")
                .writable(),
            col<&InstrumentRow::step>("OVERHEAD_STEP", Unit::kNone,
                                      "What the ceiling (setup_overhead) leaves of these settings; overhead_steps says when and why."));
void ScanInstruments(const Snapshot& snapshot, RowSink<InstrumentRow> out) {
  for (const ClassRow& row : snapshot.classes()) {
    if (!TraitsOf(row.family).is_instrument) continue;
    const bool is_memory = row.family == Family::kMemory || row.family == Family::kOwnMemory;
    out({row.name,
         YesIf(row.enabled),
         TraitsOf(row.family).is_timed ? std::optional(ValueOf(row.timed)) : std::nullopt,
         {row.properties},
         is_memory ? std::optional(SetOf<InstrumentFlags>{row.controlled ? 1u : 0u}) : std::nullopt,
         static_cast<int32_t>(row.volatility),
         row.documentation,
         YesIf(row.trace_enabled),
         row.step,
         row.index});
  }
}
InstrumentChange ChangeOf(const InstrumentRow& before, const InstrumentRow& after) {
  const bool is_retimed = before.timed && after.timed && *before.timed != *after.timed;  // semantics.md C2: ignored if there is no duration
  const bool is_memory = before.flags.has_value();
  const bool was = is_memory && before.flags->bits != 0, is = after.flags && after.flags->bits != 0;
  return {.enabled = ChangedTo(before.enabled, after.enabled),
          .timed = is_retimed ? std::optional(TimingOf(*after.timed)) : std::nullopt,
          .controlled = is_memory && was != is ? std::optional(is) : std::nullopt,
          .traced = ChangedTo(before.trace_enabled, after.trace_enabled)};
}
Status CheckInstrumentRow(const InstrumentRow& before, const InstrumentRow& after) {
  const std::string name(before.name.view());
  if (before.timed && !after.timed)
    return Status(Code::kInvalidArgument, "TIMED of " + name + " takes YES, NO, CONTENDED, SAMPLED or STATE, not NULL: it can be timed");
  if (!before.flags && after.flags && after.flags->bits != 0)
    return Status(Code::kNotAllowed, "FLAGS can be set for memory instruments only, not for " + name);
  return CheckInstrument(before.class_index, ChangeOf(before, after));
}
Status UpdateInstrumentRow(const InstrumentRow& before, const InstrumentRow& after) {
  return UpdateInstrument(before.class_index, ChangeOf(before, after));
}

struct ConsumerRow {
  Text<64> name;
  YesNo enabled;
  Consumer consumer;
};
constexpr auto kConsumerColumns = columns(
    col<&ConsumerRow::name>("NAME", Unit::kNone, "Name of the consumer."),
    col<&ConsumerRow::enabled>("ENABLED", Unit::kNone, "Whether it takes events; the consumers above it must be on, too.").writable());
void ScanConsumers(const Snapshot& snapshot, RowSink<ConsumerRow> out) {
  for (uint32_t i = 0; i < kConsumerCount; ++i) {
    const auto consumer = static_cast<Consumer>(i);
    out({kConsumers[i].name, YesIf(snapshot.header().consumers[static_cast<uint32_t>(consumer)].load(kRelaxed) != 0), consumer});
  }
}
Status UpdateConsumerRow(const ConsumerRow& before, const ConsumerRow& after) {
  return UpdateConsumer(before.consumer, after.enabled == YesNo::kYes);
}

struct SetupTimerRow {
  Text<64> name;
  TimerName timer;
  TimedClass timed_class;
};
constexpr auto kSetupTimerColumns =
    columns(col<&SetupTimerRow::name>("NAME", Unit::kNone, "Kind of events."),
            col<&SetupTimerRow::timer>("TIMER_NAME", Unit::kNone, "Timer of such events from now on; joins performance_timers.TIMER_NAME.")
                .writable());
void ScanSetupTimers(const Snapshot& snapshot, RowSink<SetupTimerRow> out) {
  constexpr std::string_view kNames[kTimedClassCount] = {"idle", "wait", "stage", "statement", "transaction"};
  for (uint32_t i = 0; i < kTimedClassCount; ++i) {
    const auto timed_class = static_cast<TimedClass>(i);
    const TimerId timer = std::min(TimerOf(snapshot, timed_class), TimerId::kTick);
    out({kNames[i], static_cast<TimerName>(timer), timed_class});
  }
}
Status UpdateSetupTimerRow(const SetupTimerRow& before, const SetupTimerRow& after) {
  return UpdateTimer(before.timed_class, static_cast<TimerId>(after.timer));
}

struct TimerRow {
  AnyTimerName name;
  std::optional<int64_t> frequency, resolution, overhead;
};
constexpr auto kTimerColumns = columns(
    col<&TimerRow::name>("TIMER_NAME", Unit::kNone, "Name of the timer."),
    col<&TimerRow::frequency>("TIMER_FREQUENCY", Unit::kTicksPerSecond, "How often it ticks; NULL if this machine does not have it.")
        .combines(Combine::kDerived),
    col<&TimerRow::resolution>("TIMER_RESOLUTION", Unit::kTicks, "Smallest step.").combines(Combine::kDerived),
    col<&TimerRow::overhead>("TIMER_OVERHEAD", Unit::kCycles, "Cost of one reading.").combines(Combine::kDerived));
// Is what a reader has measured. The clocks are the machine's, not the segment's, so one measurement serves all segments.
// Threads: immutable.
using TimerTable = std::array<TimerTraits, kTimerCount>;
// One for each kind of time base. A table that was replaced is never freed, because a reader may still use it.
std::atomic<const TimerTable*> g_measured[2];

const TimerTable& Measured(const TimeBase& base) {
  std::atomic<const TimerTable*>& place = g_measured[base.is_cycle ? 1 : 0];
  const TimerTable* known = place.load(std::memory_order_acquire);  // pairs with the compare_exchange below
  if (known != nullptr) return *known;
  auto measured = std::make_unique<TimerTable>();
  for (int i = 0; i < kTimerCount; ++i) {
    const auto timer = static_cast<TimerId>(i);
    if (timer != TimerId::kCycle || base.is_cycle) (*measured)[i] = MeasureTimer(timer, base);
  }
  if (!place.compare_exchange_strong(known, measured.get(), std::memory_order_acq_rel, std::memory_order_acquire)) return *known;
  return *measured.release();
}

void ScanTimers(const Snapshot& snapshot, RowSink<TimerRow> out) {
  const TimeBase base = TimeBase::Of(snapshot.header().timers[static_cast<int>(TimerId::kCycle)]);
  const TimerTable& measured = Measured(base);
  for (int i = 0; i < kTimerCount; ++i) {
    const auto timer = static_cast<TimerId>(i);
    if (timer == TimerId::kCycle && !base.is_cycle) {
      out({static_cast<AnyTimerName>(timer), {}, {}, {}});
      continue;
    }
    const TimerTraits& traits = measured[i];
    out({static_cast<AnyTimerName>(timer), static_cast<int64_t>(traits.frequency), static_cast<int64_t>(traits.resolution),
         static_cast<int64_t>(traits.overhead)});
  }
}

}  // namespace

void MeasureTimersAgain() {
  for (std::atomic<const TimerTable*>& place : g_measured) place.store(nullptr, std::memory_order_release);
}

constexpr TableDef tables::setup_instruments{
    .doc = "The instruments, and which of them are on.",
    .ops = kSelect | kUpdate,
    .key = {"NAME"},
    .columns = columns_of<kInstrumentColumns>,
    .scan = scan<&ScanInstruments>,
    .update = update<&UpdateInstrumentRow>,
    .check_update = update<&CheckInstrumentRow>,
};
static_assert(ok(tables::setup_instruments));

constexpr TableDef tables::setup_consumers{
    .doc = "The destinations of events, and which of them are on.",
    .ops = kSelect | kUpdate,
    .key = {"NAME"},
    .columns = columns_of<kConsumerColumns>,
    .scan = scan<&ScanConsumers>,
    .update = update<&UpdateConsumerRow>,
};
static_assert(ok(tables::setup_consumers));

constexpr TableDef tables::setup_timers{
    .doc = "The timer of each kind of events.",
    .ops = kSelect | kUpdate,
    .columns = columns_of<kSetupTimerColumns>,
    .scan = scan<&ScanSetupTimers>,
    .update = update<&UpdateSetupTimerRow>,
};
static_assert(ok(tables::setup_timers));

constexpr TableDef tables::performance_timers{
    .doc = "The timers of this machine, measured at the first read.",
    .columns = columns_of<kTimerColumns>,
    .scan = scan<&ScanTimers>,
};
static_assert(ok(tables::performance_timers));

}  // namespace perfschema
