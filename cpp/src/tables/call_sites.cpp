// call_sites: calls that failed or found nothing, by place. This table is an addition of pfs.
#include "record/probe/call_sites.h"

#include <cerrno>

#include "aggregate/resets.h"
#include "snapshot/state.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {

struct CallSiteKey {
  Text<128> event_name;
  Text<32> operation;
  std::optional<Text<64>> source;
  std::optional<uint32_t> error;
  static constexpr KeyColumns kKey{"EVENT_NAME", "OPERATION", "SOURCE", "ERRNO"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &CallSiteKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc),
        col<Path..., &CallSiteKey::operation>("OPERATION", Unit::kNone, "What was called, such as open, connect or try_lock."),
        col<Path..., &CallSiteKey::source>("SOURCE", Unit::kNone,
                                           "Call site as file:line; NULL if events of the instrument are not recorded there."),
        col<Path..., &CallSiteKey::error>("ERRNO", Unit::kNone, "The system's number of the error; NULL if the call was no error."));
  }
};

struct CallSiteStats {
  uint64_t failed, empty, sum_ps;
  std::optional<Text<40>> name;
};
template <>
struct StatsColumns<CallSiteStats> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(
        col<Path..., &CallSiteStats::failed>("COUNT_FAILED", Unit::kCount, "Calls that failed with this error."),
        col<Path..., &CallSiteStats::empty>("COUNT_EMPTY", Unit::kCount,
                                            "Calls that found nothing and did not wait: a poll with the timeout 0, or EAGAIN."),
        col<Path..., &CallSiteStats::sum_ps>("SUM_TIMER_WAIT", Unit::kPicoseconds,
                                             "Total time of these calls, where they were timed events. Other calls are not in it."),
        col<Path..., &CallSiteStats::name>("OBJECT_NAME", Unit::kNone,
                                           "Name without its folder in the first such call; NULL if it was not about a name.")
            .across(Across::kSame));
  }
};

namespace {

void ScanCallSites(const Snapshot& snapshot, RowSink<SummaryRow<CallSiteKey, CallSiteStats>> out) {
  ForEachCallSite(snapshot, [&](const CallSiteRow& row) {
    const bool is_empty = row.error == 0 || row.error == EAGAIN;
    CallSiteKey key{row.instrument->name, kOperations[static_cast<uint32_t>(row.operation)].shown, row.source, {}};
    if (row.error != 0 && row.error != kOtherError) key.error = static_cast<uint32_t>(row.error);
    CallSiteStats stats{is_empty ? 0 : row.count, is_empty ? row.count : 0, row.sum_ps, {}};
    if (!row.name.empty()) stats.name = row.name;
    out({key, stats});
  });
}

Status TruncateCallSites() { return UnderLock(ForgetCallSites); }

}  // namespace

constexpr TableDef tables::call_sites = summary<CallSiteKey, CallSiteStats, ScanCallSites>(
    "Calls that failed, or found nothing, by place and error; an addition of pfs.", TruncateCallSites);
static_assert(ok(tables::call_sites));

}  // namespace perfschema
