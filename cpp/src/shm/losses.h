// shm/losses.h: the counters of what is not recorded, or was repaired: rows of global_status that only grow.
#pragma once

#include <cstdint>

#include "shm/layout_program.h"

namespace perfschema {

// X(identifier, SQL name): counters of global_status that only grow.
#define PFS_FOR_EACH_LOSS(X)                                            \
  X(kAccounts, "Performance_schema_accounts_lost")                      \
  X(kCondClasses, "Performance_schema_cond_classes_lost")               \
  X(kCondInstances, "Performance_schema_cond_instances_lost")           \
  X(kDigests, "Performance_schema_digest_lost")                         \
  X(kFileClasses, "Performance_schema_file_classes_lost")               \
  X(kFileInstances, "Performance_schema_file_instances_lost")           \
  X(kFileHandles, "Performance_schema_file_handles_lost")               \
  X(kHosts, "Performance_schema_hosts_lost")                            \
  X(kIndexStat, "Performance_schema_index_stat_lost")                   \
  X(kLockers, "Performance_schema_locker_lost")                         \
  X(kMemoryClasses, "Performance_schema_memory_classes_lost")           \
  X(kMetadataLocks, "Performance_schema_metadata_lock_lost")            \
  X(kMutexClasses, "Performance_schema_mutex_classes_lost")             \
  X(kMutexInstances, "Performance_schema_mutex_instances_lost")         \
  X(kNestedStatements, "Performance_schema_nested_statement_lost")      \
  X(kPreparedStatements, "Performance_schema_prepared_statements_lost") \
  X(kPrograms, "Performance_schema_program_lost")                       \
  X(kRwlockClasses, "Performance_schema_rwlock_classes_lost")           \
  X(kRwlockInstances, "Performance_schema_rwlock_instances_lost")       \
  X(kSocketClasses, "Performance_schema_socket_classes_lost")           \
  X(kSocketInstances, "Performance_schema_socket_instances_lost")       \
  X(kStageClasses, "Performance_schema_stage_classes_lost")             \
  X(kStatementClasses, "Performance_schema_statement_classes_lost")     \
  X(kTableHandles, "Performance_schema_table_handles_lost")             \
  X(kTableInstances, "Performance_schema_table_instances_lost")         \
  X(kTableLockStat, "Performance_schema_table_lock_stat_lost")          \
  X(kThreadClasses, "Performance_schema_thread_classes_lost")           \
  X(kThreadInstances, "Performance_schema_thread_instances_lost")       \
  X(kUsers, "Performance_schema_users_lost")                            \
  X(kEvents, "Performance_schema_events_lost")                          \
  X(kStatistics, "Performance_schema_object_cells_lost")                \
  X(kThreadStatistics, "Performance_schema_thread_statistics_lost")     \
  X(kNames, "Performance_schema_names_lost")                            \
  X(kSources, "Performance_schema_source_locations_lost")               \
  X(kStatusVariables, "Performance_schema_status_variables_lost")       \
  X(kSegmentMemory, "Performance_schema_segment_memory_lost")           \
  X(kTornRows, "Performance_schema_rows_skipped")                       \
  PFS_FOR_EACH_PROGRAM_LOSS(X)                                          \
  X(kTraceErrors, "Performance_schema_trace_errors")                    \
  X(kTraceEvents, "Performance_schema_trace_events_lost")               \
  X(kTraceWritten, "Performance_schema_trace_events_written")           \
  X(kCallSites, "Performance_schema_call_sites_lost")

enum class Loss : uint32_t {
#define X(name, shown) name,
  PFS_FOR_EACH_LOSS(X)
#undef X
      kCount
};

}  // namespace perfschema
