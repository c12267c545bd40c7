/* perfschema/server.h: what only a server of databases declares. pfs.h does not include it.
 *
 * Unstable: these names fill tables that only such a server has rows for. A later version may change or remove them.
 *
 *     #include <perfschema/pfs.h>
 *     #include <perfschema/server.h>
 */
#ifndef PERFSCHEMA_SERVER_H
#define PERFSCHEMA_SERVER_H

/* clang-format off */
#include "perfschema/pfs.h"
#include "perfschema/table.h"
#include "perfschema/metadata.h"
#include "perfschema/data_lock.h"
#include "perfschema/connection.h"
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif

enum pfs_xa_state { PFS_XA_NOTR = 0, PFS_XA_ACTIVE = 1, PFS_XA_IDLE = 2, PFS_XA_PREPARED = 3, PFS_XA_ROLLBACK_ONLY = 4 };

#ifndef PFS_DISABLE

/* ---- PROCESSLIST of the calling thread: as pfs_set_account() (thread.h) -------------------------------------------------------- */

PFS_API void pfs_thread_set_id(uint64_t processlist_id);           /* PROCESSLIST_ID; 0 = NULL. Shown of FOREGROUND threads */
PFS_API void pfs_thread_set_db(const char* db);                    /* PROCESSLIST_DB [64] */
PFS_API void pfs_thread_set_command(const char* command);          /* PROCESSLIST_COMMAND [16] */
PFS_API void pfs_thread_set_state(const char* state);              /* PROCESSLIST_STATE [64] */
PFS_API void pfs_thread_set_info(const char* info, size_t length); /* PROCESSLIST_INFO [1024]; not zero terminated */
PFS_API void pfs_thread_set_start_time(time_t seconds);            /* PROCESSLIST_TIME counts from then, as of time(); 0 = NULL */
PFS_API void pfs_thread_set_connection_type(const char* type);     /* CONNECTION_TYPE [16] */
PFS_API void pfs_thread_set_resource_group(const char* group);     /* RESOURCE_GROUP [64] */
PFS_API void pfs_thread_set_peer_port(uint16_t port);              /* HOST of processlist is "host:port"; 0 = none */
PFS_API void pfs_thread_set_secondary_engine(int is_secondary);    /* EXECUTION_ENGINE is SECONDARY, else PRIMARY */

/* ---- Variables of a session: as pfs_variable_set() (variable.h). User variables are not shown if pfs is off --------------------- */

/* Set and forget the session value of the calling thread, which the thread's end also removes. PFS_E_NOT_ALLOWED: scope GLOBAL. */
PFS_API int pfs_thread_set_variable(const char* name, const char* value);
PFS_API int pfs_thread_forget_variable(const char* name);

/* Sets an attribute of a variable or an option of pfs: a row of global_variable_attributes. attribute: 1 to 32 bytes without blanks.
 * value NULL removes it. */
PFS_API int pfs_variable_set_attribute(const char* name, const char* attribute, const char* value);

/* Sets a user variable of the calling thread, until the thread ends: any bytes, cut at 65535; names are cut at 64 bytes, and are
 * case-sensitive. value NULL: VARIABLE_VALUE is NULL. Does nothing if pfs is off. */
PFS_API int pfs_thread_set_user_variable(const char* name, const void* value, size_t bytes);
PFS_API int pfs_thread_forget_user_variable(const char* name);

/* ---- Transactions, statements -------------------------------------------------------------------------------------------------- */

/* Sets XID_FORMAT_ID, XID_GTRID and XID_BQUAL (at most 130 bytes each, zero terminated), XA_STATE. */
PFS_API void pfs_transaction_set_xid(pfs_transaction_t* transaction, int32_t format, const char* gtrid, const char* bqual,
                                     enum pfs_xa_state state);
PFS_API void pfs_transaction_set_xa_state(pfs_transaction_t* transaction, enum pfs_xa_state state);
/* Sets GTID, at most 90 bytes. */
PFS_API void pfs_transaction_set_gtid(pfs_transaction_t* transaction, const char* gtid);
/* Sets TRX_ID: the first value other than 0 stays. */
PFS_API void pfs_transaction_set_trx_id(pfs_transaction_t* transaction, uint64_t trx_id);

PFS_API void pfs_statement_set_secondary(pfs_statement_t* statement, int is_secondary); /* EXECUTION_ENGINE */
PFS_API void pfs_prepared_reprepare(pfs_prepared_t* prepared);                          /* COUNT_REPREPARE */
PFS_API void pfs_prepared_set_secondary(pfs_prepared_t* prepared, int is_secondary);

/* ---- Tasks and loaded functions: rows as those of program.h, which pfs_unregister_row() removes ---------------------------------- */

/* Register a task [64] that runs periodically, in component_scheduler_tasks. begin: STATUS is RUNNING; end: WAITING, and one more run is
 * counted. */
PFS_API int pfs_register_task(const char* name, const char* comment, uint32_t interval_seconds);
PFS_API int pfs_task_begin(const char* name);
PFS_API int pfs_task_end(const char* name, int failed);

/* Registers a loaded function [64] in user_defined_functions. return_type, type [20]: "integer", "function", for example; library: NULL
 * = NULL. */
PFS_API int pfs_register_function(const char* name, const char* return_type, const char* type, const char* library);
/* Adds `change`, which may be negative, to UDF_USAGE_COUNT. */
PFS_API int pfs_function_use(const char* name, int change);

#else /* PFS_DISABLE */

static inline void pfs_thread_set_id(uint64_t processlist_id PFS_UNUSED_) {}
static inline void pfs_thread_set_db(const char* db PFS_UNUSED_) {}
static inline void pfs_thread_set_command(const char* command PFS_UNUSED_) {}
static inline void pfs_thread_set_state(const char* state PFS_UNUSED_) {}
static inline void pfs_thread_set_info(const char* info PFS_UNUSED_, size_t length PFS_UNUSED_) {}
static inline void pfs_thread_set_start_time(time_t seconds PFS_UNUSED_) {}
static inline void pfs_thread_set_connection_type(const char* type PFS_UNUSED_) {}
static inline void pfs_thread_set_resource_group(const char* group PFS_UNUSED_) {}
static inline void pfs_thread_set_peer_port(uint16_t port PFS_UNUSED_) {}
static inline void pfs_thread_set_secondary_engine(int is_secondary PFS_UNUSED_) {}
static inline int pfs_thread_set_variable(const char* name PFS_UNUSED_, const char* value PFS_UNUSED_) { return 0; }
static inline int pfs_thread_forget_variable(const char* name PFS_UNUSED_) { return 0; }
static inline int pfs_variable_set_attribute(const char* name PFS_UNUSED_, const char* attribute PFS_UNUSED_,
                                             const char* value PFS_UNUSED_) {
  return 0;
}
static inline int pfs_thread_set_user_variable(const char* name PFS_UNUSED_, const void* value PFS_UNUSED_, size_t bytes PFS_UNUSED_) {
  return 0;
}
static inline int pfs_thread_forget_user_variable(const char* name PFS_UNUSED_) { return 0; }
static inline void pfs_transaction_set_xid(pfs_transaction_t* transaction PFS_UNUSED_, int32_t format PFS_UNUSED_,
                                           const char* gtrid PFS_UNUSED_, const char* bqual PFS_UNUSED_,
                                           enum pfs_xa_state state PFS_UNUSED_) {}
static inline void pfs_transaction_set_xa_state(pfs_transaction_t* transaction PFS_UNUSED_, enum pfs_xa_state state PFS_UNUSED_) {}
static inline void pfs_transaction_set_gtid(pfs_transaction_t* transaction PFS_UNUSED_, const char* gtid PFS_UNUSED_) {}
static inline void pfs_transaction_set_trx_id(pfs_transaction_t* transaction PFS_UNUSED_, uint64_t trx_id PFS_UNUSED_) {}
static inline void pfs_statement_set_secondary(pfs_statement_t* statement PFS_UNUSED_, int is_secondary PFS_UNUSED_) {}
static inline void pfs_prepared_reprepare(pfs_prepared_t* prepared PFS_UNUSED_) {}
static inline void pfs_prepared_set_secondary(pfs_prepared_t* prepared PFS_UNUSED_, int is_secondary PFS_UNUSED_) {}
static inline int pfs_register_task(const char* name PFS_UNUSED_, const char* comment PFS_UNUSED_, uint32_t interval_seconds PFS_UNUSED_) {
  return 0;
}
static inline int pfs_task_begin(const char* name PFS_UNUSED_) { return 0; }
static inline int pfs_task_end(const char* name PFS_UNUSED_, int failed PFS_UNUSED_) { return 0; }
static inline int pfs_register_function(const char* name PFS_UNUSED_, const char* return_type PFS_UNUSED_, const char* type PFS_UNUSED_,
                                        const char* library PFS_UNUSED_) {
  return 0;
}
static inline int pfs_function_use(const char* name PFS_UNUSED_, int change PFS_UNUSED_) { return 0; }

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_SERVER_H */
