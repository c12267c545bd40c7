/* A user's own interposer, for LD_PRELOAD: it records mutexes, conditions, semaphores and files of a program that knows nothing of pfs, by
 * the public C API (perfschema/interpose.h). Build: cc -shared -fPIC -o interposer.so interposer.c $(pfs config --cflags --libs) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>

#define REAL(name) ((__typeof__(&name))real_of(&real_##name, #name))
#define HERE __builtin_return_address(0), PFS_CODE
static void *real_open, *real_read, *real_write, *real_fsync, *real_close, *real_sem_wait;
static void *real_pthread_mutex_lock, *real_pthread_mutex_trylock, *real_pthread_mutex_unlock, *real_pthread_mutex_init;
static void* real_pthread_cond_wait;

static pfs_key_t key_mutex, key_cond, key_semaphore, key_file;
static int is_ready;
static __thread int is_inside __attribute__((tls_model("initial-exec"))); /* pfs itself makes calls: they stay plain */

static void* real_of(void** place, const char* name) {
  if (*place == NULL) *place = dlsym(RTLD_NEXT, name);
  return *place;
}
#define GUARDED(...) (is_inside = 1, (void)(__VA_ARGS__), is_inside = 0)
static struct dl_find_object pfs_itself; /* its locks at the end of a thread or a process are not the program's */
static int is_of_pfs(const void* caller) {
  return (uintptr_t)caller - (uintptr_t)pfs_itself.dlfo_map_start <
         (uintptr_t)pfs_itself.dlfo_map_end - (uintptr_t)pfs_itself.dlfo_map_start;
}
static int is_plain_from(const void* caller) { return !is_ready || is_inside || is_of_pfs(caller); }
#define is_plain() is_plain_from(__builtin_return_address(0))

__attribute__((constructor)) static void start(void) {
  static char component[14];
  is_inside = 1;
  pfs_clip(component, sizeof component, program_invocation_short_name);
  static pfs_mutex_info_t mutexes[] = {{&key_mutex, "LOCK", 0, "Mutexes of the program."}};
  static pfs_cond_info_t conds[] = {{&key_cond, "COND", 0, "Conditions."}, {&key_semaphore, "sem-any", 0, "Semaphores."}};
  static pfs_file_info_t files[] = {{&key_file, "file", 0, "Files."}};
  pfs_register_mutex(component, mutexes, 1);
  pfs_register_cond(component, conds, 2);
  pfs_register_file(component, files, 1);
  _dl_find_object((void*)&pfs_is_on, &pfs_itself);
  is_ready = pfs_is_on();
  is_inside = 0;
}

/* ---- Objects that no call of pfs initializes: a row for each address, made at its first use */

enum { ROWS = 4096 };
static struct row {
  const void* object;
  pfs_instance_t* instance;
} rows[ROWS];
static char rows_lock;
static pfs_instance_t* row_of(const void* object, pfs_instance_t* (*create)(pfs_key_t, const void*), pfs_key_t key, int is_new) {
  pfs_instance_t* found = NULL;
  is_inside = 1;
  while (__atomic_test_and_set(&rows_lock, __ATOMIC_ACQUIRE)) continue;
  for (size_t i = 0, at = (size_t)object / 16; i < ROWS; ++i, ++at) {
    struct row* const row = &rows[at % ROWS];
    if (row->object == object && is_new) { /* another life at an old address */
      pfs_mutex_discard(row->instance);
      row->object = NULL;
    }
    if (row->object == NULL) *row = (struct row){object, create(key, object)};
    if (row->object != object) continue;
    found = row->instance;
    break;
  }
  __atomic_clear(&rows_lock, __ATOMIC_RELEASE);
  is_inside = 0;
  return found;
}

int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int rc = REAL(pthread_mutex_init)(m, attributes);
  if (rc == 0 && !is_plain()) row_of(m, pfs_mutex_create, key_mutex, 1);
  return rc;
}

int pthread_mutex_lock(pthread_mutex_t* m) {
  if (is_plain()) return REAL(pthread_mutex_lock)(m);
  pfs_instance_t* const row = row_of(m, pfs_mutex_create, key_mutex, 0);
  if (pfs_mutex_is_contended(row) && REAL(pthread_mutex_trylock)(m) == 0) {
    GUARDED(pfs_mutex_counted(row, PFS_LOCK));
    return 0;
  }
  pfs_wait_t wait;
  GUARDED(pfs_mutex_wait_begin_at(&wait, row, PFS_LOCK, HERE));
  const int rc = REAL(pthread_mutex_lock)(m);
  GUARDED(pfs_mutex_wait_end(&wait, rc, PFS_NO_SPINS));
  return rc;
}

int pthread_mutex_unlock(pthread_mutex_t* m) {
  if (!is_plain()) pfs_mutex_released(row_of(m, pfs_mutex_create, key_mutex, 0));
  return REAL(pthread_mutex_unlock)(m);
}

int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  if (is_plain()) return REAL(pthread_cond_wait)(c, m);
  pfs_instance_t* const mutex = row_of(m, pfs_mutex_create, key_mutex, 0);
  pfs_wait_t wait;
  pfs_instance_t* const cond = row_of(c, pfs_cond_create, key_cond, 0);
  GUARDED(pfs_cond_wait_begin_at(&wait, cond, PFS_WAIT, HERE));
  const uint64_t left = pfs_mutex_leave(mutex);
  const int rc = REAL(pthread_cond_wait)(c, m);
  pfs_mutex_return_at(mutex, left, HERE);
  GUARDED(pfs_cond_wait_end(&wait, rc));
  return rc;
}

int sem_wait(sem_t* s) {
  if (is_plain()) return REAL(sem_wait)(s);
  pfs_wait_t wait;
  pfs_instance_t* const semaphore = row_of(s, pfs_cond_create, key_semaphore, 0);
  GUARDED(pfs_cond_wait_begin_at(&wait, semaphore, PFS_WAIT, HERE));
  const int rc = REAL(sem_wait)(s);
  GUARDED(pfs_cond_wait_end(&wait, rc));
  return rc;
}

/* ---- Files */

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (is_plain()) return REAL(open)(path, flags, mode);
  pfs_wait_t wait;
  GUARDED(pfs_file_open_begin_at(&wait, key_file, path, flags, HERE));
  const int fd = REAL(open)(path, flags, mode);
  GUARDED(pfs_file_open_end(&wait, path, fd));
  return fd;
}

/* A descriptor that was not seen opened gets a name at its first use. */
static void adopt(int fd) {
  if (pfs_fd_kind(fd) == PFS_FD_UNKNOWN) GUARDED(pfs_file_bind(key_file, fd, "inherited"));
}

#define ON_FILE(type, name, parameters, op, requested, bytes, ...)   \
  type name parameters {                                             \
    if (is_plain()) return REAL(name)(__VA_ARGS__);                  \
    if ((op) != PFS_FILE_CLOSE) adopt(fd);                           \
    pfs_wait_t wait;                                                 \
    GUARDED(pfs_file_wait_begin_at(&wait, fd, op, requested, HERE)); \
    const type done = REAL(name)(__VA_ARGS__);                       \
    GUARDED(pfs_file_wait_end(&wait, bytes));                        \
    return done;                                                     \
  }
ON_FILE(ssize_t, read, (int fd, void* to, size_t size), PFS_FILE_READ, (int64_t)size, done, fd, to, size)
ON_FILE(ssize_t, write, (int fd, const void* from, size_t size), PFS_FILE_WRITE, (int64_t)size, done, fd, from, size)
ON_FILE(int, fsync, (int fd), PFS_FILE_SYNC, -1, -1, fd)
ON_FILE(int, close, (int fd), PFS_FILE_CLOSE, -1, -1, fd)
