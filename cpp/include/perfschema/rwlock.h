/* perfschema/rwlock.h: read-write locks: pthread's, and the program's own rwlocks, prlocks and sxlocks. Included by pfs.h only.
 *
 *     static pfs_key_t key_tree;
 *     static pfs_rwlock_info_t rwlocks[] = {{&key_tree, "tree", 0, "Guards the index."}};
 *
 *     pfs_register_rwlock("myapp", rwlocks, 1);              wait/synch/rwlock/myapp/tree
 *     pfs_rwlock_init(key_tree, &rw, NULL);                  a row of rwlock_instances
 *     pfs_rwlock_rdlock(&rw);   pfs_rwlock_unlock(&rw);      event read_lock; READ_LOCKED_BY_COUNT
 *     pfs_rwlock_wrlock(&rw);   pfs_rwlock_unlock(&rw);      event write_lock; WRITE_LOCKED_BY_THREAD_ID
 *
 * The thread that took a read lock counts it down, as pthread requires. READ_LOCKED_BY_COUNT is exact, but excludes locks that were taken
 * while the instrument or the thread was disabled, even after it is enabled. Convention 10 of pfs.h applies here without PFS_DISABLE as
 * well: this header needs the same request as pthread_rwlock_t of the C library.
 */
#ifndef PERFSCHEMA_RWLOCK_H
#define PERFSCHEMA_RWLOCK_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_rwlock_info_t;

/* Flags of pfs_rwlock_info_t, at most one of them. */
#define PFS_RWLOCK_SX 16u  /* an sxlock: shared, shared-exclusive, exclusive. wait/synch/sxlock/COMPONENT/NAME */
#define PFS_RWLOCK_PR 256u /* a prlock: a read-write lock that prefers writers. wait/synch/prlock/COMPONENT/NAME */

/* Names the kind of a program's own wait, and the lock that pfs_rwlock_released() releases. Shown as OPERATION. */
enum pfs_rwlock_op {
  PFS_READ_LOCK = 1,             /* read_lock */
  PFS_WRITE_LOCK = 2,            /* write_lock */
  PFS_TRY_READ_LOCK = 3,         /* try_read_lock: does not wait */
  PFS_TRY_WRITE_LOCK = 4,        /* try_write_lock */
  PFS_TIMED_READ_LOCK = 5,       /* read_lock, with a deadline */
  PFS_TIMED_WRITE_LOCK = 6,      /* write_lock, with a deadline */
  PFS_SHARED_LOCK = 7,           /* shared_lock: S of an sxlock, like a read lock */
  PFS_SHARED_EXCLUSIVE_LOCK = 8, /* shared_exclusive_lock: SX; one holder, beside any number of S */
  PFS_EXCLUSIVE_LOCK = 9,        /* exclusive_lock: X */
  PFS_TRY_SHARED_LOCK = 10,
  PFS_TRY_SHARED_EXCLUSIVE_LOCK = 11,
  PFS_TRY_EXCLUSIVE_LOCK = 12
};

/* Returns 1 for operations that take a lock which several threads may hold. */
static inline int pfs_rwlock_op_is_shared_(enum pfs_rwlock_op op) {
  return op == PFS_READ_LOCK || op == PFS_TRY_READ_LOCK || op == PFS_TIMED_READ_LOCK || op == PFS_SHARED_LOCK || op == PFS_TRY_SHARED_LOCK;
}

#ifdef PTHREAD_RWLOCK_INITIALIZER
/* A read-write lock. It has the same bytes with and without PFS_DISABLE. */
typedef struct pfs_rwlock {
  pthread_rwlock_t lock;
  pfs_instance_t* instance; /* NULL = not instrumented */
  const uint32_t* flags;    /* of its instrument; NULL = not instrumented */
} pfs_rwlock_t;

/* Initializes a default lock without pfs_rwlock_init(): it works and is not instrumented. */
#define PFS_RWLOCK_INITIALIZER \
  { PTHREAD_RWLOCK_INITIALIZER, NULL, NULL }
#endif

#ifndef PFS_DISABLE

/* Registers rwlocks, prlocks and sxlocks, as pfs_register_mutex() does mutexes. The key knows its family: pfs_rwlock_init() and
 * pfs_rwlock_create() take keys of all three. PFS_E_INVALID_ARGUMENT also for a row with both flags. */
PFS_API int pfs_register_rwlock(const char* component, pfs_rwlock_info_t* info, int count); /* wait/synch/rwlock/COMPONENT/NAME */

/* ---- pthread_rwlock_*, results included ---------------------------------------------------------------------------------------- */

#ifdef PTHREAD_RWLOCK_INITIALIZER
/* int pfs_rwlock_init(pfs_key_t key, pfs_rwlock_t* rw, const pthread_rwlockattr_t* attributes). Adds a row to rwlock_instances, unless
 * the table is full. A PTHREAD_PROCESS_SHARED rwlock is a plain one: it has no row and no events. */
PFS_API int pfs_rwlock_init(pfs_key_t key, pfs_rwlock_t* rw, const pthread_rwlockattr_t* attributes);

/* Removes the row; its statistics stay with the instrument. */
PFS_API int pfs_rwlock_destroy(pfs_rwlock_t* rw);

/* int pfs_rwlock_rdlock(pfs_rwlock_t* rw), pfs_rwlock_wrlock(rw): events read_lock and write_lock.
 * int pfs_rwlock_tryrdlock(pfs_rwlock_t* rw), pfs_rwlock_trywrlock(rw): events try_read_lock and try_write_lock.
 * int pfs_rwlock_timedrdlock(pfs_rwlock_t* rw, const struct timespec* deadline), pfs_rwlock_timedwrlock(rw, deadline): read_lock,
 * write_lock. int pfs_rwlock_clockrdlock(pfs_rwlock_t* rw, clockid_t clock, const struct timespec* deadline), pfs_rwlock_clockwrlock(rw,
 * clock, deadline). int pfs_rwlock_unlock(pfs_rwlock_t* rw): no event. */
PFS_API int pfs_rwlock_rdlock_(pfs_rwlock_t* rw, PFS_SITE_);
PFS_API int pfs_rwlock_wrlock_(pfs_rwlock_t* rw, PFS_SITE_);
PFS_API int pfs_rwlock_tryrdlock_(pfs_rwlock_t* rw, PFS_SITE_);
PFS_API int pfs_rwlock_trywrlock_(pfs_rwlock_t* rw, PFS_SITE_);
PFS_API int pfs_rwlock_unlock_(pfs_rwlock_t* rw);
PFS_API int pfs_rwlock_timedrdlock_at(pfs_rwlock_t* rw, const struct timespec* deadline, PFS_SITE_);
PFS_API int pfs_rwlock_timedwrlock_at(pfs_rwlock_t* rw, const struct timespec* deadline, PFS_SITE_);
PFS_API int pfs_rwlock_clockrdlock_at(pfs_rwlock_t* rw, clockid_t clock, const struct timespec* deadline, PFS_SITE_);
PFS_API int pfs_rwlock_clockwrlock_at(pfs_rwlock_t* rw, clockid_t clock, const struct timespec* deadline, PFS_SITE_);
#endif

/* ---- The program's own locks ------------------------------------------------------------------------------------------------------
 * Like the program's own mutexes (pfs.h), with an operation at both ends:
 *
 *     pfs_instance_t* row = pfs_rwlock_create(key, &lock);
 *     pfs_wait_t wait;
 *     pfs_rwlock_wait_begin(&wait, row, PFS_SHARED_LOCK);
 *     uint32_t spins = my_lock_s(&lock);
 *     pfs_rwlock_wait_end(&wait, 0, spins);           the thread has the lock
 *     ...
 *     pfs_rwlock_released(row, PFS_SHARED_LOCK);      before the lock is released
 *     my_unlock_s(&lock);
 *     pfs_rwlock_discard(row);
 *
 * The holder of W, X or SX owns the row: WRITE_LOCKED_BY_THREAD_ID; there is one at a time. Holders of R and S are in
 * READ_LOCKED_BY_COUNT, also together with an SX. One thread may take W, X and SX several times, and releases them as often.
 * A read or shared lock is released by the thread that took it.
 */

/* Adds a row to rwlock_instances for a lock at address `identity`. NULL = not instrumented, which all functions below accept. */
PFS_API pfs_instance_t* pfs_rwlock_create(pfs_key_t key, const void* identity);

/* Removes the row. No thread may wait for the lock or hold it. */
PFS_API void pfs_rwlock_discard(pfs_instance_t* instance);

/* int pfs_rwlock_wait_begin(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_rwlock_op op): begins the event. void
 * pfs_rwlock_wait_end(pfs_wait_t* wait, int rc, uint32_t spins): ends the event, in the same thread. rc 0 (or EOWNERDEAD) = the caller
 * has the lock of kind `op`; any other value = it does not. Both work like pfs_mutex_wait_begin() and pfs_mutex_wait_end(). void
 * pfs_rwlock_released(pfs_instance_t* instance, enum pfs_rwlock_op op): the holder calls it right before it releases the lock. */
PFS_API int pfs_rwlock_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_rwlock_op op, PFS_SITE_);
PFS_API void pfs_rwlock_wait_end_(pfs_wait_t* wait, int rc, uint32_t spins);
/* The first counts down a read lock that is about to be released; returns 1 if it had been counted. The second undoes that if the
 * release failed. */
PFS_API int pfs_rwlock_released_shared_(pfs_instance_t* instance);
PFS_API void pfs_rwlock_held_after_all_(pfs_instance_t* instance);

/* ---- Code that is compiled into the program -------------------------------------------------------------------------------------- */

#define pfs_rwlock_rdlock(...) pfs_rwlock_rdlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_wrlock(...) pfs_rwlock_wrlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_tryrdlock(...) pfs_rwlock_tryrdlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_trywrlock(...) pfs_rwlock_trywrlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_timedrdlock(...) pfs_rwlock_timedrdlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_timedwrlock(...) pfs_rwlock_timedwrlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_clockrdlock(...) pfs_rwlock_clockrdlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_clockwrlock(...) pfs_rwlock_clockwrlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_rwlock_wait_begin(...) pfs_rwlock_wait_begin_at(__VA_ARGS__, __FILE__, __LINE__)

#ifdef PTHREAD_RWLOCK_INITIALIZER
static inline int pfs_rwlock_rdlock_at(pfs_rwlock_t* rw, PFS_SITE_) {
  if (pfs_flags_enabled_(rw->flags)) return pfs_rwlock_rdlock_(rw, file, line);
  return pthread_rwlock_rdlock(&rw->lock);
}

static inline int pfs_rwlock_wrlock_at(pfs_rwlock_t* rw, PFS_SITE_) {
  if (pfs_flags_enabled_(rw->flags)) return pfs_rwlock_wrlock_(rw, file, line);
  return pthread_rwlock_wrlock(&rw->lock);
}

static inline int pfs_rwlock_tryrdlock_at(pfs_rwlock_t* rw, PFS_SITE_) {
  if (pfs_flags_enabled_(rw->flags)) return pfs_rwlock_tryrdlock_(rw, file, line);
  return pthread_rwlock_tryrdlock(&rw->lock);
}

static inline int pfs_rwlock_trywrlock_at(pfs_rwlock_t* rw, PFS_SITE_) {
  if (pfs_flags_enabled_(rw->flags)) return pfs_rwlock_trywrlock_(rw, file, line);
  return pthread_rwlock_trywrlock(&rw->lock);
}

/* Does not check the instrument: a lock that was counted is counted down. After a successful unlock another thread may have destroyed
 * *rw: it is not touched again. */
static inline int pfs_rwlock_unlock(pfs_rwlock_t* rw) {
  pfs_instance_t* instance = rw->instance;
  uint64_t owner = pfs_owner_(instance);
  if (__builtin_expect(owner != 0, 1)) {
    if (pfs_owner_is_rare_(owner)) return pfs_rwlock_unlock_(rw);
    pfs_owner_forget_(instance);
  }
  int was_shared = owner == 0 && pfs_has_readers_(instance) ? pfs_rwlock_released_shared_(instance) : 0;
  int rc = pthread_rwlock_unlock(&rw->lock);
  if (__builtin_expect(rc != 0, 0)) {
    pfs_owner_restore_(instance, owner);
    if (was_shared) pfs_rwlock_held_after_all_(instance);
  }
  return rc;
}
#endif

static inline int pfs_rwlock_wait_begin_at(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_rwlock_op op, PFS_SITE_) {
  wait->instance = NULL;
  return pfs_enabled_(instance) ? pfs_rwlock_wait_begin_(wait, instance, op, file, line) : 0;
}

static inline void pfs_rwlock_wait_end(pfs_wait_t* wait, int rc, uint32_t spins) {
  if (wait->instance != NULL) pfs_rwlock_wait_end_(wait, rc, spins);
}

static inline void pfs_rwlock_released(pfs_instance_t* instance, enum pfs_rwlock_op op) {
  if (!pfs_rwlock_op_is_shared_(op)) {
    pfs_owner_release_(instance);
  } else if (pfs_has_readers_(instance)) {
    pfs_rwlock_released_shared_(instance);
  }
}

#else /* PFS_DISABLE */

static inline int pfs_register_rwlock(const char* component PFS_UNUSED_, pfs_rwlock_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}

#ifdef PTHREAD_RWLOCK_INITIALIZER
#define pfs_rwlock_timedrdlock(rw, ...) pthread_rwlock_timedrdlock(&(rw)->lock, __VA_ARGS__)
#define pfs_rwlock_timedwrlock(rw, ...) pthread_rwlock_timedwrlock(&(rw)->lock, __VA_ARGS__)
#define pfs_rwlock_clockrdlock(rw, ...) pthread_rwlock_clockrdlock(&(rw)->lock, __VA_ARGS__)
#define pfs_rwlock_clockwrlock(rw, ...) pthread_rwlock_clockwrlock(&(rw)->lock, __VA_ARGS__)

static inline int pfs_rwlock_init(pfs_key_t key PFS_UNUSED_, pfs_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  rw->instance = NULL;
  rw->flags = NULL;
  return pthread_rwlock_init(&rw->lock, attributes);
}
static inline int pfs_rwlock_destroy(pfs_rwlock_t* rw) { return pthread_rwlock_destroy(&rw->lock); }
static inline int pfs_rwlock_rdlock(pfs_rwlock_t* rw) { return pthread_rwlock_rdlock(&rw->lock); }
static inline int pfs_rwlock_wrlock(pfs_rwlock_t* rw) { return pthread_rwlock_wrlock(&rw->lock); }
static inline int pfs_rwlock_tryrdlock(pfs_rwlock_t* rw) { return pthread_rwlock_tryrdlock(&rw->lock); }
static inline int pfs_rwlock_trywrlock(pfs_rwlock_t* rw) { return pthread_rwlock_trywrlock(&rw->lock); }
static inline int pfs_rwlock_unlock(pfs_rwlock_t* rw) { return pthread_rwlock_unlock(&rw->lock); }
#endif

static inline pfs_instance_t* pfs_rwlock_create(pfs_key_t key PFS_UNUSED_, const void* identity PFS_UNUSED_) { return NULL; }
static inline void pfs_rwlock_discard(pfs_instance_t* instance PFS_UNUSED_) {}
static inline int pfs_rwlock_wait_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_instance_t* instance PFS_UNUSED_,
                                        enum pfs_rwlock_op op PFS_UNUSED_) {
  return 0;
}
static inline void pfs_rwlock_wait_end(pfs_wait_t* wait PFS_UNUSED_, int rc PFS_UNUSED_, uint32_t spins PFS_UNUSED_) {}
static inline void pfs_rwlock_released(pfs_instance_t* instance PFS_UNUSED_, enum pfs_rwlock_op op PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_RWLOCK_H */
