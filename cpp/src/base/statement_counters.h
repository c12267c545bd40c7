// base/statement_counters.h: declares once the counters of a statement. The columns of events_statements_*, of every summary of
// statements, and the words of their records and statistics derive from this list.
#pragma once

#include <cstdint>
#include <string_view>

namespace perfschema {

// X(identifier, column, meaning). All are summed up.
#define PFS_FOR_EACH_STATEMENT_COUNTER(X)                                                      \
  X(kLockTime, "LOCK_TIME", "time waited for table locks")                                     \
  X(kErrors, "ERRORS", "statements that ended with an error")                                  \
  X(kWarnings, "WARNINGS", "warnings")                                                         \
  X(kRowsAffected, "ROWS_AFFECTED", "rows that were changed")                                  \
  X(kRowsSent, "ROWS_SENT", "rows that were returned")                                         \
  X(kRowsExamined, "ROWS_EXAMINED", "rows that were examined")                                 \
  X(kTmpDiskTables, "CREATED_TMP_DISK_TABLES", "temporary tables on disk that were made")      \
  X(kTmpTables, "CREATED_TMP_TABLES", "temporary tables that were made")                       \
  X(kFullJoin, "SELECT_FULL_JOIN", "joins that scanned a table without an index")              \
  X(kFullRangeJoin, "SELECT_FULL_RANGE_JOIN", "joins that searched a range of the next table") \
  X(kRange, "SELECT_RANGE", "joins that searched a range of the first table")                  \
  X(kRangeCheck, "SELECT_RANGE_CHECK", "joins that chose an index again for each row")         \
  X(kScan, "SELECT_SCAN", "joins that scanned the first table")                                \
  X(kMergePasses, "SORT_MERGE_PASSES", "passes of merge sorts")                                \
  X(kSortRange, "SORT_RANGE", "sorts of ranges")                                               \
  X(kSortRows, "SORT_ROWS", "rows that were sorted")                                           \
  X(kSortScan, "SORT_SCAN", "sorts of scanned tables")                                         \
  X(kNoIndex, "NO_INDEX_USED", "table scans without an index")                                 \
  X(kNoGoodIndex, "NO_GOOD_INDEX_USED", "table scans because no index was good")               \
  X(kCpuTime, "CPU_TIME", "time on a processor")

enum class StatementCounter : uint32_t {
#define X(name, column, what) name,
  PFS_FOR_EACH_STATEMENT_COUNTER(X)
#undef X
      kCount
};
inline constexpr uint32_t kStatementCounters = static_cast<uint32_t>(StatementCounter::kCount);

struct StatementCounterTraits {
  std::string_view column, what;
};
inline constexpr StatementCounterTraits kStatementCounterTraits[kStatementCounters] = {
#define X(name, column, what) {column, what},
    PFS_FOR_EACH_STATEMENT_COUNTER(X)
#undef X
};

}  // namespace perfschema
