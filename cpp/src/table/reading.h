// table/reading.h: reads tables with the time so far of what still runs.
#pragma once

#include <optional>

#include "table/registry.h"

namespace perfschema {

// Says how a table shows what has not ended, and in which order.
struct ReadTime {
  std::optional<uint64_t> now;  // the moment of the reading, in picoseconds since the epoch; nullopt: the timer says it
  bool shows_elapsed = false;   // TIMER_END and TIMER_WAIT of running events: now, and the time so far; else NULL
  bool any_order = false;       // the reader does not see the order of rows: events need not be sorted by time
  bool only_used = false;       // buckets of digests in which nothing was counted are left out: 450 rows a digest, most of them empty
};

// Reads a table as ReadTable() does.
PFS_API Status ReadTableAt(const ReadTime& time, const NamedTable& table, const SegmentView& view, std::span<const size_t> columns,
                           TableData* data);

// Returns the present on the time line of a process's events, in picoseconds since its epoch; 0 if the view is not ok().
// REQUIRES: the process was started since the last boot of this machine.
PFS_API Status ReadPresent(const SegmentView& view, uint64_t* picoseconds);

// Returns when the process became another program (exec), in nanoseconds of CLOCK_MONOTONIC; 0 if it did not.
PFS_API Status ReadBecame(const SegmentView& view, uint64_t* monotonic_nanos);

}  // namespace perfschema
