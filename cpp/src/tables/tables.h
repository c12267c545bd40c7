// tables/tables.h: lists every table once, sorted. The identifier IS the SQL name.
#pragma once

#include "table/table_def.h"

// clang-format off
#define PFS_FOR_EACH_TABLE(X)                     \
  X(accounts)                                     \
  X(active_sessions)                              \
  X(blocked)                                      \
  X(busiest)                                      \
  X(call_sites)                                   \
  X(component_scheduler_tasks)                    \
  X(cond_instances)                               \
  X(connection_control_failed_login_attempts)     \
  X(data_lock_waits)                              \
  X(data_locks)                                   \
  X(error_log)                                    \
  X(events_errors_summary_by_account_by_error)    \
  X(events_errors_summary_by_host_by_error)       \
  X(events_errors_summary_by_thread_by_error)     \
  X(events_errors_summary_by_user_by_error)       \
  X(events_errors_summary_global_by_error)        \
  X(events_stages_current)                        \
  X(events_stages_history)                        \
  X(events_stages_history_long)                   \
  X(events_stages_summary_by_account_by_event_name) \
  X(events_stages_summary_by_host_by_event_name)  \
  X(events_stages_summary_by_thread_by_event_name) \
  X(events_stages_summary_by_user_by_event_name)  \
  X(events_stages_summary_global_by_event_name)   \
  X(events_statements_current)                    \
  X(events_statements_histogram_by_digest)        \
  X(events_statements_histogram_global)           \
  X(events_statements_history)                    \
  X(events_statements_history_long)               \
  X(events_statements_summary_by_account_by_event_name) \
  X(events_statements_summary_by_digest)          \
  X(events_statements_summary_by_host_by_event_name) \
  X(events_statements_summary_by_program)         \
  X(events_statements_summary_by_thread_by_event_name) \
  X(events_statements_summary_by_user_by_event_name) \
  X(events_statements_summary_global_by_event_name) \
  X(events_transactions_current)                  \
  X(events_transactions_history)                  \
  X(events_transactions_history_long)             \
  X(events_transactions_summary_by_account_by_event_name) \
  X(events_transactions_summary_by_host_by_event_name) \
  X(events_transactions_summary_by_thread_by_event_name) \
  X(events_transactions_summary_by_user_by_event_name) \
  X(events_transactions_summary_global_by_event_name) \
  X(events_waits_current)                         \
  X(events_waits_history)                         \
  X(events_waits_history_long)                    \
  X(events_waits_summary_by_account_by_event_name) \
  X(events_waits_summary_by_host_by_event_name)   \
  X(events_waits_summary_by_instance)             \
  X(events_waits_summary_by_thread_by_event_name) \
  X(events_waits_summary_by_user_by_event_name)   \
  X(events_waits_summary_global_by_event_name)    \
  X(file_instances)                               \
  X(file_summary_by_event_name)                   \
  X(file_summary_by_instance)                     \
  X(global_status)                                \
  X(global_variable_attributes)                   \
  X(global_variables)                             \
  X(host_cache)                                   \
  X(hosts)                                        \
  X(lock_holds_summary_by_instance)               \
  X(lock_holds_summary_global_by_event_name)      \
  X(lock_reasons)                                 \
  X(memory_summary_by_account_by_event_name) \
  X(memory_summary_by_host_by_event_name) \
  X(memory_summary_by_thread_by_event_name) \
  X(memory_summary_by_user_by_event_name) \
  X(memory_summary_global_by_event_name) \
  X(metadata_locks)                               \
  X(mutex_instances)                              \
  X(objects_summary_global_by_type)               \
  X(overhead_steps)                               \
  X(performance_timers)                           \
  X(prepared_statements_instances)                \
  X(processlist)                                  \
  X(running)                                      \
  X(rwlock_instances)                             \
  X(session_account_connect_attrs)                \
  X(session_connect_attrs)                        \
  X(session_status)                               \
  X(session_variables)                            \
  X(setup_actors)                                 \
  X(setup_consumers)                              \
  X(setup_instrument_rules)                       \
  X(setup_instruments)                            \
  X(setup_loggers)                                \
  X(setup_meters)                                 \
  X(setup_metrics)                                \
  X(setup_objects)                                \
  X(setup_overhead)                               \
  X(setup_threads)                                \
  X(setup_timers)                                 \
  X(socket_instances)                             \
  X(socket_summary_by_event_name)                 \
  X(socket_summary_by_instance)                   \
  X(status_by_account)                            \
  X(status_by_host)                               \
  X(status_by_thread)                             \
  X(status_by_user)                               \
  X(table_handles)                                \
  X(table_io_waits_summary_by_index_usage)        \
  X(table_io_waits_summary_by_table)              \
  X(table_lock_waits_summary_by_table)            \
  X(temporary_account_locks)                      \
  X(thread_time)                                  \
  X(threads)                                      \
  X(user_defined_functions)                       \
  X(user_variables_by_thread)                     \
  X(users)                                        \
  X(variables_by_thread)                          \
  X(variables_info)                               \
  X(variables_metadata)
// clang-format on

namespace perfschema::tables {
#define X(name) extern const TableDef name;
PFS_FOR_EACH_TABLE(X)
#undef X

// Append a row of events_waits_current ... as literals with commas in between. For the trace: a program that only records has no other
// table, and with them thousands of addresses that each start would relocate.
void AppendRowOfWaits(const void* row, SqlText& out);
void AppendRowOfStages(const void* row, SqlText& out);
void AppendRowOfStatements(const void* row, SqlText& out);
void AppendRowOfTransactions(const void* row, SqlText& out);
}  // namespace perfschema::tables
