/* perfschema/fiber.h: tasks that a thread works at by turns: coroutines, fibers. Included by pfs.h only.
 *
 *     pfs_fiber_parent_t parent;
 *     pfs_fiber_parent(&parent);                               where the task is started: what it will be nested in
 *     pfs_fiber_t* task = pfs_fiber_create(&parent);
 *     pfs_fiber_switch(task);                                  before each part of its work
 *     ... statements, stages, transactions and waits begin and end, or are still open when the task is suspended ...
 *     pfs_fiber_switch(NULL);                                  before the thread's own work goes on
 *     pfs_fiber_destroy(task);
 *
 * What runs in a task is put aside with it: it goes on, its rows are shown as running, but nothing of another task is nested in it. What begins first
 * in a task is nested in the statement or transaction that ran where its parent was taken, if that was of the same thread. EVENT_IDs are numbers of the
 * thread: END_EVENT_ID of an event that was suspended covers events of other tasks, too; NESTING_EVENT_ID tells them apart.
 * A statement, stage or transaction is changed and ended while its task has the turn. PROCESSLIST_STATE is of the task that has it.
 *
 * Thread-safe: a task belongs to the thread that created it (to its instrumentation: see thread.h); any thread may destroy it. errno stays.
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
typedef struct pfs_fiber_parent {
  uint64_t opaque[4];
} pfs_fiber_parent_t;

#ifndef PFS_DISABLE

/* What runs in the calling thread now, as the parent of tasks. A copy: the parent may end before them. */
PFS_API void pfs_fiber_parent(pfs_fiber_parent_t* parent);
/* A task of the calling thread, which has not the turn yet. parent NULL: nested in nothing. NULL if there is no memory, or pfs is off. Allocates. */
PFS_API pfs_fiber_t* pfs_fiber_create(const pfs_fiber_parent_t* parent);
/* The task (NULL: the thread's own work) has the turn from now on. 1, or 0 and nothing has happened: it is not of this thread, or was one of the
 * process that this one was forked from. Neither locks nor allocates. */
PFS_API int pfs_fiber_switch(pfs_fiber_t* task);
/* What still runs in it is forgotten: not counted, not shown. NULL: nothing happens. */
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
