/* perfschema/probe.h: the part of pfs.h that is compiled into the program: macros that add the call site, the few inline paths, and
 * their replacements with -DPFS_DISABLE. Included by pfs.h only.
 */
#ifndef PERFSCHEMA_PROBE_H
#define PERFSCHEMA_PROBE_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the plain call in C++, also inside a class that has a member of that name. */
#ifdef __cplusplus
#define PFS_PLAIN_ ::
#else
#define PFS_PLAIN_
#endif

#ifndef PFS_DISABLE

/* ---- Recorded: the call site is added -----------------------------------------------------------------------------------------
 * All are variadic, so that an argument may be a compound literal with commas in it.
 */

#define pfs_mutex_lock(...) pfs_mutex_lock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_mutex_trylock(...) pfs_mutex_trylock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_mutex_timedlock(...) pfs_mutex_timedlock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_mutex_clocklock(...) pfs_mutex_clocklock_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_mutex_wait_begin(...) pfs_mutex_wait_begin_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_tell(...) pfs_tell_at(__VA_ARGS__, __FILE__, __LINE__)

/* A mutex that is not instrumented costs a load, a test and a branch. */
static inline int pfs_mutex_lock_at(pfs_mutex_t* m, PFS_SITE_) {
  if (pfs_flags_enabled_(m->flags)) return pfs_mutex_lock_(m, file, line);
  return pthread_mutex_lock(&m->mutex);
}

static inline int pfs_mutex_trylock_at(pfs_mutex_t* m, PFS_SITE_) {
  if (pfs_flags_enabled_(m->flags)) return pfs_mutex_trylock_(m, file, line);
  return pthread_mutex_trylock(&m->mutex);
}

/* After a successful unlock another thread may have destroyed *m: it is not touched again. */
static inline int pfs_mutex_unlock(pfs_mutex_t* m) {
  pfs_instance_t* instance = m->instance;
  uint64_t owner = pfs_owner_(instance);
  if (__builtin_expect(owner != 0, 1)) {
    if (pfs_owner_is_rare_(owner)) return pfs_mutex_unlock_(m);
    pfs_owner_forget_(instance);
  }
  int rc = pthread_mutex_unlock(&m->mutex);
  if (__builtin_expect(rc != 0, 0)) pfs_owner_restore_(instance, owner);
  return rc;
}

static inline int pfs_mutex_wait_begin_at(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_lock_op op, PFS_SITE_) {
  wait->instance = NULL;
  return pfs_enabled_(instance) ? pfs_mutex_wait_begin_(wait, instance, op, file, line) : 0;
}

static inline void pfs_mutex_wait_end(pfs_wait_t* wait, int rc, uint32_t spins) {
  if (wait->instance != NULL) pfs_mutex_wait_end_(wait, rc, spins);
}

static inline void pfs_mutex_released(pfs_instance_t* instance) { pfs_owner_release_(instance); }

#else /* PFS_DISABLE */

/* ---- Compiled out: the plain calls --------------------------------------------------------------------------------------------
 * These are macros where the C library declares the call only on request, so that this header requests nothing.
 */

#define PFS_UNUSED_ __attribute__((unused))

static inline void pfs_unused_key_(pfs_key_t key PFS_UNUSED_) {}
#define pfs_tell(...) PFS_PLAIN_ lseek(__VA_ARGS__, 0, SEEK_CUR)

#define pfs_mutex_timedlock(m, ...) pthread_mutex_timedlock(&(m)->mutex, __VA_ARGS__)
#define pfs_mutex_clocklock(m, ...) pthread_mutex_clocklock(&(m)->mutex, __VA_ARGS__)

static inline int pfs_mutex_lock(pfs_mutex_t* m) { return pthread_mutex_lock(&m->mutex); }
static inline int pfs_mutex_trylock(pfs_mutex_t* m) { return pthread_mutex_trylock(&m->mutex); }
static inline int pfs_mutex_unlock(pfs_mutex_t* m) { return pthread_mutex_unlock(&m->mutex); }
static inline int pfs_mutex_destroy(pfs_mutex_t* m) { return pthread_mutex_destroy(&m->mutex); }
static inline int pfs_mutex_init(pfs_key_t key PFS_UNUSED_, pfs_mutex_t* m, const pthread_mutexattr_t* attributes) {
  m->instance = NULL;
  m->flags = NULL;
  return pthread_mutex_init(&m->mutex, attributes);
}

static inline pfs_instance_t* pfs_mutex_create(pfs_key_t key PFS_UNUSED_, const void* identity PFS_UNUSED_) { return NULL; }
static inline void pfs_mutex_discard(pfs_instance_t* instance PFS_UNUSED_) {}
static inline int pfs_mutex_wait_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_instance_t* instance PFS_UNUSED_,
                                       enum pfs_lock_op op PFS_UNUSED_) {
  return 0;
}
static inline void pfs_mutex_wait_end(pfs_wait_t* wait PFS_UNUSED_, int rc PFS_UNUSED_, uint32_t spins PFS_UNUSED_) {}
static inline void pfs_mutex_released(pfs_instance_t* instance PFS_UNUSED_) {}

static inline int pfs_file_bind(pfs_key_t key PFS_UNUSED_, int fd PFS_UNUSED_, const char* name PFS_UNUSED_) { return PFS_OK; }
static inline void pfs_file_unbind(int fd PFS_UNUSED_) {}

static inline int pfs_register_nothing_(struct pfs_instrument_info* info, int count) {
  int i;
  for (i = 0; info != NULL && i < count; ++i) {
    if (info[i].key != NULL) *info[i].key = 0;
  }
  return PFS_OK;
}
static inline int pfs_register_mutex(const char* component PFS_UNUSED_, pfs_mutex_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline int pfs_register_file(const char* component PFS_UNUSED_, pfs_file_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}

static inline int pfs_init(const char* options PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_set_overhead_limit(double percent PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_is_on(void) { return 0; }
static inline const char* pfs_version(void) { return PFS_VERSION; }
static inline const char* pfs_segment_path(void) { return ""; }
static inline const char* pfs_last_error(void) { return ""; }

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_PROBE_H */
