// tables/event_tables.h: shared parts of the event tables of every kind: columns, and the declarations of their three
// views.
#pragma once

#include "aggregate/resets.h"
#include "snapshot/events.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {

// THREAD_ID ... EVENT_NAME of the EventRow at the end of the path.
template <auto... Path>
constexpr auto event_columns() {
  return columns(col<Path..., &EventRow::thread_id>("THREAD_ID", Unit::kNone, "Thread of the event; joins threads.THREAD_ID."),
                 col<Path..., &EventRow::event_id>("EVENT_ID", Unit::kNone, "Number of the event in its thread, counted from 1."),
                 col<Path..., &EventRow::end_event_id>("END_EVENT_ID", Unit::kNone,
                                                       "Newest event of the thread when this one ended; NULL while it runs."),
                 col<Path..., &EventRow::event_name>("EVENT_NAME", Unit::kNone, "Instrument; joins setup_instruments.NAME."));
}

// SOURCE ... TIMER_WAIT.
template <auto... Path>
constexpr auto time_columns() {
  return columns(
      col<Path..., &EventRow::source>("SOURCE", Unit::kNone, "Call site as file:line."),
      col<Path..., &EventRow::timer_start>("TIMER_START", Unit::kPicoseconds, "Begin, since the start of pfs; NULL if not timed."),
      col<Path..., &EventRow::timer_end>("TIMER_END", Unit::kPicoseconds,
                                         "End, since the start of pfs; NULL if not timed or still running."),
      col<Path..., &EventRow::timer_wait>("TIMER_WAIT", Unit::kPicoseconds,
                                          "TIMER_END minus TIMER_START; NULL if not timed or still running."));
}

template <auto... Path>
constexpr auto nesting_columns() {
  return columns(col<Path..., &EventRow::nesting_event_id>("NESTING_EVENT_ID", Unit::kNone,
                                                           "EVENT_ID of the event in which this one began; NULL if there was none."),
                 col<Path..., &EventRow::nesting_type>("NESTING_EVENT_TYPE", Unit::kNone, "Kind of the event in which this one began."));
}

// Reads a view of a kind of events. kForEach is ForEachWait or a similar function.
template <typename Row, auto kForEach, uint32_t kView>
void ScanEvents(const Snapshot& snapshot, RowSink<Row> out) {
  kForEach(snapshot, kView, out, [&](uint64_t rows) { out.Expect(rows); });
}

template <typename Row, auto kForEach, Kind kKind, uint32_t kView>
constexpr TableDef EventTable(std::string_view doc, ColumnList columns) {
  TableDef table;
  table.doc = doc;
  table.ops = kSelect | kTruncate;
  if (kView != kViewHistoryLong) table.key = {"THREAD_ID", "EVENT_ID"};
  table.columns = columns;
  table.scan = internal::MakeScan<Row, ScanEvents<Row, kForEach, kView>>();
  table.truncate = Hide<kKind, kView>;
  return table;
}

// Appends a row as literals with commas in between.
template <const auto& kColumns>
void AppendRow(const void* row, SqlText& out) {
  const auto append = [&]<size_t kAt>(std::integral_constant<size_t, kAt>) {
    constexpr const Column& kColumn = kColumns[kAt];
    const SqlType type = internal::ComputedType(kColumn.type);
    if (kAt != 0) out.AddComma();
    out.Begin(type);
    kColumn.append_sql(static_cast<const char*>(row) + kColumn.locate(), out);
  };
  [&]<size_t... kAt>(std::index_sequence<kAt...>) { (append(std::integral_constant<size_t, kAt>()), ...); }
  (std::make_index_sequence<std::size(kColumns)>());
}

// The three tables of a kind of events. table<kView>(doc) declares one of them.
#define PFS_EVENT_TABLE_(name, table, view, doc)      \
  constexpr TableDef tables::name = table<view>(doc); \
  static_assert(ok(tables::name))
#define PFS_EVENT_TABLES_(family, table, current_doc)                                                             \
  PFS_EVENT_TABLE_(events_##family##_current, table, kViewCurrent, current_doc);                                  \
  PFS_EVENT_TABLE_(events_##family##_history, table, kViewHistory,                                                \
                   "The last " #family " of each live thread that have ended; performance_schema_events_" #family \
                   "_history_size says how many.");                                                               \
  PFS_EVENT_TABLE_(events_##family##_history_long, table, kViewHistoryLong,                                       \
                   "The last " #family " of the process that have ended; performance_schema_events_" #family      \
                   "_history_long_size says how many.")

}  // namespace perfschema
