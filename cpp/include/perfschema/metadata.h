/* perfschema/metadata.h: metadata locks of the program: locks on the meaning of a name, such as "this table must not be dropped while in
 * use".
 * Included by server.h only.
 *
 *     pfs_metadata_lock_t* row = pfs_metadata_lock_create(request, PFS_OBJECT_TABLE, "shop", "orders", NULL, PFS_METADATA_EXCLUSIVE,
 *                                                         PFS_METADATA_TRANSACTION, PFS_METADATA_PENDING);
 *     pfs_wait_t wait;
 *     pfs_metadata_wait_begin(&wait, row);
 *     int rc = my_wait_for(request);
 *     pfs_metadata_wait_end(&wait, rc);
 *     pfs_metadata_lock_set_status(row, PFS_METADATA_GRANTED);
 *     ...
 *     pfs_metadata_lock_destroy(row);                        the lock is released
 *
 * A row of metadata_locks exists from request to release. Instrument of rows and waits: wait/lock/metadata/sql/mdl; while it is off, no
 * rows are made.
 */
#ifndef PERFSCHEMA_METADATA_H
#define PERFSCHEMA_METADATA_H

#ifndef PERFSCHEMA_SERVER_H
#error "include <perfschema/server.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* LOCK_TYPE: the same words. */
enum pfs_metadata_type {
  PFS_METADATA_INTENTION_EXCLUSIVE = 0,
  PFS_METADATA_SHARED = 1,
  PFS_METADATA_SHARED_HIGH_PRIO = 2,
  PFS_METADATA_SHARED_READ = 3,
  PFS_METADATA_SHARED_WRITE = 4,
  PFS_METADATA_SHARED_WRITE_LOW_PRIO = 5,
  PFS_METADATA_SHARED_UPGRADABLE = 6,
  PFS_METADATA_SHARED_READ_ONLY = 7,
  PFS_METADATA_SHARED_NO_WRITE = 8,
  PFS_METADATA_SHARED_NO_READ_WRITE = 9,
  PFS_METADATA_EXCLUSIVE = 10
};

/* LOCK_DURATION: the end of the time for which it is held. */
enum pfs_metadata_duration { PFS_METADATA_STATEMENT = 0, PFS_METADATA_TRANSACTION = 1, PFS_METADATA_EXPLICIT = 2 };

/* LOCK_STATUS. */
enum pfs_metadata_status {
  PFS_METADATA_PENDING = 0,
  PFS_METADATA_GRANTED = 1,
  PFS_METADATA_PRE_ACQUIRE_NOTIFY = 2, /* other processes or threads are notified before it is taken */
  PFS_METADATA_POST_RELEASE_NOTIFY = 3 /* others are notified that it was released */
};

#ifndef PFS_DISABLE

/* Adds a row to metadata_locks. Its owner is the calling thread and that thread's current event; SOURCE is the line of the call. Macro:
 * pfs_metadata_lock_create(const void* identity, enum pfs_object_type, const char* schema, const char* name, const char* column,
 *                          enum pfs_metadata_type, enum pfs_metadata_duration, enum pfs_metadata_status)
 * identity: OBJECT_INSTANCE_BEGIN of the row and of its events, in general an address of the program; NULL = that of the row. schema,
 * name, column: NULL or "" = NULL; each is cut at 64 bytes. Returns NULL, which all functions below accept, if there is no row: the
 * instrument or pfs is off, a value has no enumerator, or the table is full (metadata_lock_lost of global_status). */
PFS_API pfs_metadata_lock_t* pfs_metadata_lock_create_at(const void* identity, enum pfs_object_type type, const char* schema,
                                                         const char* name, const char* column, enum pfs_metadata_type lock_type,
                                                         enum pfs_metadata_duration duration, enum pfs_metadata_status status, PFS_SITE_);
#define pfs_metadata_lock_create(...) pfs_metadata_lock_create_at(__VA_ARGS__, __FILE__, __LINE__)

/* Change the row, from any thread. A value without an enumerator changes nothing. */
PFS_API void pfs_metadata_lock_set_status(pfs_metadata_lock_t* lock, enum pfs_metadata_status status);
PFS_API void pfs_metadata_lock_set_duration(pfs_metadata_lock_t* lock, enum pfs_metadata_duration duration);
PFS_API void pfs_metadata_lock_set_type(pfs_metadata_lock_t* lock, enum pfs_metadata_type lock_type);

/* Removes the row, when the lock was released or its request abandoned. */
PFS_API void pfs_metadata_lock_destroy(pfs_metadata_lock_t* lock);

/* int pfs_metadata_wait_begin(pfs_wait_t* wait, pfs_metadata_lock_t* lock): begins a wait for it, event "metadata lock". Returns 1 if it
 * is instrumented, else 0; pfs_metadata_wait_end may be called in both cases, and must be called after 1. void
 * pfs_metadata_wait_end(pfs_wait_t* wait, int rc): ends the wait, in the same thread, whatever its result. LOCK_STATUS does not change. */
PFS_API int pfs_metadata_wait_begin_(pfs_wait_t* wait, pfs_metadata_lock_t* lock, PFS_SITE_);
PFS_API void pfs_metadata_wait_end_(pfs_wait_t* wait, int rc);
#define pfs_metadata_wait_begin(...) pfs_metadata_wait_begin_at(__VA_ARGS__, __FILE__, __LINE__)

static inline int pfs_metadata_wait_begin_at(pfs_wait_t* wait, pfs_metadata_lock_t* lock, PFS_SITE_) {
  wait->instance = NULL;
  return lock != NULL && pfs_flags_enabled_(&lock->flags) ? pfs_metadata_wait_begin_(wait, lock, file, line) : 0;
}

static inline void pfs_metadata_wait_end(pfs_wait_t* wait, int rc) {
  if (wait->instance != NULL) pfs_metadata_wait_end_(wait, rc);
}

#else /* PFS_DISABLE */

static inline pfs_metadata_lock_t* pfs_metadata_lock_create(const void* identity PFS_UNUSED_, enum pfs_object_type type PFS_UNUSED_,
                                                            const char* schema PFS_UNUSED_, const char* name PFS_UNUSED_,
                                                            const char* column PFS_UNUSED_, enum pfs_metadata_type lock_type PFS_UNUSED_,
                                                            enum pfs_metadata_duration duration PFS_UNUSED_,
                                                            enum pfs_metadata_status status PFS_UNUSED_) {
  return NULL;
}
static inline void pfs_metadata_lock_set_status(pfs_metadata_lock_t* lock PFS_UNUSED_, enum pfs_metadata_status status PFS_UNUSED_) {}
static inline void pfs_metadata_lock_set_duration(pfs_metadata_lock_t* lock PFS_UNUSED_, enum pfs_metadata_duration duration PFS_UNUSED_) {}
static inline void pfs_metadata_lock_set_type(pfs_metadata_lock_t* lock PFS_UNUSED_, enum pfs_metadata_type lock_type PFS_UNUSED_) {}
static inline void pfs_metadata_lock_destroy(pfs_metadata_lock_t* lock PFS_UNUSED_) {}
static inline int pfs_metadata_wait_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_metadata_lock_t* lock PFS_UNUSED_) { return 0; }
static inline void pfs_metadata_wait_end(pfs_wait_t* wait PFS_UNUSED_, int rc PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_METADATA_H */
