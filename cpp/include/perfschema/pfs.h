/* perfschema/pfs.h: a Performance Schema for any program. The C API; C11, also C++17 (pfs.hpp has classes on top).
 *
 *     static pfs_key_t key_queue, key_data;
 *     static pfs_mutex_info_t mutexes[] = {{&key_queue, "LOCK_queue", 0, "Guards the queue."}};
 *     static pfs_file_info_t files[] = {{&key_data, "data", 0, "Input."}};
 *
 *     pfs_register_mutex("myapp", mutexes, 1);               wait/synch/mutex/myapp/LOCK_queue
 *     pfs_register_file("myapp", files, 1);                  wait/io/file/myapp/data
 *     pfs_mutex_init(key_queue, &m, NULL);                   then pfs_mutex_lock(&m), pfs_mutex_unlock(&m)
 *     int fd = pfs_open(key_data, path, O_RDONLY);           then pfs_read(fd, ...), pfs_close(fd)
 *
 * Conventions. They apply to every function here unless its comment says otherwise.
 *
 *  1. A wrapper does what the plain call does: same arguments, same result, same errno, same signals, same cancellation points.
 *     pfs never makes a wrapped call fail; events and objects beyond its capacity are not recorded, and counted in global_status.
 *  2. errno is left as the plain call leaves it, and no function of pfs touches it otherwise.
 *  3. Functions of pfs itself (register, init, set_...) return 0 or one of enum pfs_error; pfs_last_error() explains it.
 *  4. Every function may be called from any thread at any time, also before main() and from signal handlers that interrupt pfs
 *     (such an event is not recorded). Objects follow the rules of the plain object: do not destroy a mutex that is in use.
 *  5. Names: a component has no '/', a full name with its prefix has at most 128 bytes.
 *     The family comes from the call: "LOCK_queue" of component "myapp" becomes wait/synch/mutex/myapp/LOCK_queue.
 *  6. A key is a number valid in this process. Key 0 means "not instrumented" and is always legal. Registering a name again gives the same
 * key.
 *  7. Wrappers are macros that add the caller's __FILE__ and __LINE__ (shown as SOURCE) to the function of the same name with _at; they
 *     evaluate each argument once and have no address. If you need a function pointer, write your own function around the macro.
 *     `file` must stay valid as long as the program runs: a literal.
 *  8. Names that end in '_' belong to the headers.
 *  9. Files, and sockets (socket.h), are found by descriptor. Every call on a descriptor (or a FILE* with one) that pfs_open, pfs_fopen ...
 * or pfs_file_bind gave a name is an event; on other descriptors it is the plain call. Close descriptors that pfs opened with pfs_close or
 *     pfs_fclose, else the number keeps the name.
 * 10. -DPFS_DISABLE makes every wrapper the plain call and needs no library; keys are evaluated and stay 0. Objects keep their layout.
 *     Calls that the C library declares only on request (_GNU_SOURCE, _POSIX_C_SOURCE) then need that request, as the plain call does.
 * 11. No C++ exception leaves a function.
 */
#ifndef PERFSCHEMA_PFS_H
#define PERFSCHEMA_PFS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "perfschema/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PFS_VERSION "0.1.0"

/* ---- Types ------------------------------------------------------------------------------------------------------------------- */

/* Lists the results of the functions of pfs itself. */
enum pfs_error {
  PFS_OK = 0,
  PFS_E_INVALID_ARGUMENT = 1, /* a name that breaks the rules, a bad value, a NULL */
  PFS_E_NOT_FOUND = 2,        /* nothing has that name or number */
  PFS_E_NOT_ALLOWED = 3,      /* legal elsewhere, not here */
  PFS_E_EXISTS = 4,           /* it exists already */
  PFS_E_FULL = 5,             /* the table is full: a variable limits it, a *_lost counter counts losses */
  PFS_E_STATE = 6,            /* too late, too early, or pfs is off */
  PFS_E_IO = 7,               /* the system refused */
  PFS_E_CORRUPT = 8           /* damaged data was read */
};

/* An instrument of this process. 0 = not instrumented. */
typedef uint32_t pfs_key_t;

/* Describes one instrument to register. A row of setup_instruments. */
struct pfs_instrument_info {
  pfs_key_t* key;            /* gets the key; 0 if the row was refused */
  const char* name;          /* without component */
  uint32_t flags;            /* PFS_SINGLETON | PFS_VOLATILITY_SESSION ...; a family ignores flags that it does not have */
  const char* documentation; /* one sentence, or NULL */
};
typedef struct pfs_instrument_info pfs_mutex_info_t;
typedef struct pfs_instrument_info pfs_file_info_t;

#define PFS_SINGLETON 1u   /* there is one object of this name */
#define PFS_MUTABLE 2u     /* the name changes while the event runs */
#define PFS_PROGRESS 8u    /* a stage that reports its progress */
#define PFS_USER 64u       /* a thread that works for a user */
#define PFS_DISABLED 8192u /* starts with ENABLED = NO */
#define PFS_UNTIMED 16384u /* starts with TIMED = NO */

/* VOLATILITY of the instrument: how long its objects exist. One of these may be added to flags. */
#define PFS_VOLATILITY_SHIFT 24
#define PFS_VOLATILITY_PERMANENT (1u << PFS_VOLATILITY_SHIFT)    /* as long as the process */
#define PFS_VOLATILITY_PROVISIONING (2u << PFS_VOLATILITY_SHIFT) /* made rarely, for example at an installation */
#define PFS_VOLATILITY_DDL (3u << PFS_VOLATILITY_SHIFT)          /* as long as a definition, such as a table */
#define PFS_VOLATILITY_CACHE (4u << PFS_VOLATILITY_SHIFT)        /* as long as it stays in a cache */
#define PFS_VOLATILITY_SESSION (5u << PFS_VOLATILITY_SHIFT)      /* as long as a session */
#define PFS_VOLATILITY_TRANSACTION (6u << PFS_VOLATILITY_SHIFT)  /* as long as a transaction */
#define PFS_VOLATILITY_QUERY (7u << PFS_VOLATILITY_SHIFT)        /* as long as a statement */
#define PFS_VOLATILITY_INTRA_QUERY (8u << PFS_VOLATILITY_SHIFT)  /* made many times within a statement */

/* A mutex. It has the same bytes with and without PFS_DISABLE. `mutex` may be passed to pthread functions, such as pthread_cond_wait. */
typedef struct pfs_mutex {
  pthread_mutex_t mutex;
  pfs_instance_t* instance; /* NULL = not instrumented */
  const uint32_t* flags;    /* of its instrument; NULL = not instrumented */
} pfs_mutex_t;

/* Initializes a default mutex without pfs_mutex_init(): it works and is not instrumented. */
#define PFS_MUTEX_INITIALIZER \
  { PTHREAD_MUTEX_INITIALIZER, NULL, NULL }

/* A wait in progress: pfs_mutex_wait_begin fills it, pfs_mutex_wait_end needs it. It is on the stack of the waiting thread. */
typedef struct pfs_wait {
  pfs_instance_t* instance; /* NULL = the wait is not instrumented */
  uint64_t opaque[15];
} pfs_wait_t;

/* Names the kind of a program's own wait. Shown as OPERATION. */
enum pfs_lock_op {
  PFS_LOCK = 1,      /* lock: waits until it holds the lock */
  PFS_TRY_LOCK = 2,  /* try_lock: does not wait */
  PFS_TIMED_LOCK = 3 /* lock, with a deadline */
};

/* `spins` of a lock that does not count its spins: SPINS is NULL. */
#define PFS_NO_SPINS UINT32_MAX

/* The call site, in the parameter lists of the _at functions. */
#define PFS_SITE_ const char *file, uint32_t line

#ifndef PFS_DISABLE

/* ---- The process ------------------------------------------------------------------------------------------------------------- */

/* Sets options, "name=value,name=value", and starts pfs. Call it before any other function of pfs; without it pfs starts at its first
 * use. `options` override PFS_OPTIONS of the environment, which a setuid program ignores. NULL = none. Errors: PFS_E_STATE if pfs has
 * started already, PFS_E_NOT_FOUND for an unknown option, PFS_E_INVALID_ARGUMENT for a bad value (nothing is started, nothing changed). */
PFS_API int pfs_init(const char* options);

/* Sets the ceiling of what pfs may cost, in percent of the process's processor time: 1 is 1 %. Above it a thread of pfs makes instruments
 * cheaper, and dearer again below it; the table overhead_steps says which. 0 = no ceiling, the default. Starts pfs if it has not started.
 * Error: PFS_E_INVALID_ARGUMENT if it is no percentage. */
PFS_API int pfs_set_overhead_limit(double percent);

/* Returns 1 if pfs records in this process, else 0. Starts pfs if it has not started. */
PFS_API int pfs_is_on(void);

/* Returns the version of the library that runs, "1.2.3". PFS_VERSION is that of the header. */
PFS_API const char* pfs_version(void);

/* Returns the path of the segment that other processes read; "" if it is private, or pfs is off. Valid until the process ends, also in a
 * forked child, which has its own path. */
PFS_API const char* pfs_segment_path(void);

/* Returns the reason of the last failure of a pfs function in this thread; "" if none failed. Valid until the next failure in this
 * thread. */
PFS_API const char* pfs_last_error(void);

/* ---- Instruments ------------------------------------------------------------------------------------------------------------- */

/* Registers `count` instruments of a family under `component` and stores their keys. A refused row gets key 0; the others are
 * registered. Returns 0, or the error of the first refused row: PFS_E_INVALID_ARGUMENT (convention 5). It is no error, but key 0, if pfs
 * is off, or the family is full (counted in performance_schema_*_classes_lost). */
PFS_API int pfs_register_mutex(const char* component, pfs_mutex_info_t* info, int count); /* wait/synch/mutex/COMPONENT/NAME */
PFS_API int pfs_register_file(const char* component, pfs_file_info_t* info, int count);   /* wait/io/file/COMPONENT/NAME */

/* ---- Mutexes: pthread_mutex_*, results included ------------------------------------------------------------------------------ */

/* int pfs_mutex_init(pfs_key_t key, pfs_mutex_t* m, const pthread_mutexattr_t* attributes). Adds a row to mutex_instances, unless the
 * table is full. A PTHREAD_PROCESS_SHARED mutex is a plain one: it has no row and no events. */
PFS_API int pfs_mutex_init(pfs_key_t key, pfs_mutex_t* m, const pthread_mutexattr_t* attributes);

/* Removes the row; its statistics stay with the instrument. A mutex that could not be destroyed (EBUSY) stays as it was. */
PFS_API int pfs_mutex_destroy(pfs_mutex_t* m);

/* int pfs_mutex_lock(pfs_mutex_t* m), int pfs_mutex_trylock(pfs_mutex_t* m): events lock and try_lock. See probe.h for the inline part.
 * int pfs_mutex_unlock(pfs_mutex_t* m): no event; the mutex has no LOCKED_BY_THREAD_ID from here on. */
PFS_API int pfs_mutex_lock_(pfs_mutex_t* m, PFS_SITE_);
PFS_API int pfs_mutex_trylock_(pfs_mutex_t* m, PFS_SITE_);
PFS_API int pfs_mutex_unlock_(pfs_mutex_t* m);

/* int pfs_mutex_timedlock(pfs_mutex_t* m, const struct timespec* deadline): event lock. */
PFS_API int pfs_mutex_timedlock_at(pfs_mutex_t* m, const struct timespec* deadline, PFS_SITE_);

/* int pfs_mutex_clocklock(pfs_mutex_t* m, clockid_t clock, const struct timespec* deadline): event lock. */
PFS_API int pfs_mutex_clocklock_at(pfs_mutex_t* m, clockid_t clock, const struct timespec* deadline, PFS_SITE_);

/* ---- The program's own locks ----------------------------------------------------------------------------------------------------
 *
 *     pfs_instance_t* row = pfs_mutex_create(key, &lock);
 *     pfs_wait_t wait;
 *     pfs_mutex_wait_begin(&wait, row, PFS_LOCK);
 *     uint32_t spins = my_lock(&lock);
 *     pfs_mutex_wait_end(&wait, 0, spins);          the lock is held: its statistics are written under it
 *     ...
 *     pfs_mutex_released(row);                      before the lock is released
 *     my_unlock(&lock);
 *     pfs_mutex_discard(row);
 */

/* Adds a row to mutex_instances for a lock at address `identity`. NULL = not instrumented, which all functions below accept. */
PFS_API pfs_instance_t* pfs_mutex_create(pfs_key_t key, const void* identity);

/* Removes the row. No thread may wait for the lock or hold it. */
PFS_API void pfs_mutex_discard(pfs_instance_t* instance);

/* int pfs_mutex_wait_begin(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_lock_op op): begins the event. Returns 1 if it is
 * instrumented, else 0; pfs_mutex_wait_end may be called in both cases, and must be called after 1.
 *
 * void pfs_mutex_wait_end(pfs_wait_t* wait, int rc, uint32_t spins): ends the event, in the same thread. rc 0 (or EOWNERDEAD) = the
 * caller now holds the lock exclusively; any other value = it does not. spins: PFS_NO_SPINS if not counted.
 *
 * void pfs_mutex_released(pfs_instance_t* instance): the holder calls it right before it releases the lock. */
PFS_API int pfs_mutex_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_lock_op op, PFS_SITE_);
PFS_API void pfs_mutex_wait_end_(pfs_wait_t* wait, int rc, uint32_t spins);

/* ---- Files -------------------------------------------------------------------------------------------------------------------
 * file_calls.h has the wrapped calls.
 */

/* Gives a name to a descriptor that pfs did not open (a pipe, dup(), an inherited one), in place of any earlier name. No event. Errors:
 * PFS_E_INVALID_ARGUMENT (key 0, fd < 0, no name); PFS_E_STATE if it cannot be instrumented (instrument or pfs off, table full). */
PFS_API int pfs_file_bind(pfs_key_t key, int fd, const char* name);

/* Removes the name from a descriptor, which stays open. No event; does nothing if it has none. */
PFS_API void pfs_file_unbind(int fd);

/* off_t pfs_tell(int fd): tell; lseek(fd, 0, SEEK_CUR). */
PFS_API off_t pfs_tell_at(int fd, PFS_SITE_);

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif

#include "perfschema/probe.h"
/* Each further family has its own header, which holds the recorded and the compiled-out version. A header needs those above it. Servers
 * of databases include server.h, too. */
/* clang-format off */
#include "perfschema/file_calls.h"
#include "perfschema/cond.h"
#include "perfschema/rwlock.h"
#include "perfschema/socket.h"
#include "perfschema/idle.h"
#include "perfschema/stage.h"
#include "perfschema/statement.h"
#include "perfschema/transaction.h"
#include "perfschema/error.h"
#include "perfschema/status.h"
#include "perfschema/fiber.h"
#include "perfschema/memory.h"
#include "perfschema/thread.h"
#include "perfschema/variable.h"
#include "perfschema/program.h"
#include "perfschema/log.h"
#include "perfschema/interpose.h"
/* clang-format on */

#endif /* PERFSCHEMA_PFS_H */
