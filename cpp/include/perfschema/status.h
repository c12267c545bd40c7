/* perfschema/status.h: status variables: the program's own numbers, kept by thread. Included by pfs.h only.
 *
 *     static pfs_key_t key_requests, key_open;
 *     pfs_register_status("Requests_done", "Requests that were answered.", &key_requests);
 *     pfs_register_status("Requests_open", "Requests that wait for an answer.", &key_open);
 *     pfs_status_add(key_requests, 1);
 *     pfs_status_add(key_open, -1);
 *
 * A variable has a row for every live thread in status_by_thread, for every account, user and host in status_by_account, status_by_user
 * and status_by_host (threads that have ended included), for the calling thread in session_status, and the sum of all in global_status. A
 * value is a signed 64-bit number. If one thread adds and another subtracts, the latter's value may be negative; the sums are right.
 * TRUNCATE of status_by_thread, _account, _user or _host sets the level and those below it to zero and does not change the others.
 * TRUNCATE of global_status sets all to zero, in every thread (pfs's own Performance_schema_*_lost stay).
 *
 * Status variables are no instruments: no consumer turns them off, and a thread with INSTRUMENTED = NO counts as well. A forked child
 * starts from zero.
 *
 * Thread-safe. pfs_status_add does not fail, allocate or lock; errno is preserved.
 */
#ifndef PERFSCHEMA_STATUS_H
#define PERFSCHEMA_STATUS_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PFS_DISABLE

/* Makes a variable, or finds the one that has the name already (case-insensitive). `name`: 1 to 64 bytes without control characters and
 * '%', which do not begin with "Performance_schema_". `documentation`: one sentence, or NULL. `key`: gets its key. Errors:
 * PFS_E_INVALID_ARGUMENT (the name; NULL). It is no error, but key 0, if pfs is off, or performance_schema_max_status_variables exist
 * (counted in Performance_schema_status_variables_lost). */
PFS_API int pfs_register_status(const char* name, const char* documentation, pfs_key_t* key);

/* Adds to the calling thread's value. Key 0: does nothing. */
PFS_API void pfs_status_add(pfs_key_t key, int64_t n);

#else /* PFS_DISABLE */

static inline int pfs_register_status(const char* name PFS_UNUSED_, const char* documentation PFS_UNUSED_, pfs_key_t* key) {
  if (key != NULL) *key = 0;
  return PFS_OK;
}
static inline void pfs_status_add(pfs_key_t key PFS_UNUSED_, int64_t n PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_STATUS_H */
