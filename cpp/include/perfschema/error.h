/* perfschema/error.h: errors by number: how often each was raised and handled, by whom, and when first and last. Included by pfs.h only.
 *
 *     pfs_register_error(1062, "ER_DUP_ENTRY", "23000", 0);
 *     pfs_error_raised(1062);            where it is found
 *     pfs_error_handled(1062);           where somebody knows what to do about it
 *
 * Rows of events_errors_summary_*, from the registration on, with FIRST_SEEN and LAST_SEEN NULL until it is seen. Numbers that nobody
 * registered, and those that performance_schema_error_size has no room for, count in the row whose ERROR_NUMBER is NULL. The one instrument
 * of all errors is `error`; it is never timed.
 *
 * Thread-safe. pfs_error_raised and pfs_error_handled do not fail, allocate, lock or call the system; errno stays.
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

/* Makes a row for an error number. `name`: ERROR_NAME, cut to 64 bytes. `sqlstate`: SQL_STATE, 5 digits or capital letters; NULL = "HY000".
 * `flags`: 0 or PFS_GLOBAL. The same number with the same name again: nothing happens.
 * Errors: PFS_E_INVALID_ARGUMENT (no name, control characters in it, a bad SQLSTATE), PFS_E_EXISTS (the number has another name).
 * No error, but no row either: pfs is off, or performance_schema_error_size rows are there. */
PFS_API int pfs_register_error(int32_t number, const char* name, const char* sqlstate, uint32_t flags);

/* The number of an error that has a name and no number, such as an exception: a number from 2^30 up that is made from the whole name, and so is
 * the same in every process (of two names that would have the same, the later one in this process gets the next). Registers it at the first
 * call, with SQLSTATE HY000. 0 for NULL. */
PFS_API int32_t pfs_error_number(const char* name);

/* SUM_ERROR_RAISED and SUM_ERROR_HANDLED of a number grow by one. */
PFS_API void pfs_error_raised(int32_t number);
PFS_API void pfs_error_handled(int32_t number);

#else /* PFS_DISABLE */

static inline int pfs_register_error(int32_t number PFS_UNUSED_, const char* name PFS_UNUSED_, const char* sqlstate PFS_UNUSED_, uint32_t flags PFS_UNUSED_) {
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
