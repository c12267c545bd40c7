// table/stat_columns.h: column groups of statistics. A summary is a product: (key columns) x (statistics) x (scan).
//
//   constexpr TableDef tables::x = summary<ThreadEventKey, Stat, ScanIt>("Waits of ...", Reset<...>);
#pragma once

#include "snapshot/lanes.h"
#include "table/table_def.h"

namespace perfschema {

// COUNT_STAR or COUNT_<suffix>, then SUM_, MIN_, AVG_, MAX_TIMER_<suffix> of the Stat at the end of the path. `what`:
// a plural noun, for the docs.
template <auto... Path>
constexpr ColumnGroup<5> timer_stats(std::string_view suffix, std::string_view what) {
  const std::string_view counted = suffix == "WAIT" ? "STAR" : suffix;
  return columns(
      col<Path..., &Stat::count>({"COUNT_", counted}, Unit::kCount, {"Number of ", what, "."}),
      col<Path..., &Stat::sum_ps>({"SUM_TIMER_", suffix}, Unit::kPicoseconds, {"Total time of the timed ", what, "."}),
      col<Path..., &Stat::min_ps>({"MIN_TIMER_", suffix}, Unit::kPicoseconds, {"Shortest of the timed ", what, "; 0 if there are none."}),
      col<Path..., &Stat::avg_ps>({"AVG_TIMER_", suffix}, Unit::kPicoseconds, {"Total time divided by the number of ", what, "."}),
      col<Path..., &Stat::max_ps>({"MAX_TIMER_", suffix}, Unit::kPicoseconds, {"Longest of the timed ", what, "; 0 if there are none."}));
}

// COUNT_NOT_SAMPLED, an addition of pfs behind the columns of MySQL.
template <auto... Path>
constexpr ColumnGroup<1> unsampled_column() {
  return columns(
      col<Path..., &Stat::unsampled>("COUNT_NOT_SAMPLED", Unit::kCount,
                                     "Of COUNT_STAR: waits that TIMED = 'SAMPLED' only counted. SUM, MIN, AVG and MAX leave them out."));
}

// The columns of each kind of statistics.
template <typename Stats>
struct StatsColumns;
template <>
struct StatsColumns<Stat> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(timer_stats<Path...>("WAIT", "waits"), unsampled_column<Path...>());
  }
};
// The same lanes mean different things to different families, so each family has a type of its own for its columns.
template <typename Bytes>
struct IoLanes : LanesOf<kFileLanes> {};
using FileLanes = IoLanes<int64_t>;
using SocketLanes = IoLanes<uint64_t>;
template <typename Bytes>
struct StatsColumns<IoLanes<Bytes>> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(
        timer_stats<Path..., &LanesOf<kFileLanes>::total>("WAIT", "operations"),
        timer_stats<Path..., &LanesOf<kFileLanes>::sum<kReadLane>>("READ", "reads"),
        col<Path..., &LanesOf<kFileLanes>::amount<kReadLane, Bytes>>("SUM_NUMBER_OF_BYTES_READ", Unit::kBytes, "Bytes that were read."),
        timer_stats<Path..., &LanesOf<kFileLanes>::sum<kWriteLane>>("WRITE", "writes"),
        col<Path..., &LanesOf<kFileLanes>::amount<kWriteLane, Bytes>>("SUM_NUMBER_OF_BYTES_WRITE", Unit::kBytes,
                                                                      "Bytes that were written."),
        timer_stats<Path..., &LanesOf<kFileLanes>::sum<kMiscLane>>("MISC", "operations that are neither reads nor writes"),
        unsampled_column<Path..., &LanesOf<kFileLanes>::total>());
  }
};

struct TableIoLanes : LanesOf<kTableIoLanes> {};
template <>
struct StatsColumns<TableIoLanes> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(
        timer_stats<Path..., &TableIoLanes::total>("WAIT", "rows that were read or written"),
        timer_stats<Path..., &TableIoLanes::sum<kFetchLane>>("READ", "rows that were fetched"),
        timer_stats<Path..., &TableIoLanes::sum<kInsertLane, kDeleteLane>>("WRITE", "rows that were inserted, updated or deleted"),
        timer_stats<Path..., &TableIoLanes::sum<kFetchLane>>("FETCH", "rows that were fetched"),
        timer_stats<Path..., &TableIoLanes::sum<kInsertLane>>("INSERT", "rows that were inserted"),
        timer_stats<Path..., &TableIoLanes::sum<kUpdateLane>>("UPDATE", "rows that were updated"),
        timer_stats<Path..., &TableIoLanes::sum<kDeleteLane>>("DELETE", "rows that were deleted"),
        unsampled_column<Path..., &TableIoLanes::total>());
  }
};
struct TableLockLanes : LanesOf<kTableLockLanes> {};
template <>
struct StatsColumns<TableLockLanes> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(
        timer_stats<Path..., &TableLockLanes::total>("WAIT", "waits for locks"),
        timer_stats<Path..., &TableLockLanes::sum<kReadNormalLane, kReadExternalLane>>("READ", "waits for read locks"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteAllowWriteLane, kWriteExternalLane>>("WRITE", "waits for write locks"),
        timer_stats<Path..., &TableLockLanes::sum<kReadNormalLane>>("READ_NORMAL", "waits to read"),
        timer_stats<Path..., &TableLockLanes::sum<kReadSharedLane>>("READ_WITH_SHARED_LOCKS", "waits to read and lock rows shared"),
        timer_stats<Path..., &TableLockLanes::sum<kReadHighPriorityLane>>("READ_HIGH_PRIORITY", "waits to read before writers"),
        timer_stats<Path..., &TableLockLanes::sum<kReadNoInsertLane>>("READ_NO_INSERT", "waits to read without concurrent inserts"),
        timer_stats<Path..., &TableLockLanes::sum<kReadExternalLane>>("READ_EXTERNAL", "waits for external read locks"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteAllowWriteLane>>("WRITE_ALLOW_WRITE", "waits to write beside others"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteConcurrentInsertLane>>("WRITE_CONCURRENT_INSERT", "waits to insert beside readers"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteLowPriorityLane>>("WRITE_LOW_PRIORITY", "waits to write after readers"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteNormalLane>>("WRITE_NORMAL", "waits to write"),
        timer_stats<Path..., &TableLockLanes::sum<kWriteExternalLane>>("WRITE_EXTERNAL", "waits for external write locks"),
        unsampled_column<Path..., &TableLockLanes::total>());
  }
};

// A row of any summary. Key has a static template Columns<Path...>() and kNames.
template <typename Key, typename Stats>
struct SummaryRow {
  Key key;
  Stats stats;
  static constexpr auto kColumns =
      columns(Key::template Columns<&SummaryRow::key>(), StatsColumns<Stats>::template Get<&SummaryRow::stats>());
};

// The declaration of a summary table. kScan: void(const Snapshot&, RowSink<SummaryRow<Key, Stats>>).
template <typename Key, typename Stats, void (*kScan)(const Snapshot&, RowSink<SummaryRow<Key, Stats>>)>
constexpr TableDef summary(std::string_view doc, Status (*truncate)()) {
  TableDef table;
  table.doc = doc;
  table.ops = kSelect | kTruncate;
  table.key = Key::kKey;
  table.columns = columns_of<SummaryRow<Key, Stats>::kColumns>;
  table.scan = internal::MakeScan<SummaryRow<Key, Stats>, kScan>();
  table.truncate = truncate;
  return table;
}

}  // namespace perfschema
