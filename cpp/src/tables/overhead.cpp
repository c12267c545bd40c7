// setup_overhead, overhead_steps: the ceiling of what pfs may cost. These tables are an addition of pfs.
#include "setup/ceiling.h"
#include "snapshot/state.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {

namespace {

struct Ceiling {
  Text<64> name;
  MediumInt limit_ppm;
  YesNo may_disable;
  uint64_t overhead_ppm;
  uint64_t periods;
};
constexpr auto kCeilingColumns = columns(
    col<&Ceiling::name>("NAME", Unit::kNone, "The one row is process."),
    col<&Ceiling::limit_ppm>("LIMIT_PPM", Unit::kNone,
                             "Ceiling of what pfs costs, in millionths of the process's processor time; 10000 is 1 %, 0 = no ceiling.")
        .writable(),
    col<&Ceiling::may_disable>("MAY_DISABLE", Unit::kNone, "Whether instruments whose count alone costs too much may be switched off.")
        .writable(),
    col<&Ceiling::overhead_ppm>("OVERHEAD_PPM", Unit::kNone, "What pfs cost in the last period, computed from counts and prices."),
    col<&Ceiling::periods>("PERIODS", Unit::kCount, "Number of periods so far."));
void ScanCeiling(const Snapshot& snapshot, RowSink<Ceiling> out) {
  const ShmGovernor& shared = snapshot.header().governor;
  out({"process",
       {static_cast<uint32_t>(shared.limit_ppm.load(kRelaxed))},
       YesIf(shared.may_disable.load(kRelaxed) != 0),
       shared.overhead_ppm.load(kRelaxed),
       shared.periods.load(kRelaxed)});
}
Status CheckCeilingRow(const Ceiling&, const Ceiling& after) { return CheckCeiling(after.limit_ppm.value); }
Status UpdateCeilingRow(const Ceiling& before, const Ceiling& after) {
  return UpdateCeiling(before.limit_ppm.value != after.limit_ppm.value ? std::optional<uint64_t>(after.limit_ppm.value) : std::nullopt,
                       ChangedTo(before.may_disable, after.may_disable));
}

struct StepOfInstrument {
  uint64_t number;
  Timestamp at;
  Text<128> name;
  Step from, to;
  uint64_t overhead_ppm, event_ppm, limit_ppm, events_per_second;
};
constexpr auto kStepColumns = columns(
    col<&StepOfInstrument::number>("STEP_NUMBER", Unit::kNone, "Order of the steps; 1 is the first of the process."),
    col<&StepOfInstrument::at>("STEPPED", Unit::kNone, "When."), col<&StepOfInstrument::name>("EVENT_NAME", Unit::kNone, "The instrument."),
    col<&StepOfInstrument::from>("FROM_STEP", Unit::kNone, "What the ceiling left of its settings before."),
    col<&StepOfInstrument::to>("TO_STEP", Unit::kNone,
                               "What the ceiling leaves since then. FULL: all. SAMPLED: waits are SAMPLED, and locks that can be tried are "
                               "CONTENDED. COUNTED: events are only counted. OFF: nothing."),
    col<&StepOfInstrument::overhead_ppm>("OVERHEAD_PPM", Unit::kNone, "Why: what pfs cost in the period before, in millionths."),
    col<&StepOfInstrument::event_ppm>("EVENT_PPM", Unit::kNone, "What the instrument's events were of that."),
    col<&StepOfInstrument::limit_ppm>("LIMIT_PPM", Unit::kNone, "The ceiling then."),
    col<&StepOfInstrument::events_per_second>("EVENTS_PER_SECOND", Unit::kNone, "The instrument's events in the period before."));
void ScanSteps(const Snapshot& snapshot, RowSink<StepOfInstrument> out) {
  ForEachStep(snapshot, [&](const StepRow& row) {
    out({row.number,
         {static_cast<int64_t>(row.micros)},
         row.instrument->name,
         row.from,
         row.to,
         row.overhead_ppm,
         row.class_ppm,
         row.limit_ppm,
         row.events_per_second});
  });
}

}  // namespace

constexpr TableDef tables::setup_overhead{
    .doc = "The ceiling of what pfs may cost, and what it costs; an addition of pfs.",
    .ops = kSelect | kUpdate,
    .key = {"NAME"},
    .columns = columns_of<kCeilingColumns>,
    .scan = scan<&ScanCeiling>,
    .update = update<&UpdateCeilingRow>,
    .check_update = update<&CheckCeilingRow>,
};
static_assert(ok(tables::setup_overhead));

constexpr TableDef tables::overhead_steps{
    .doc = "The last changes that the ceiling made to instruments, when and why; an addition of pfs.",
    .key = {"STEP_NUMBER"},
    .columns = columns_of<kStepColumns>,
    .scan = scan<&ScanSteps>,
};
static_assert(ok(tables::overhead_steps));

}  // namespace perfschema
