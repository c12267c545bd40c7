/* perfschema/log.h: the error log: the last 5 MiB of the program's log events. Included by pfs.h only.
 *
 *     pfs_log(PFS_LOG_WARNING, "APP-000042", "queue", "the queue is nearly full");
 *
 * Each call adds a row to error_log. When the log is full, the oldest rows go (Error_log_expired_events of global_status). Signal
 * handlers may call it: it allocates nothing, and never waits long.
 */
#ifndef PERFSCHEMA_LOG_H
#define PERFSCHEMA_LOG_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* PRIO. */
enum pfs_log_priority { PFS_LOG_SYSTEM = 0, PFS_LOG_ERROR = 1, PFS_LOG_WARNING = 2, PFS_LOG_NOTE = 3 };

#ifndef PFS_DISABLE

/* Logs an event. LOGGED is now, or a microsecond after the row before it; THREAD_ID the calling thread. code [10], such as "MY-010000",
 * and subsystem [7]: NULL or "" = NULL; longer ones are cut, and a message at 65535 bytes. Does nothing if pfs is off. Errors:
 * PFS_E_INVALID_ARGUMENT for a priority without an enumerator, or no message; PFS_E_FULL: the event was lost, because there was no
 * memory, or in a handler that interrupted pfs_log() (Performance_schema_error_log_lost). */
PFS_API int pfs_log(enum pfs_log_priority priority, const char* code, const char* subsystem, const char* message);

/* Does the same for a message of `bytes` bytes. */
PFS_API int pfs_log_bytes(enum pfs_log_priority priority, const char* code, const char* subsystem, const char* message, size_t bytes);

#else /* PFS_DISABLE */

static inline int pfs_log(enum pfs_log_priority priority PFS_UNUSED_, const char* code PFS_UNUSED_, const char* subsystem PFS_UNUSED_,
                          const char* message PFS_UNUSED_) {
  return 0;
}
static inline int pfs_log_bytes(enum pfs_log_priority priority PFS_UNUSED_, const char* code PFS_UNUSED_, const char* subsystem PFS_UNUSED_,
                                const char* message PFS_UNUSED_, size_t bytes PFS_UNUSED_) {
  return 0;
}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_LOG_H */
