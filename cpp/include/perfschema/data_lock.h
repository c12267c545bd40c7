/* perfschema/data_lock.h: locks on the program's data, such as on rows of its tables: data_locks and data_lock_waits. Included by pfs.h
 * only.
 *
 *     static void scan(void* self, pfs_data_locks_t* rows) {
 *       my_engine* engine = self;
 *       for (my_lock* lock = first_lock(engine); lock != NULL; lock = lock->next) {
 *         pfs_data_lock_t row = PFS_DATA_LOCK_INITIALIZER;
 *         row.lock_id = lock->id;
 *         ...
 *         if (!pfs_data_locks_add(rows, &row)) break;
 *       }
 *     }
 *     static const pfs_data_lock_inspector_t inspector = {"myengine", my_engine, scan, scan_waits};
 *     pfs_data_lock_register(&inspector);
 *
 * Nothing is stored: reading one of the tables calls the inspectors of this process, and shows their rows. So another process, or one
 * that reads the segment of a dead program, sees no rows.
 *
 * Threads: the thread that reads the table calls the inspectors, one at a time. An inspector may use pfs, but must not register or
 * unregister inspectors (PFS_E_STATE) nor read these two tables (they are empty then). It must not throw.
 */
#ifndef PERFSCHEMA_DATA_LOCK_H
#define PERFSCHEMA_DATA_LOCK_H

#ifndef PERFSCHEMA_SERVER_H
#error "include <perfschema/server.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A transaction_id that shows as NULL. */
#define PFS_NO_TRANSACTION UINT64_MAX

/* A row of data_locks. Texts are copied at once, and cut at the widths of their columns. NULL texts show as NULL; lock_id, lock_type,
 * lock_mode and lock_status as empty. */
typedef struct pfs_data_lock {
  const char* lock_id;     /* ENGINE_LOCK_ID: unique within the engine */
  uint64_t transaction_id; /* ENGINE_TRANSACTION_ID */
  uint64_t thread_id;      /* THREAD_ID: pfs_thread_id() of the requesting thread; 0 = NULL */
  uint64_t event_id;       /* EVENT_ID: current event of that thread; 0 = NULL */
  const char* schema;      /* OBJECT_SCHEMA, ... : the locked object */
  const char* name;
  const char* partition;
  const char* subpartition;
  const char* index_name;
  const void* object;      /* OBJECT_INSTANCE_BEGIN: address of the lock */
  const char* lock_type;   /* "RECORD", "TABLE" ...: the engine's own words */
  const char* lock_mode;   /* "S", "X" ... */
  const char* lock_status; /* "GRANTED", "WAITING" ... */
  const char* lock_data;   /* locked value */
} pfs_data_lock_t;
#define PFS_DATA_LOCK_INITIALIZER \
  { NULL, PFS_NO_TRANSACTION, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/* Is one end of a row of data_lock_waits. */
typedef struct pfs_data_lock_end {
  const char* lock_id;     /* ..._ENGINE_LOCK_ID; joins data_locks */
  uint64_t transaction_id; /* ..._ENGINE_TRANSACTION_ID */
  uint64_t thread_id;      /* ..._THREAD_ID; 0 = NULL */
  uint64_t event_id;       /* ..._EVENT_ID; 0 = NULL */
  const void* object;      /* ..._OBJECT_INSTANCE_BEGIN */
} pfs_data_lock_end_t;

/* A row of data_lock_waits: `requesting` waits until `blocking` is released. */
typedef struct pfs_data_lock_wait {
  pfs_data_lock_end_t requesting;
  pfs_data_lock_end_t blocking;
} pfs_data_lock_wait_t;
#define PFS_DATA_LOCK_WAIT_INITIALIZER                                               \
  {                                                                                  \
    {NULL, PFS_NO_TRANSACTION, 0, 0, NULL}, { NULL, PFS_NO_TRANSACTION, 0, 0, NULL } \
  }

/* These collect the rows. */
typedef struct pfs_data_locks pfs_data_locks_t;
typedef struct pfs_data_lock_waits pfs_data_lock_waits_t;

/* Gives the rows of one engine. The struct and its texts must stay valid until it is unregistered; `scan` or `scan_waits` may be NULL. */
typedef struct pfs_data_lock_inspector {
  const char* engine; /* ENGINE */
  void* self;         /* handed to both functions */
  void (*scan)(void* self, pfs_data_locks_t* rows);
  void (*scan_waits)(void* self, pfs_data_lock_waits_t* rows);
} pfs_data_lock_inspector_t;

#ifndef PFS_DISABLE

/* Registers an inspector. Errors: PFS_E_INVALID_ARGUMENT (NULL, no engine), PFS_E_EXISTS (registered already), PFS_E_FULL (64 are
 * registered), PFS_E_STATE (called by an inspector). */
PFS_API int pfs_data_lock_register(const pfs_data_lock_inspector_t* inspector);

/* Unregisters an inspector, and waits until no thread is inside it. Errors: PFS_E_NOT_FOUND, PFS_E_STATE (called by an inspector). */
PFS_API int pfs_data_lock_unregister(const pfs_data_lock_inspector_t* inspector);

/* Adds one row; for inspectors. Returns 1, or 0 if no more rows are wanted. */
PFS_API int pfs_data_locks_add(pfs_data_locks_t* rows, const pfs_data_lock_t* lock);
PFS_API int pfs_data_lock_waits_add(pfs_data_lock_waits_t* rows, const pfs_data_lock_wait_t* wait);

#else /* PFS_DISABLE */

static inline int pfs_data_lock_register(const pfs_data_lock_inspector_t* inspector PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_data_lock_unregister(const pfs_data_lock_inspector_t* inspector PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_data_locks_add(pfs_data_locks_t* rows PFS_UNUSED_, const pfs_data_lock_t* lock PFS_UNUSED_) { return 0; }
static inline int pfs_data_lock_waits_add(pfs_data_lock_waits_t* rows PFS_UNUSED_, const pfs_data_lock_wait_t* wait PFS_UNUSED_) {
  return 0;
}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_DATA_LOCK_H */
