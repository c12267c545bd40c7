/* perfschema/data_lock.h: locks on the program's data, such as on rows of its tables: data_locks and data_lock_waits. Included by pfs.h only.
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
 * Nothing is stored: whoever reads one of the tables calls the inspectors of this process, and shows what they give. So another process, or
 * one that reads the segment of a dead program, sees no rows.
 *
 * Threads: an inspector is called by the thread that reads the table, one at a time for all inspectors. It may use pfs, but not register or
 * unregister inspectors (PFS_E_STATE) nor read these two tables (they are empty then). It must not throw.
 */
#ifndef PERFSCHEMA_DATA_LOCK_H
#define PERFSCHEMA_DATA_LOCK_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A transaction_id that shows as NULL. */
#define PFS_NO_TRANSACTION UINT64_MAX

/* A row of data_locks. Texts are copied at once, and cut at the widths of their columns. NULL texts show as NULL; lock_id, lock_type, lock_mode and
 * lock_status as empty. */
typedef struct pfs_data_lock {
  const char* lock_id;     /* ENGINE_LOCK_ID: no other lock of the engine has it */
  uint64_t transaction_id; /* ENGINE_TRANSACTION_ID */
  uint64_t thread_id;      /* THREAD_ID: pfs_thread_id() of the thread that asked for it; 0 = NULL */
  uint64_t event_id;       /* EVENT_ID: what the thread was in then; 0 = NULL */
  const char* schema;      /* OBJECT_SCHEMA, ... : what is locked */
  const char* name;
  const char* partition;
  const char* subpartition;
  const char* index_name;
  const void* object;      /* OBJECT_INSTANCE_BEGIN: address of the lock */
  const char* lock_type;   /* "RECORD", "TABLE" ...: the engine's own words */
  const char* lock_mode;   /* "S", "X" ... */
  const char* lock_status; /* "GRANTED", "WAITING" ... */
  const char* lock_data;   /* value that is locked */
} pfs_data_lock_t;
#define PFS_DATA_LOCK_INITIALIZER {NULL, PFS_NO_TRANSACTION, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}

/* One end of a row of data_lock_waits. */
typedef struct pfs_data_lock_end {
  const char* lock_id;     /* ..._ENGINE_LOCK_ID; joins data_locks */
  uint64_t transaction_id; /* ..._ENGINE_TRANSACTION_ID */
  uint64_t thread_id;      /* ..._THREAD_ID; 0 = NULL */
  uint64_t event_id;       /* ..._EVENT_ID; 0 = NULL */
  const void* object;      /* ..._OBJECT_INSTANCE_BEGIN */
} pfs_data_lock_end_t;

/* A row of data_lock_waits: `requesting` waits until `blocking` is let go. */
typedef struct pfs_data_lock_wait {
  pfs_data_lock_end_t requesting;
  pfs_data_lock_end_t blocking;
} pfs_data_lock_wait_t;
#define PFS_DATA_LOCK_WAIT_INITIALIZER {{NULL, PFS_NO_TRANSACTION, 0, 0, NULL}, {NULL, PFS_NO_TRANSACTION, 0, 0, NULL}}

/* Where rows go. */
typedef struct pfs_data_locks pfs_data_locks_t;
typedef struct pfs_data_lock_waits pfs_data_lock_waits_t;

/* What gives the rows of one engine. The struct and the texts in it live until it is unregistered; `scan` or `scan_waits` may be NULL. */
typedef struct pfs_data_lock_inspector {
  const char* engine; /* ENGINE */
  void* self;         /* handed to both functions */
  void (*scan)(void* self, pfs_data_locks_t* rows);
  void (*scan_waits)(void* self, pfs_data_lock_waits_t* rows);
} pfs_data_lock_inspector_t;

#ifndef PFS_DISABLE

/* Errors: PFS_E_INVALID_ARGUMENT (NULL, no engine), PFS_E_EXISTS (registered already), PFS_E_FULL (there are 64), PFS_E_STATE (called by an inspector). */
PFS_API int pfs_data_lock_register(const pfs_data_lock_inspector_t* inspector);

/* Returns when nobody is inside it. Errors: PFS_E_NOT_FOUND, PFS_E_STATE (called by an inspector). */
PFS_API int pfs_data_lock_unregister(const pfs_data_lock_inspector_t* inspector);

/* For inspectors: one row. Returns 1, or 0 if no more rows are wanted. */
PFS_API int pfs_data_locks_add(pfs_data_locks_t* rows, const pfs_data_lock_t* lock);
PFS_API int pfs_data_lock_waits_add(pfs_data_lock_waits_t* rows, const pfs_data_lock_wait_t* wait);

#else /* PFS_DISABLE */

static inline int pfs_data_lock_register(const pfs_data_lock_inspector_t* inspector PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_data_lock_unregister(const pfs_data_lock_inspector_t* inspector PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_data_locks_add(pfs_data_locks_t* rows PFS_UNUSED_, const pfs_data_lock_t* lock PFS_UNUSED_) { return 0; }
static inline int pfs_data_lock_waits_add(pfs_data_lock_waits_t* rows PFS_UNUSED_, const pfs_data_lock_wait_t* wait PFS_UNUSED_) { return 0; }

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_DATA_LOCK_H */
