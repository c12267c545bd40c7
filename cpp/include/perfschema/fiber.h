/* perfschema/fiber.h: tasks that a thread runs alternately: coroutines, fibers. Included by pfs.h only.
 *
 *     pfs_fiber_parent_t parent;
 *     pfs_fiber_parent(&parent);                               where the task is started: the parent of its events
 *     pfs_fiber_t* task = pfs_fiber_create(&parent);
 *     pfs_fiber_switch(task);                                  before each part of its work
 *     ... statements, stages, transactions and waits begin and end, or are still open when the task is suspended ...
 *     pfs_fiber_switch(NULL);                                  before the thread's own work goes on
 *     pfs_fiber_destroy(task);
 *
 * Open events of a suspended task stay open: their rows are shown as running, but events of other tasks are not nested in them. The first
 * event of a task is nested in the statement or transaction that ran where its parent was taken, if that was in the same thread.
 * EVENT_IDs are numbers of the thread: END_EVENT_ID of an event that was suspended covers events of other tasks, too; NESTING_EVENT_ID
 * distinguishes them. The program changes and ends a statement, stage or transaction while its task is the running task.
 * PROCESSLIST_STATE is that of the running task.
 *
 * Thread-safe: a task belongs to the thread that created it (to its context: see thread.h); any thread may destroy it. errno is
 * preserved.
 */
#ifndef PERFSCHEMA_FIBER_H
#define PERFSCHEMA_FIBER_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_fiber pfs_fiber_t;
typedef struct pfs_fiber_parent_ {
  uint64_t opaque[4];
} pfs_fiber_parent_t;

#ifndef PFS_DISABLE

/* Stores the events that run in the calling thread now, as the parent of tasks. It is a copy: they may end before the tasks. */
PFS_API void pfs_fiber_parent(pfs_fiber_parent_t* parent);
/* Creates a task of the calling thread, without switching to it. parent NULL: its events have no parent. Returns NULL if there is no
 * memory, or pfs is off. Allocates. */
PFS_API pfs_fiber_t* pfs_fiber_create(const pfs_fiber_parent_t* parent);
/* Makes the task the running task of this thread (NULL: the thread's own work). Returns 1. Returns 0, and does nothing, if the task
 * belongs to another thread, or to the process that this one was forked from. Neither locks nor allocates. */
PFS_API int pfs_fiber_switch(pfs_fiber_t* task);
/* Destroys a task. Its open events are forgotten: not counted, not shown. NULL: does nothing. */
PFS_API void pfs_fiber_destroy(pfs_fiber_t* task);

#else /* PFS_DISABLE */

static inline void pfs_fiber_parent(pfs_fiber_parent_t* parent PFS_UNUSED_) {}
static inline pfs_fiber_t* pfs_fiber_create(const pfs_fiber_parent_t* parent PFS_UNUSED_) { return NULL; }
static inline int pfs_fiber_switch(pfs_fiber_t* task PFS_UNUSED_) { return 0; }
static inline void pfs_fiber_destroy(pfs_fiber_t* task PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_FIBER_H */
