/* perfschema/cond.h: condition variables: pthread's, and the program's own. Included by pfs.h only.
 *
 *     static pfs_key_t key_not_empty;
 *     static pfs_cond_info_t conds[] = {{&key_not_empty, "not_empty", 0, "There is work."}};
 *
 *     pfs_register_cond("myapp", conds, 1);                  wait/synch/cond/myapp/not_empty
 *     pfs_cond_init(key_not_empty, &c, NULL);                a row of cond_instances
 *     while (empty) pfs_cond_wait(&c, &m);                   event wait; signal and broadcast leave no trace
 *
 * During the wait the mutex has no LOCKED_BY_THREAD_ID; after it, its holder again. That also holds if the condition is disabled or not
 * instrumented, and before the cleanup handlers of a canceled thread run. Locking the mutex again is part of the wait, not an event of
 * the mutex.
 */
#ifndef PERFSCHEMA_COND_H
#define PERFSCHEMA_COND_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_cond_info_t;

/* A condition variable. It has the same bytes with and without PFS_DISABLE. */
typedef struct pfs_cond {
  pthread_cond_t cond;
  pfs_instance_t* instance; /* NULL = not instrumented */
  const uint32_t* flags;    /* of its instrument; NULL = not instrumented */
} pfs_cond_t;

/* Initializes a default condition without pfs_cond_init(): it works and is not instrumented. */
#define PFS_COND_INITIALIZER \
  { PTHREAD_COND_INITIALIZER, NULL, NULL }

/* Names the kind of a program's own wait. Shown as OPERATION. */
enum pfs_cond_op {
  PFS_WAIT = 1,      /* wait */
  PFS_TIMED_WAIT = 2 /* timed_wait: with a deadline */
};

/* These make no event. */
static inline int pfs_cond_signal(pfs_cond_t* c) { return pthread_cond_signal(&c->cond); }
static inline int pfs_cond_broadcast(pfs_cond_t* c) { return pthread_cond_broadcast(&c->cond); }

#ifndef PFS_DISABLE

/* Registers like pfs_register_mutex(). */
PFS_API int pfs_register_cond(const char* component, pfs_cond_info_t* info, int count); /* wait/synch/cond/COMPONENT/NAME */

/* ---- pthread_cond_*, results included ------------------------------------------------------------------------------------------ */

/* int pfs_cond_init(pfs_key_t key, pfs_cond_t* c, const pthread_condattr_t* attributes). Adds a row to cond_instances, unless the table
 * is full. A PTHREAD_PROCESS_SHARED condition is a plain one: it has no row and no events. */
PFS_API int pfs_cond_init(pfs_key_t key, pfs_cond_t* c, const pthread_condattr_t* attributes);

/* Removes the row; its statistics stay with the instrument. Waits that were woken and have not returned will be counted there. */
PFS_API int pfs_cond_destroy(pfs_cond_t* c);

/* int pfs_cond_wait(pfs_cond_t* c, pfs_mutex_t* m): event wait.
 * int pfs_cond_timedwait(pfs_cond_t* c, pfs_mutex_t* m, const struct timespec* deadline): event timed_wait.
 * int pfs_cond_clockwait(pfs_cond_t* c, pfs_mutex_t* m, clockid_t clock, const struct timespec* deadline): event timed_wait.
 * pfs_cond_wait_plain, pfs_cond_timedwait_plain, pfs_cond_clockwait_plain: the same with a pthread_mutex_t*. */
PFS_API int pfs_cond_wait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, PFS_SITE_);
PFS_API int pfs_cond_timedwait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, const struct timespec* deadline, PFS_SITE_);
PFS_API int pfs_cond_clockwait_(pfs_cond_t* c, pthread_mutex_t* m, pfs_instance_t* mutex, clockid_t clock, const struct timespec* deadline,
                                PFS_SITE_);

/* ---- The program's own conditions ----------------------------------------------------------------------------------------------
 *
 *     pfs_instance_t* row = pfs_cond_create(key, &condition);
 *     pfs_wait_t wait;
 *     pfs_cond_wait_begin(&wait, row, PFS_WAIT);
 *     int rc = my_wait(&condition);
 *     pfs_cond_wait_end(&wait, rc);
 *     pfs_cond_discard(row);
 */

/* Adds a row to cond_instances for a condition at address `identity`. NULL = not instrumented, which all functions below accept. */
PFS_API pfs_instance_t* pfs_cond_create(pfs_key_t key, const void* identity);

/* Removes the row. As with pfs_cond_destroy(), all waiters must have been woken. */
PFS_API void pfs_cond_discard(pfs_instance_t* instance);

/* int pfs_cond_wait_begin(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_cond_op op): begins the event. Returns 1 if it is
 * instrumented, else 0. pfs_cond_wait_end may be called in both cases, and must be called after 1. void pfs_cond_wait_end(pfs_wait_t*
 * wait, int rc): ends the event, in the same thread; rc 0 means that the wait was woken. The program makes the events of the mutex
 * itself. */
PFS_API int pfs_cond_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_cond_op op, PFS_SITE_);
PFS_API void pfs_cond_wait_end_(pfs_wait_t* wait, int rc);

/* ---- Waits of the program for anything else: a device, an answer -------------------------------------------------------------
 *
 *     pfs_instance_t* point = pfs_wait_create(key, &device);      once
 *     pfs_wait_t wait;
 *     pfs_cond_wait_begin(&wait, point, PFS_WAIT);
 *     my_wait(&device);
 *     pfs_cond_wait_end(&wait, 0);
 *
 * Several threads may be in a wait at one point at the same time. */
PFS_API int pfs_register_wait(const char* component, pfs_cond_info_t* info, int count); /* wait/app/COMPONENT/NAME */

/* Adds a row to events_waits_summary_by_instance. NULL = not instrumented. pfs_cond_discard() removes the row. */
PFS_API pfs_instance_t* pfs_wait_create(pfs_key_t key, const void* identity);

/* ---- Code that is compiled into the program -------------------------------------------------------------------------------------- */

#define pfs_cond_wait(...) pfs_cond_wait_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_timedwait(...) pfs_cond_timedwait_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_clockwait(...) pfs_cond_clockwait_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_wait_plain(...) pfs_cond_wait_plain_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_timedwait_plain(...) pfs_cond_timedwait_plain_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_clockwait_plain(...) pfs_cond_clockwait_plain_at(__VA_ARGS__, __FILE__, __LINE__)
#define pfs_cond_wait_begin(...) pfs_cond_wait_begin_at(__VA_ARGS__, __FILE__, __LINE__)

/* Makes the plain call if the wait is not instrumented and the mutex has no known holder. */
static inline int pfs_cond_wait_at(pfs_cond_t* c, pfs_mutex_t* m, PFS_SITE_) {
  if (pfs_flags_enabled_(c->flags) || pfs_has_owner_(m->instance)) return pfs_cond_wait_(c, &m->mutex, m->instance, file, line);
  return pthread_cond_wait(&c->cond, &m->mutex);
}
static inline int pfs_cond_timedwait_at(pfs_cond_t* c, pfs_mutex_t* m, const struct timespec* deadline, PFS_SITE_) {
  if (pfs_flags_enabled_(c->flags) || pfs_has_owner_(m->instance))
    return pfs_cond_timedwait_(c, &m->mutex, m->instance, deadline, file, line);
  return pthread_cond_timedwait(&c->cond, &m->mutex, deadline);
}
static inline int pfs_cond_clockwait_at(pfs_cond_t* c, pfs_mutex_t* m, clockid_t clock, const struct timespec* deadline, PFS_SITE_) {
  return pfs_cond_clockwait_(c, &m->mutex, m->instance, clock, deadline, file, line);
}

static inline int pfs_cond_wait_plain_at(pfs_cond_t* c, pthread_mutex_t* m, PFS_SITE_) {
  if (pfs_flags_enabled_(c->flags)) return pfs_cond_wait_(c, m, NULL, file, line);
  return pthread_cond_wait(&c->cond, m);
}
static inline int pfs_cond_timedwait_plain_at(pfs_cond_t* c, pthread_mutex_t* m, const struct timespec* deadline, PFS_SITE_) {
  if (pfs_flags_enabled_(c->flags)) return pfs_cond_timedwait_(c, m, NULL, deadline, file, line);
  return pthread_cond_timedwait(&c->cond, m, deadline);
}
static inline int pfs_cond_clockwait_plain_at(pfs_cond_t* c, pthread_mutex_t* m, clockid_t clock, const struct timespec* deadline,
                                              PFS_SITE_) {
  return pfs_cond_clockwait_(c, m, NULL, clock, deadline, file, line);
}

static inline int pfs_cond_wait_begin_at(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_cond_op op, PFS_SITE_) {
  wait->instance = NULL;
  return pfs_enabled_(instance) ? pfs_cond_wait_begin_(wait, instance, op, file, line) : 0;
}
static inline void pfs_cond_wait_end(pfs_wait_t* wait, int rc) {
  if (wait->instance != NULL) pfs_cond_wait_end_(wait, rc);
}

#else /* PFS_DISABLE */

static inline int pfs_register_cond(const char* component PFS_UNUSED_, pfs_cond_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}

static inline int pfs_register_wait(const char* component PFS_UNUSED_, pfs_cond_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}

static inline int pfs_cond_init(pfs_key_t key PFS_UNUSED_, pfs_cond_t* c, const pthread_condattr_t* attributes) {
  c->instance = NULL;
  c->flags = NULL;
  return pthread_cond_init(&c->cond, attributes);
}
static inline int pfs_cond_destroy(pfs_cond_t* c) { return pthread_cond_destroy(&c->cond); }
static inline int pfs_cond_wait(pfs_cond_t* c, pfs_mutex_t* m) { return pthread_cond_wait(&c->cond, &m->mutex); }
static inline int pfs_cond_timedwait(pfs_cond_t* c, pfs_mutex_t* m, const struct timespec* deadline) {
  return pthread_cond_timedwait(&c->cond, &m->mutex, deadline);
}
static inline int pfs_cond_wait_plain(pfs_cond_t* c, pthread_mutex_t* m) { return pthread_cond_wait(&c->cond, m); }
static inline int pfs_cond_timedwait_plain(pfs_cond_t* c, pthread_mutex_t* m, const struct timespec* deadline) {
  return pthread_cond_timedwait(&c->cond, m, deadline);
}
#define pfs_cond_clockwait(c, m, ...) pthread_cond_clockwait(&(c)->cond, &(m)->mutex, __VA_ARGS__)
#define pfs_cond_clockwait_plain(c, m, ...) pthread_cond_clockwait(&(c)->cond, m, __VA_ARGS__)

static inline pfs_instance_t* pfs_cond_create(pfs_key_t key PFS_UNUSED_, const void* identity PFS_UNUSED_) { return NULL; }
static inline pfs_instance_t* pfs_wait_create(pfs_key_t key PFS_UNUSED_, const void* identity PFS_UNUSED_) { return NULL; }
static inline void pfs_cond_discard(pfs_instance_t* instance PFS_UNUSED_) {}
static inline int pfs_cond_wait_begin(pfs_wait_t* wait PFS_UNUSED_, pfs_instance_t* instance PFS_UNUSED_, enum pfs_cond_op op PFS_UNUSED_) {
  return 0;
}
static inline void pfs_cond_wait_end(pfs_wait_t* wait PFS_UNUSED_, int rc PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_COND_H */
