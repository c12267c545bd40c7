/* perfschema/interpose.h: for a library that stands between a program and the functions that the program calls (LD_PRELOAD, a hook, a
 * plug-in). A part of pfs.h. The library calls the real function itself, between a begin and an end.
 *
 *     int fsync(int fd) {                                            tests/programs/interposer.c is a whole library
 *       if (pfs_fd_kind(fd) == PFS_FD_UNKNOWN) pfs_file_bind(key, fd, "a name");              a descriptor that it did not see opened
 *       pfs_wait_t wait;
 *       pfs_file_wait_begin_at(&wait, fd, PFS_FILE_SYNC, -1, __builtin_return_address(0), PFS_CODE);
 *       int rc = real_fsync(fd);
 *       pfs_file_wait_end(&wait, -1);
 *       return rc;
 *     }
 *
 * SOURCE. Each _at function takes an address in the program's code as `file` if `line` is PFS_CODE. SOURCE is then MODULE+0xOFFSET, and
 * `pfs top`, pfs.attach(pid).blocked() and `pfs run`'s report show the symbol and the line. The event stores the address alone.
 *
 * Objects that no call initializes. pfs_mutex_create() may be called at the first lock, under a lock of the interposer's own. A new object
 * at the address of an old one is another object: call pfs_mutex_discard() for the row of the old one, then pfs_mutex_create().
 *
 * Semaphores have no family. Register them as conditions, with names that begin with "sem-", as `pfs run` does.
 *
 * Start. pfs starts at its first use, which allocates memory and takes locks of the C library: call pfs_is_on() in the constructor of the
 * library. A recursion guard is the interposer's job: the functions of pfs may call functions that it replaces, from a thread's first event
 * on.
 */
#ifndef PERFSCHEMA_INTERPOSE_H
#define PERFSCHEMA_INTERPOSE_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As `line` of a call site: `file` is an address in the code of the program, such as a return address. */
#define PFS_CODE UINT32_MAX

/* Says what a descriptor is to pfs. */
enum pfs_fd_kind { PFS_FD_UNKNOWN = 0, PFS_FD_FILE = 1, PFS_FD_SOCKET = 2 };

/* Names the operation of a wait on a descriptor. Shown as OPERATION. On a socket they are recv, send, seek, stat and close; the others
 * make no event. */
enum pfs_file_op {
  PFS_FILE_READ = 1,
  PFS_FILE_WRITE = 2,
  PFS_FILE_SEEK = 3,
  PFS_FILE_TELL = 4,
  PFS_FILE_FLUSH = 5,
  PFS_FILE_STAT = 6,
  PFS_FILE_CHSIZE = 7,
  PFS_FILE_SYNC = 8,
  PFS_FILE_CLOSE = 9 /* begin before the close: another thread may get the number at once */
};

#ifndef PFS_DISABLE

/* Returns whether calls on the descriptor are events. pfs_file_bind and pfs_socket_bind make an unknown one known. */
PFS_API enum pfs_fd_kind pfs_fd_kind(int fd);

/* Begins an event of the file or socket that a descriptor names. `requested_bytes`: shown while the event runs; -1 = the operation has
 * none. Returns 1 if the event is instrumented, else 0; pfs_file_wait_end may be called in both cases, and must be called after 1. */
PFS_API int pfs_file_wait_begin_at(pfs_wait_t* wait, int fd, enum pfs_file_op op, int64_t requested_bytes, PFS_SITE_);

/* Ends the event, in the same thread. bytes: -1 = the call failed, or moves none. */
PFS_API void pfs_file_wait_end_(pfs_wait_t* wait, int64_t bytes);

/* Begins the event open of a file at `path`; FLAGS = flags. Returns as pfs_file_wait_begin_at. */
PFS_API int pfs_file_open_begin_at(pfs_wait_t* wait, pfs_key_t key, const char* path, int flags, PFS_SITE_);

/* Ends the event. `fd`: the new descriptor, -1 = none. REQUIRES: the path of the begin. */
PFS_API void pfs_file_open_end_(pfs_wait_t* wait, const char* path, int fd);

/* Returns 1 if the lock's instrument has TIMED = 'CONTENDED': the caller should try the lock first, and call pfs_mutex_counted() instead
 * of begin and end if the try succeeds. */
PFS_API int pfs_mutex_is_contended(const pfs_instance_t* instance);

/* Counts an operation on a lock that was free: COUNT_STAR grows by 1, and the caller is the holder. REQUIRES: the caller holds the lock. */
PFS_API void pfs_mutex_counted(pfs_instance_t* instance, enum pfs_lock_op op);

/* Writes at most `size` - 1 bytes of a text to `to`, with '/' and '%' as '_'. A longer text ends in two digits of its hash, so that two
 * long texts differ. Returns `to`. For names of components and instruments (convention 5 of pfs.h). REQUIRES: size > 2. */
PFS_API char* pfs_clip(char* to, size_t size, const char* text);

static inline void pfs_file_wait_end(pfs_wait_t* wait, int64_t bytes) {
  if (wait->instance != NULL) pfs_file_wait_end_(wait, bytes);
}
static inline void pfs_file_open_end(pfs_wait_t* wait, const char* path, int fd) {
  if (wait->instance != NULL) pfs_file_open_end_(wait, path, fd);
}

/* Around a wait for a condition that releases the lock: the first forgets the holder, before the wait; the second makes the caller the
 * holder again, with the value that the first one returned, when it has the lock back. Both accept NULL. */
static inline uint64_t pfs_mutex_leave(pfs_instance_t* instance) { return pfs_owner_release_(instance); }
static inline void pfs_mutex_return_at(pfs_instance_t* instance, uint64_t left, PFS_SITE_) {
  if (left == 0) return;
  __atomic_store_n(&instance->owner, left, __ATOMIC_RELAXED);
  if (pfs_measures_holds_(instance) != 0) pfs_hold_resume_(instance, file, line);
}

#else /* PFS_DISABLE */

static inline enum pfs_fd_kind pfs_fd_kind(int fd PFS_UNUSED_) { return PFS_FD_UNKNOWN; }
static inline int pfs_file_wait_begin_at(pfs_wait_t* wait PFS_UNUSED_, int fd PFS_UNUSED_, enum pfs_file_op op PFS_UNUSED_,
                                         int64_t requested_bytes PFS_UNUSED_, const char* file PFS_UNUSED_, uint32_t line PFS_UNUSED_) {
  return 0;
}
static inline void pfs_file_wait_end(pfs_wait_t* wait PFS_UNUSED_, int64_t bytes PFS_UNUSED_) {}
static inline int pfs_file_open_begin_at(pfs_wait_t* wait PFS_UNUSED_, pfs_key_t key PFS_UNUSED_, const char* path PFS_UNUSED_,
                                         int flags PFS_UNUSED_, const char* file PFS_UNUSED_, uint32_t line PFS_UNUSED_) {
  return 0;
}
static inline void pfs_file_open_end(pfs_wait_t* wait PFS_UNUSED_, const char* path PFS_UNUSED_, int fd PFS_UNUSED_) {}
static inline int pfs_mutex_is_contended(const pfs_instance_t* instance PFS_UNUSED_) { return 0; }
static inline void pfs_mutex_counted(pfs_instance_t* instance PFS_UNUSED_, enum pfs_lock_op op PFS_UNUSED_) {}
static inline uint64_t pfs_mutex_leave(pfs_instance_t* instance PFS_UNUSED_) { return 0; }
static inline void pfs_mutex_return_at(pfs_instance_t* instance PFS_UNUSED_, uint64_t left PFS_UNUSED_, const char* file PFS_UNUSED_,
                                       uint32_t line PFS_UNUSED_) {}
static inline char* pfs_clip(char* to, size_t size PFS_UNUSED_, const char* text PFS_UNUSED_) {
  to[0] = 0;
  return to;
}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_INTERPOSE_H */
