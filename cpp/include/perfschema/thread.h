/* perfschema/thread.h: threads: their names, and the accounts that they work for. A part of pfs.h, which includes it.
 *
 *     static pfs_key_t key_worker;
 *     static pfs_thread_info_t threads[] = {{&key_worker, "worker", 0, "Does the work."}};
 *
 *     pfs_register_thread("myapp", threads, 1);                 thread/myapp/worker, a row of setup_threads
 *     pfs_thread_create(key_worker, &thread, NULL, start, arg); then pthread_join(thread, ...) as with pthread_create
 *
 * A thread that starts otherwise appears in `threads` at its first event, as thread/native/<name of the system>; it may describe itself
 * further. A row of `threads` is a thread context: events of a thread count for the context that is attached to it. Most threads have
 * their own, made at the first event and ended when the thread ends. Thread pools make one for each session instead (pfs_thread_new), and
 * attach it to the thread that works for the session at the moment.
 */
#ifndef PERFSCHEMA_THREAD_H
#define PERFSCHEMA_THREAD_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_thread_info_t;

/* A context that pfs_thread_new() made, or that a thread made for itself. 0 = none, which every function accepts. It is a number:
 * that of a deleted session is refused, never dereferenced. Not valid in other processes; valid in a forked child. */
typedef uint64_t pfs_thread_t;

/* Describes a thread that is about to be started: its parent and the parent's account. */
typedef struct pfs_thread_origin {
  uint64_t opaque[40];
} pfs_thread_origin_t;

#ifndef PFS_DISABLE

/* Registers thread instruments, as pfs_register_mutex() does: thread/COMPONENT/NAME. Flags: PFS_USER = its threads are FOREGROUND, have
 * a PROCESSLIST_ID, and setup_actors selects the instrumented ones; PFS_SINGLETON; PFS_DISABLED. They are rows of setup_threads, which
 * sets the initial state of their threads. */
PFS_API int pfs_register_thread(const char* component, pfs_thread_info_t* info, int count);

/* ---- Starting a thread ------------------------------------------------------------------------------------------------------- */

/* Calls pthread_create(), with the same results. The new thread belongs to the instrument `key` from its first instruction on:
 * PARENT_THREAD_ID is the caller, and it works for the caller's account. Key 0: the plain call. */
PFS_API int pfs_thread_create(pfs_key_t key, pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument);

/* Do the same if other code starts the thread (std::thread, an event loop). The parent describes it, and the new thread begins, as its
 * first action. A thread that has had events already changes from then on. `name`: "component/name", NULL = that of the instrument; with
 * key 0 the thread has a name and no instrument; both missing: does nothing. Errors: PFS_E_INVALID_ARGUMENT as pfs_set_thread_name();
 * PFS_E_STATE if the thread was detached, or a context that is not its own is attached. */
PFS_API void pfs_thread_describe(pfs_thread_origin_t* origin);
PFS_API int pfs_thread_begin(pfs_key_t key, const char* name, const pfs_thread_origin_t* origin);

/* ---- Thread pools --------------------------------------------------------------------------------------------------------------
 *
 *     pfs_thread_t session = pfs_thread_new(key_session, connection, 0);
 *     ...                                             in a thread of the pool:
 *     pfs_thread_attach(session);
 *     pfs_set_account(user, host);                    all events belong to the session
 *     pfs_thread_detach();                            this thread records nothing now, another may attach the session
 *     ...
 *     pfs_thread_delete(session);
 *
 * An event that is open when its context is detached stays open; the thread that ends it must have the context attached. Release locks
 * under the context under which they were taken. A signal handler that interrupted pfs gets PFS_E_STATE. When a thread ends, an attached
 * context that is not its own is detached and continues to exist. In a forked child the calling thread keeps its attached context; all
 * other sessions exist, attached to no thread.
 */

/* Makes a context with its own THREAD_ID, attached to no thread; a row of `threads` from now on. `identity` is the caller's: see
 * pfs_thread_identity(). processlist_id: PROCESSLIST_ID, 0 = the THREAD_ID. Returns 0 if not instrumented: key 0, the table is full
 * (Performance_schema_thread_instances_lost), or pfs is off. */
PFS_API pfs_thread_t pfs_thread_new(pfs_key_t key, const void* identity, uint64_t processlist_id);

/* Attaches `thread` to the calling thread, whose events belong to it from here on, and detaches the previous context. No lock and no
 * system call. 0: as pfs_thread_detach(). Errors: PFS_E_STATE if another thread has it attached, or it is another thread's own;
 * PFS_E_NOT_FOUND if it was deleted. Nothing changes then. */
PFS_API int pfs_thread_attach(pfs_thread_t thread);

/* Detaches the context: events of the calling thread are neither counted nor recorded until a context is attached again. Errors:
 * PFS_E_STATE in a signal handler that interrupted pfs. */
PFS_API int pfs_thread_detach(void);

/* Return the context attached to the calling thread, and its own; 0 = none, or the thread has had no event yet. */
PFS_API pfs_thread_t pfs_thread_current(void);
PFS_API pfs_thread_t pfs_thread_own(void);

/* Ends the context: its row is removed, its numbers move to its account, its events stay in history_long. If the calling thread has it
 * attached, it is detached. Errors: as pfs_thread_attach(). */
PFS_API int pfs_thread_delete(pfs_thread_t thread);

/* Returns `identity` of pfs_thread_new(); NULL if it was deleted. */
PFS_API void* pfs_thread_identity(pfs_thread_t thread);

/* Returns its THREAD_ID; 0 of 0. */
PFS_API uint64_t pfs_thread_id_of(pfs_thread_t thread);

/* ---- Description of the calling thread ----------------------------------------------------------------------------------------
 * These functions change the context that is attached to the calling thread. Texts are copied; NULL or "" makes the column NULL; texts
 * longer than the column (bytes in brackets) are cut. They do nothing if pfs is off.
 */

/* Sets NAME: "component/name" is shown as thread/component/name. If that is a registered thread instrument, the thread belongs to it
 * from now on. Errors: PFS_E_INVALID_ARGUMENT for an empty name and one of more than 120 bytes. */
PFS_API int pfs_set_thread_name(const char* name);

/* Sets the account: PROCESSLIST_USER [32] and PROCESSLIST_HOST [255], a row of accounts, users and hosts. Earlier counts stay with the
 * earlier account. Each call is a connection. setup_actors decides whether the thread is instrumented from now on. NULL or "" for both =
 * no account. */
PFS_API int pfs_set_account(const char* user, const char* host);

/* Returns the THREAD_ID of the calling thread; 0 if it is not instrumented. */
PFS_API uint64_t pfs_thread_id(void);

#else  /* PFS_DISABLE */

static inline int pfs_register_thread(const char* component PFS_UNUSED_, pfs_thread_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline int pfs_thread_create(pfs_key_t key PFS_UNUSED_, pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                    void* argument) {
  return pthread_create(thread, attributes, start, argument);
}
static inline void pfs_thread_describe(pfs_thread_origin_t* origin PFS_UNUSED_) {}
static inline int pfs_thread_begin(pfs_key_t key PFS_UNUSED_, const char* name PFS_UNUSED_, const pfs_thread_origin_t* origin PFS_UNUSED_) {
  return PFS_OK;
}
static inline pfs_thread_t pfs_thread_new(pfs_key_t key PFS_UNUSED_, const void* identity PFS_UNUSED_,
                                          uint64_t processlist_id PFS_UNUSED_) {
  return 0;
}
static inline int pfs_thread_attach(pfs_thread_t thread PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_thread_detach(void) { return PFS_OK; }
static inline pfs_thread_t pfs_thread_current(void) { return 0; }
static inline pfs_thread_t pfs_thread_own(void) { return 0; }
static inline int pfs_thread_delete(pfs_thread_t thread PFS_UNUSED_) { return PFS_OK; }
static inline void* pfs_thread_identity(pfs_thread_t thread PFS_UNUSED_) { return NULL; }
static inline uint64_t pfs_thread_id_of(pfs_thread_t thread PFS_UNUSED_) { return 0; }
static inline int pfs_set_thread_name(const char* name PFS_UNUSED_) { return PFS_OK; }
static inline int pfs_set_account(const char* user PFS_UNUSED_, const char* host PFS_UNUSED_) { return PFS_OK; }
static inline uint64_t pfs_thread_id(void) { return 0; }
#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_THREAD_H */
