/* perfschema/table.h: the program's own tables: waits for their rows and for locks on them. Included by server.h only.
 *
 *     static const char* const indexes[] = {"PRIMARY", "by_name"};
 *     pfs_table_t* orders = pfs_table_open(PFS_OBJECT_TABLE, "shop", "orders", my_table, indexes, 2);
 *     pfs_wait_t wait;
 *
 *     pfs_table_lock_begin(&wait, orders, PFS_TABLE_WRITE_LOCK);
 *     int rc = my_lock(my_table);
 *     pfs_table_lock_end(&wait, rc);                         0: INTERNAL_LOCK of table_handles is WRITE
 *
 *     pfs_table_io_begin(&wait, orders, PFS_TABLE_FETCH, 1);  through by_name
 *     size_t found = my_find_by_name(my_table, name, rows, 100);
 *     pfs_table_io_end(&wait, found);                        `found` events of one wait
 *
 *     pfs_table_unlock(orders);
 *     pfs_table_close(orders);
 *
 * The program decides what is a table, a schema or an index: a hash map of a module, for example, with the ways to reach its rows. A
 * table is known by (type, schema, name) from its first open until it is dropped, and setup_objects selects the instrumented ones.
 * Instruments: wait/io/table/sql/handler and wait/lock/table/sql/handler, for all tables.
 * Summaries: table_io_waits_summary_by_table, table_io_waits_summary_by_index_usage, table_lock_waits_summary_by_table,
 * objects_summary_global_by_type.
 *
 * Threads: many threads may begin and end waits on one handle at once. Open, close, bind, unbind, lock and unlock a handle in one thread
 * at a time. A signal handler may only begin and end waits.
 */
#ifndef PERFSCHEMA_TABLE_H
#define PERFSCHEMA_TABLE_H

#ifndef PERFSCHEMA_SERVER_H
#error "include <perfschema/server.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Names the operation on rows. Shown as OPERATION. */
enum pfs_table_io {
  PFS_TABLE_FETCH = 0,  /* fetch */
  PFS_TABLE_INSERT = 1, /* insert: counts as done without an index */
  PFS_TABLE_UPDATE = 2, /* update */
  PFS_TABLE_DELETE = 3  /* delete */
};

/* Means no index: a scan of the table. */
#define PFS_NO_INDEX (-1)

/* Names the kinds of locks on a table. Each comment has OPERATION, and the text in table_handles while it is held. */
enum pfs_table_lock {
  PFS_TABLE_READ_LOCK = 0,               /* read normal: INTERNAL_LOCK READ */
  PFS_TABLE_READ_WITH_SHARED_LOCKS = 1,  /* read with shared locks: READ WITH SHARED LOCKS */
  PFS_TABLE_READ_HIGH_PRIORITY = 2,      /* read high priority: READ HIGH PRIORITY */
  PFS_TABLE_READ_NO_INSERT = 3,          /* read no inserts: READ NO INSERT */
  PFS_TABLE_READ_EXTERNAL = 4,           /* read external: EXTERNAL_LOCK READ EXTERNAL */
  PFS_TABLE_WRITE_ALLOW_WRITE = 5,       /* write allow write: INTERNAL_LOCK WRITE ALLOW WRITE */
  PFS_TABLE_WRITE_CONCURRENT_INSERT = 6, /* write concurrent insert: WRITE CONCURRENT INSERT */
  PFS_TABLE_WRITE_LOW_PRIORITY = 7,      /* write low priority: WRITE LOW PRIORITY */
  PFS_TABLE_WRITE_LOCK = 8,              /* write normal: WRITE */
  PFS_TABLE_WRITE_EXTERNAL = 9           /* write external: EXTERNAL_LOCK WRITE EXTERNAL */
};

#ifndef PFS_DISABLE

/* Opens a handle of a table, which belongs to the calling thread: a row of table_handles. Makes the table known, if it is not. type:
 * PFS_OBJECT_TABLE or PFS_OBJECT_TEMPORARY_TABLE. schema: NULL or "" = none. Names are cut at 64 bytes. identity: OBJECT_INSTANCE_BEGIN
 * of the handle and of its events, in general an address of the program; NULL = that of the handle. index_names: NULL if index_count is
 * 0. Waits refer to them as index 0, 1 ...; indexes that an earlier open named stay known. Returns NULL if not instrumented, which all
 * functions below accept: pfs is off, no name, or a table of pfs is full (table_instances_lost, table_handles_lost of global_status). An
 * index that does not fit (index_stat_lost), or a table whose lock statistics do not fit (table_lock_stat_lost), counts for its
 * instrument only. */
PFS_API pfs_table_t* pfs_table_open(enum pfs_object_type type, const char* schema, const char* name, const void* identity,
                                    const char* const* index_names, int index_count);

/* Removes the row of table_handles; the table stays known, with its numbers. REQUIRES: no wait is open on the handle. */
PFS_API void pfs_table_close(pfs_table_t* table);

/* Drops the table: its rows are removed, and its numbers stay with the instruments. Handles that are still open count for the
 * instruments. The next open of the name makes another table. Does nothing if the table is not known. */
PFS_API void pfs_table_drop(enum pfs_object_type type, const char* schema, const char* name);

/* Gives the handle to the calling thread: OWNER_THREAD_ID, and the thread's current event as OWNER_EVENT_ID. */
PFS_API void pfs_table_bind(pfs_table_t* table);

/* Marks the handle as cached for later use: both are NULL. */
PFS_API void pfs_table_unbind(pfs_table_t* table);

/* int pfs_table_io_begin(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_io operation, int index): begins a wait for rows. index:
 * number in index_names, or PFS_NO_INDEX. Returns 1 if it is instrumented, else 0; pfs_table_io_end may be called in both cases, and
 * must be called after 1.
 *
 * void pfs_table_io_end(pfs_wait_t* wait, uint64_t rows): ends the wait, in the same thread. `rows` rows were fetched, inserted ...: as
 * many events, whose time is that of the wait. 0 = no rows: the time counts, but no event. NUMBER_OF_BYTES = rows. */
PFS_API int pfs_table_io_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_io operation, int index, PFS_SITE_);
PFS_API void pfs_table_io_end_(pfs_wait_t* wait, uint64_t rows);

/* int pfs_table_lock_begin(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock): begins a wait for a lock. Returns as
 * pfs_table_io_begin.
 *
 * void pfs_table_lock_end(pfs_wait_t* wait, int rc): ends the wait, in the same thread. rc 0 = the lock is held: table_handles shows it
 * until pfs_table_unlock or a lock of the same column. Any other value = it is not, and the row does not change. */
PFS_API int pfs_table_lock_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock, PFS_SITE_);
PFS_API void pfs_table_lock_end_(pfs_wait_t* wait, int rc);

/* Marks the locks on the handle as released: both, or one of them. No event. */
PFS_API void pfs_table_unlock(pfs_table_t* table);
PFS_API void pfs_table_unlock_internal(pfs_table_t* table);
PFS_API void pfs_table_unlock_external(pfs_table_t* table);

#define pfs_table_io_begin(...) pfs_table_io_begin_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_table_lock_begin(...) pfs_table_lock_begin_at(__VA_ARGS__, __FILE__, __LINE__)

/* A table that is not instrumented costs two loads, a test and a branch. */
static inline int pfs_table_io_begin_at(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_io operation, int index, PFS_SITE_) {
  wait->instance = NULL;
  return table != NULL && pfs_flags_enabled_(&table->flags[0]) ? pfs_table_io_begin_(wait, table, operation, index, file, line) : 0;
}

static inline void pfs_table_io_end(pfs_wait_t* wait, uint64_t rows) {
  if (wait->instance != NULL) pfs_table_io_end_(wait, rows);
}

static inline int pfs_table_lock_begin_at(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock, PFS_SITE_) {
  wait->instance = NULL;
  return table != NULL && pfs_flags_enabled_(&table->flags[1]) ? pfs_table_lock_begin_(wait, table, lock, file, line) : 0;
}

static inline void pfs_table_lock_end(pfs_wait_t* wait, int rc) {
  if (wait->instance != NULL) pfs_table_lock_end_(wait, rc);
}

#else /* PFS_DISABLE */

static inline pfs_table_t* pfs_table_open(enum pfs_object_type type PFS_UNUSED_, const char* schema PFS_UNUSED_,
                                          const char* name PFS_UNUSED_, const void* identity PFS_UNUSED_,
                                          const char* const* index_names PFS_UNUSED_, int index_count PFS_UNUSED_) {
  return NULL;
}
static inline void pfs_table_close(pfs_table_t* table PFS_UNUSED_) {}
static inline void pfs_table_drop(enum pfs_object_type type PFS_UNUSED_, const char* schema PFS_UNUSED_, const char* name PFS_UNUSED_) {}
static inline void pfs_table_bind(pfs_table_t* table PFS_UNUSED_) {}
static inline void pfs_table_unbind(pfs_table_t* table PFS_UNUSED_) {}
static inline int pfs_table_io_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_table_t* table PFS_UNUSED_, enum pfs_table_io operation PFS_UNUSED_,
                                     int index PFS_UNUSED_) {
  return 0;
}
static inline void pfs_table_io_end(pfs_wait_t* wait PFS_UNUSED_, uint64_t rows PFS_UNUSED_) {}
static inline int pfs_table_lock_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_table_t* table PFS_UNUSED_, enum pfs_table_lock lock PFS_UNUSED_) {
  return 0;
}
static inline void pfs_table_lock_end(pfs_wait_t* wait PFS_UNUSED_, int rc PFS_UNUSED_) {}
static inline void pfs_table_unlock(pfs_table_t* table PFS_UNUSED_) {}
static inline void pfs_table_unlock_internal(pfs_table_t* table PFS_UNUSED_) {}
static inline void pfs_table_unlock_external(pfs_table_t* table PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_TABLE_H */
