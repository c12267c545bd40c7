/* perfschema/error.h: errors by number: how often each was raised and handled, by which thread, and when first and last. Included by
 * pfs.h only.
 *
 *     pfs_register_error(1062, "ER_DUP_ENTRY", "23000", 0);
 *     pfs_error_raised(1062);            where the error occurs
 *     pfs_error_handled(1062);           where the program handles it
 *
 * Each error has rows of events_errors_summary_* from its registration on, with FIRST_SEEN and LAST_SEEN NULL until it is raised.
 * Unregistered numbers, and those beyond performance_schema_error_size, count in the row whose ERROR_NUMBER is NULL. The one instrument
 * of all errors is `error`; it is never timed.
 *
 * Thread-safe. pfs_error_raised and pfs_error_handled do not fail, allocate, lock or make system calls; they preserve errno.
 */
#ifndef PERFSCHEMA_ERROR_H
#define PERFSCHEMA_ERROR_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PFS_GLOBAL 4u /* of an error: it counts in events_errors_summary_global_by_error only, for no thread, account, user or host */

#ifndef PFS_DISABLE

/* Makes a row for an error number. `name`: ERROR_NAME, cut to 64 bytes. `sqlstate`: SQL_STATE, 5 digits or capital letters; NULL =
 * "HY000". `flags`: 0 or PFS_GLOBAL. Repeating a registration with the same name does nothing. Errors: PFS_E_INVALID_ARGUMENT (no name,
 * control characters in it, a bad SQLSTATE), PFS_E_EXISTS (the number has another name). It is no error, but there is no row, if pfs is
 * off or performance_schema_error_size rows exist. */
PFS_API int pfs_register_error(int32_t number, const char* name, const char* sqlstate, uint32_t flags);

/* Returns a number for an error that has only a name, such as an exception. The number, from 2^30 up, is computed from the whole name,
 * so it is the same in every process. If two names yield the same number, the later one in this process gets the next. The first call
 * registers the error, with SQLSTATE HY000. Returns 0 for NULL. */
PFS_API int32_t pfs_error_number(const char* name);

/* Add one to SUM_ERROR_RAISED and to SUM_ERROR_HANDLED of a number. */
PFS_API void pfs_error_raised(int32_t number);
PFS_API void pfs_error_handled(int32_t number);

#else /* PFS_DISABLE */

static inline int pfs_register_error(int32_t number PFS_UNUSED_, const char* name PFS_UNUSED_, const char* sqlstate PFS_UNUSED_,
                                     uint32_t flags PFS_UNUSED_) {
  return PFS_OK;
}
static inline int32_t pfs_error_number(const char* name PFS_UNUSED_) { return 0; }
static inline void pfs_error_raised(int32_t number PFS_UNUSED_) {}
static inline void pfs_error_handled(int32_t number PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_ERROR_H */
