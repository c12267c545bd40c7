// Tables of the program: summaries of waits on their rows and for their locks, and their handles.
#include "aggregate/resets.h"
#include "snapshot/program_tables.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

constexpr auto kResetRows = Reset<Part::kObjects, ResetGroup::kTableIo>;
constexpr auto kResetLocks = Reset<Part::kObjects, ResetGroup::kTableLock>;
constexpr auto kResetBoth = Reset<Part::kObjects, ResetGroup::kTableIo, ResetGroup::kTableLock>;

void WaitsByTable(const Snapshot& snapshot, RowSink<SummaryRow<TableKey, Stat>> out) {
  out.Expect(MostTables(snapshot));
  ForEachTable(snapshot, kTableRows | kTableLocks, [&](const TableRow& row) {
    Stat wait = row.io.total();
    if (row.locks) wait.Merge(row.locks->total());
    out({TableKey::Of(row), wait});
  });
}
void RowsByTable(const Snapshot& snapshot, RowSink<SummaryRow<TableKey, TableIoLanes>> out) {
  out.Expect(MostTables(snapshot));
  ForEachTable(snapshot, kTableRows, [&](const TableRow& row) { out({TableKey::Of(row), {row.io}}); });
}
void RowsByIndex(const Snapshot& snapshot, RowSink<SummaryRow<IndexKey, TableIoLanes>> out) {
  out.Expect(MostIndexes(snapshot));
  ForEachTable(snapshot, kTableRows, [&](const TableRow& row) {
    for (const IndexRow& index : row.indexes) out({{TableKey::Of(row), index.name}, {index.io}});
  });
}
void LocksByTable(const Snapshot& snapshot, RowSink<SummaryRow<TableKey, TableLockLanes>> out) {
  out.Expect(MostTables(snapshot));
  ForEachTable(snapshot, kTableLocks, [&](const TableRow& row) {
    if (row.locks) out({TableKey::Of(row), {*row.locks}});
  });
}

struct Handle {
  Text<64> type;
  TableHandleRow row;
  std::optional<Text<64>> internal_lock, external_lock;
};
constexpr auto kHandleColumns =
    columns(col<&Handle::type>("OBJECT_TYPE", Unit::kNone, "TABLE or TEMPORARY TABLE."),
            col<&Handle::row, &TableHandleRow::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of the table; empty if it has none."),
            col<&Handle::row, &TableHandleRow::name>("OBJECT_NAME", Unit::kNone, "Name of the table."),
            col<&Handle::row, &TableHandleRow::identity>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                                                         "Identity of the handle; joins events_waits_current.OBJECT_INSTANCE_BEGIN."),
            col<&Handle::row, &TableHandleRow::owner_thread_id>(
                "OWNER_THREAD_ID", Unit::kNone, "Thread that opened it; joins threads.THREAD_ID; NULL while it is only cached."),
            col<&Handle::row, &TableHandleRow::owner_event_id>("OWNER_EVENT_ID", Unit::kNone,
                                                               "Event in which it was opened; NULL while it is only cached."),
            col<&Handle::internal_lock>("INTERNAL_LOCK", Unit::kNone, "Lock that the program holds on the table; NULL if none."),
            col<&Handle::external_lock>("EXTERNAL_LOCK", Unit::kNone, "Lock that is held in the storage engine; NULL if none."));

// The names of the lanes.
constexpr std::string_view kLockNames[kMostLanes] = {
    "READ",          "READ WITH SHARED LOCKS", "READ HIGH PRIORITY",      "READ NO INSERT",
    "READ EXTERNAL", "WRITE ALLOW WRITE",      "WRITE CONCURRENT INSERT", "WRITE LOW PRIORITY",
    "WRITE",         "WRITE EXTERNAL"};

void ScanHandles(const Snapshot& snapshot, RowSink<Handle> out) {
  const auto name = [](std::optional<uint8_t> lane) { return lane ? Text<64>(kLockNames[*lane]) : std::optional<Text<64>>(); };
  ForEachTableHandle(snapshot, [&](const TableHandleRow& row) {
    out({kObjectTypeNames[static_cast<uint32_t>(row.type)], row, name(row.internal_lock), name(row.external_lock)});
  });
}

}  // namespace

constexpr TableDef tables::objects_summary_global_by_type =
    summary<TableKey, Stat, WaitsByTable>("Waits on each table, for its rows and for its locks.", kResetBoth);
static_assert(ok(tables::objects_summary_global_by_type));

constexpr TableDef tables::table_io_waits_summary_by_table =
    summary<TableKey, TableIoLanes, RowsByTable>("Waits for rows of each table: the sum over its indexes.", kResetRows);
static_assert(ok(tables::table_io_waits_summary_by_table));

constexpr TableDef tables::table_io_waits_summary_by_index_usage =
    summary<IndexKey, TableIoLanes, RowsByIndex>("Waits for rows of each table, by the index that was used.", kResetRows);
static_assert(ok(tables::table_io_waits_summary_by_index_usage));

constexpr TableDef tables::table_lock_waits_summary_by_table =
    summary<TableKey, TableLockLanes, LocksByTable>("Waits for locks on each table.", kResetLocks);
static_assert(ok(tables::table_lock_waits_summary_by_table));

constexpr TableDef tables::table_handles{
    .doc = "The open tables, the threads that use them, and the locks on them.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kHandleColumns>,
    .scan = scan<&ScanHandles>,
};
static_assert(ok(tables::table_handles));

}  // namespace perfschema
