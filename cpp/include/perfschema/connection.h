/* perfschema/connection.h: connection attributes of clients, hosts that they come from, failed logins. Included by server.h only.
 *
 *     pfs_connect_attr_t attributes[] = {{"_client_name", "shop"}, {"_pid", "4711"}};
 *     pfs_thread_set_connect_attrs(attributes, 2);                session_connect_attrs
 *     pfs_host_seen("192.0.2.7", "desk.example.org", 1);          host_cache
 *     pfs_host_error("192.0.2.7", PFS_HOST_AUTHENTICATION);
 *     pfs_login_failed("anna", "desk.example.org");               connection_control_failed_login_attempts
 *
 * None of these functions is meant for a hot path or for signal handlers. Texts are cut to the width of their columns.
 * Errors: PFS_E_INVALID_ARGUMENT, PFS_E_FULL, PFS_E_STATE as in variable.h. host_cache and temporary_account_locks have rows even if pfs
 * is off.
 */
#ifndef PERFSCHEMA_CONNECTION_H
#define PERFSCHEMA_CONNECTION_H

#ifndef PERFSCHEMA_SERVER_H
#error "include <perfschema/server.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_connect_attr {
  const char* name;
  const char* value; /* NULL = NULL */
} pfs_connect_attr_t;

/* The columns COUNT_..._ERRORS of host_cache. */
enum pfs_host_error {
  PFS_HOST_BLOCKED = 0,
  PFS_HOST_NAMEINFO_TRANSIENT = 1,
  PFS_HOST_NAMEINFO_PERMANENT = 2,
  PFS_HOST_FORMAT = 3,
  PFS_HOST_ADDRINFO_TRANSIENT = 4,
  PFS_HOST_ADDRINFO_PERMANENT = 5,
  PFS_HOST_FCRDNS = 6,
  PFS_HOST_ACL = 7,
  PFS_HOST_NO_AUTH_PLUGIN = 8,
  PFS_HOST_AUTH_PLUGIN = 9,
  PFS_HOST_HANDSHAKE = 10,
  PFS_HOST_PROXY_USER = 11,
  PFS_HOST_PROXY_USER_ACL = 12,
  PFS_HOST_AUTHENTICATION = 13,
  PFS_HOST_SSL = 14,
  PFS_HOST_MAX_USER_CONNECTIONS = 15,
  PFS_HOST_MAX_USER_CONNECTIONS_PER_HOUR = 16,
  PFS_HOST_DEFAULT_DATABASE = 17,
  PFS_HOST_INIT_CONNECT = 18,
  PFS_HOST_LOCAL = 19,
  PFS_HOST_ACCOUNT_LOCKED = 20,
  PFS_HOST_TEMPORARY_ACCOUNT_LOCKED = 21,
  PFS_HOST_UNKNOWN = 22
};

/* A row of temporary_account_locks. */
typedef struct pfs_account_lock {
  int is_locked;              /* LOCKED */
  int32_t failed_attempts;    /* FAILED_LOGIN_ATTEMPTS: this many consecutive failures lock the account */
  int32_t remaining_attempts; /* REMAINING_LOGIN_ATTEMPTS */
  int32_t lock_days;          /* PASSWORD_LOCK_TIME; -1 = until it is unlocked */
  time_t since, until;        /* LOCKED_SINCE, LOCKED_UNTIL; 0 = NULL */
} pfs_account_lock_t;

#ifndef PFS_DISABLE

/* Sets the attributes of the session that the calling thread works for, in this order, in place of its earlier ones. They are shown
 * while the thread (or the session of pfs_thread_new()) exists and has a PROCESSLIST_ID. The limit is
 * performance_schema_session_connect_attrs_size bytes; each name and value counts its length and 1, or 3 above 250 bytes. Beyond it the
 * last attributes are left out. "_truncated" with the number of lost bytes is then the first one if it fits, and
 * Performance_schema_session_connect_attrs_lost grows by one. Names must differ. Does nothing if pfs is off. */
PFS_API int pfs_thread_set_connect_attrs(const pfs_connect_attr_t* attributes, int count);

/* Records a connection from `ip` [64] in a row of host_cache. host [255]: its name, NULL = unknown; validated: 1 if the name was looked
 * up. */
PFS_API int pfs_host_seen(const char* ip, const char* host, int validated);
/* Counts an error of the host. SUM_CONNECT_ERRORS counts those of PFS_HOST_HANDSHAKE at validated hosts. */
PFS_API int pfs_host_error(const char* ip, enum pfs_host_error error);
/* Removes the row. PFS_E_NOT_FOUND: there is none. TRUNCATE of host_cache removes all. */
PFS_API int pfs_host_forget(const char* ip);

/* Count a login attempt of (user, host): a failure increments the account's row, a success removes it. */
PFS_API int pfs_login_failed(const char* user, const char* host);
PFS_API int pfs_login_succeeded(const char* user, const char* host);

/* Sets the row of the account to `lock`; NULL removes it. user [32], host [255]. */
PFS_API int pfs_account_lock_set(const char* user, const char* host, const pfs_account_lock_t* lock);

#else /* PFS_DISABLE */

static inline int pfs_thread_set_connect_attrs(const pfs_connect_attr_t* attributes PFS_UNUSED_, int count PFS_UNUSED_) { return 0; }
static inline int pfs_host_seen(const char* ip PFS_UNUSED_, const char* host PFS_UNUSED_, int validated PFS_UNUSED_) { return 0; }
static inline int pfs_host_error(const char* ip PFS_UNUSED_, enum pfs_host_error error PFS_UNUSED_) { return 0; }
static inline int pfs_host_forget(const char* ip PFS_UNUSED_) { return 0; }
static inline int pfs_login_failed(const char* user PFS_UNUSED_, const char* host PFS_UNUSED_) { return 0; }
static inline int pfs_login_succeeded(const char* user PFS_UNUSED_, const char* host PFS_UNUSED_) { return 0; }
static inline int pfs_account_lock_set(const char* user PFS_UNUSED_, const char* host PFS_UNUSED_,
                                       const pfs_account_lock_t* lock PFS_UNUSED_) {
  return 0;
}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_CONNECTION_H */
