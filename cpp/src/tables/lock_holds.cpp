// lock_holds_*: how long locks were held. These tables are an addition of pfs.
#include "aggregate/resets.h"
#include "snapshot/objects.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {

// The statistics of holds, and whose was the longest.
struct HoldStats {
  Stat held;
  std::optional<Text<64>> longest_source;
  std::optional<uint64_t> longest_thread_id;

  static HoldStats Of(const HoldRow& row) { return {row.held, row.longest_source, row.longest_thread_id}; }
};
template <>
struct StatsColumns<HoldStats> {
  template <auto... Path>
  static constexpr auto Get() {
    // Merged rows show the longest hold of all, and whose it was.
    constexpr size_t kMax = 4;
    ColumnGroup<5> times = timer_stats<Path..., &HoldStats::held>("HOLD", "holds");
    times[kMax] = times[kMax].across(Across::kSampled);
    return columns(times,
                   col<Path..., &HoldStats::longest_source>("LONGEST_SOURCE", Unit::kNone,
                                                            "File and line that began the longest hold; NULL if unknown.")
                       .across(Across::kSampled),
                   col<Path..., &HoldStats::longest_thread_id>("LONGEST_THREAD_ID", Unit::kNone,
                                                               "Thread of the longest hold; joins threads.THREAD_ID.")
                       .across(Across::kSampled));
  }
};

namespace {

constexpr auto kResetHolds = Reset<Part::kObjects, ResetGroup::kHold>;

void HoldsByObject(const Snapshot& snapshot, RowSink<SummaryRow<ObjectKey, HoldStats>> out) {
  ForEachHold(snapshot, [&](const HoldRow& row) { out({{row.instrument->name, row.identity}, HoldStats::Of(row)}); });
}
void HoldsByEvent(const Snapshot& snapshot, RowSink<SummaryRow<EventKey, HoldStats>> out) {
  ForEachHoldTotal(snapshot, [&](const HoldRow& row) { out({{row.instrument->name}, HoldStats::Of(row)}); });
}

}  // namespace

constexpr TableDef tables::lock_holds_summary_by_instance = summary<ObjectKey, HoldStats, HoldsByObject>(
    "How long each live lock was held exclusively, while consumer lock_holds was on; an addition of pfs.", kResetHolds);
static_assert(ok(tables::lock_holds_summary_by_instance));

constexpr TableDef tables::lock_holds_summary_global_by_event_name = summary<EventKey, HoldStats, HoldsByEvent>(
    "How long the locks of each instrument were held exclusively, dead locks included; an addition of pfs.", kResetHolds);
static_assert(ok(tables::lock_holds_summary_global_by_event_name));

}  // namespace perfschema
