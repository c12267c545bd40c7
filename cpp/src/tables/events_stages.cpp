// events_stages_*, and the summaries of stages.
#include "snapshot/events.h"
#include "tables/event_tables.h"
#include "tables/sums.h"

namespace perfschema {
namespace {

constexpr auto kStageColumns = columns(
    event_columns<&StageRow::event>(), time_columns<&StageRow::event>(),
    col<&StageRow::work_completed>("WORK_COMPLETED", Unit::kCount, "Units of work done so far; NULL for stages that do not report it."),
    col<&StageRow::work_estimated>("WORK_ESTIMATED", Unit::kCount, "Estimated total units of work; NULL for stages that do not report it."),
    nesting_columns<&StageRow::event>());

template <uint32_t kView>
constexpr TableDef StageTable(std::string_view doc) {
  return EventTable<StageRow, ForEachStage, Kind::kStage, kView>(doc, columns_of<kStageColumns>);
}

}  // namespace

PFS_EVENT_TABLES_(stages, StageTable, "The stage that each live thread is in, or else its last stage.");

void tables::AppendRowOfStages(const void* row, SqlText& out) { AppendRow<kStageColumns>(row, out); }

PFS_SUM_TABLES_(stages, Kind::kStage, "Stages");

}  // namespace perfschema
