/* perfschema/idle.h: the time in which a thread is idle, such as between two requests of its user. Included by pfs.h only.
 *
 *     pfs_wait_t wait;
 *     pfs_idle_begin(&wait);
 *     size_t bytes = my_wait_for_the_next_request();
 *     pfs_idle_end(&wait);
 *
 * Instrument "idle", timed by the timer that setup_timers has for idle. An idle event has no object and no NESTING_EVENT_ID, whatever runs.
 */
#ifndef PERFSCHEMA_IDLE_H
#define PERFSCHEMA_IDLE_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PFS_DISABLE

/* int pfs_idle_begin(pfs_wait_t* wait): begins the event. Returns 1 if it is instrumented, else 0; pfs_idle_end may be called in both
 * cases, and must be called after 1. void pfs_idle_end(pfs_wait_t* wait): ends the event, in the same thread. */
PFS_API int pfs_idle_begin_at(pfs_wait_t* wait, PFS_SITE_);
PFS_API void pfs_idle_end_(pfs_wait_t* wait);
#define pfs_idle_begin(...) pfs_idle_begin_at(__VA_ARGS__, __FILE__, __LINE__)

static inline void pfs_idle_end(pfs_wait_t* wait) {
  if (wait->instance != NULL) pfs_idle_end_(wait);
}

#else /* PFS_DISABLE */

static inline int pfs_idle_begin(pfs_wait_t* wait PFS_UNUSED_) { return 0; }
static inline void pfs_idle_end(pfs_wait_t* wait PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_IDLE_H */
