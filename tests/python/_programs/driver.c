/* The C API as a library of plain functions, for ctypes: see driver.py. */
#include <errno.h>
#include <perfschema/pfs.h>
#include <string.h>

#include "table_driver.c"

typedef int (*Register)(const char*, struct pfs_instrument_info*, int);

static uint32_t RegisterOne(Register call, const char* component, const char* name, uint32_t flags, const char* documentation, int* error) {
  pfs_key_t key = 12345;
  struct pfs_instrument_info info = {&key, name, flags, documentation};
  *error = call(component, &info, 1);
  return key;
}
uint32_t t_register_mutex(const char* c, const char* n, uint32_t f, const char* d, int* e) {
  return RegisterOne(pfs_register_mutex, c, n, f, d, e);
}
uint32_t t_register_file(const char* c, const char* n, uint32_t f, const char* d, int* e) {
  return RegisterOne(pfs_register_file, c, n, f, d, e);
}
uint32_t t_register_thread(const char* c, const char* n, uint32_t f, const char* d, int* e) {
  return RegisterOne(pfs_register_thread, c, n, f, d, e);
}

/* Three in one batch, the one in the middle with a name of the caller's. */
int t_register_batch(const char* component, const char* middle, uint32_t* keys) {
  pfs_mutex_info_t info[] = {{&keys[0], "LOCK_first", 0, NULL}, {&keys[1], middle, 0, NULL}, {&keys[2], "LOCK_last", 0, NULL}};
  return pfs_register_mutex(component, info, 3);
}

pfs_mutex_t* t_mutex_new(pfs_key_t key) {
  pfs_mutex_t* m = malloc(sizeof *m);
  return pfs_mutex_init(key, m, NULL) == 0 ? m : NULL;
}
int t_mutex_free(pfs_mutex_t* m) {
  int rc = pfs_mutex_destroy(m);
  if (rc == 0) free(m);
  return rc;
}
int t_mutex_lock(pfs_mutex_t* m) { return pfs_mutex_lock(m); }
int t_mutex_trylock(pfs_mutex_t* m) { return pfs_mutex_trylock(m); }
int t_mutex_unlock(pfs_mutex_t* m) { return pfs_mutex_unlock(m); }

pfs_mutex_t* t_mutex_new_of(pfs_key_t key, int type, int robust) {
  pfs_mutex_t* m = malloc(sizeof *m);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  return pfs_mutex_init(key, m, &attributes) == 0 ? m : NULL;
}
static struct timespec In(clockid_t clock, long nanoseconds) {
  struct timespec until;
  clock_gettime(clock, &until);
  until.tv_sec += nanoseconds / 1000000000;
  until.tv_nsec += nanoseconds % 1000000000;
  if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
  if (until.tv_nsec < 0) --until.tv_sec, until.tv_nsec += 1000000000;
  return until;
}
int t_mutex_timedlock(pfs_mutex_t* m, long nanoseconds) {
  const struct timespec until = In(CLOCK_REALTIME, nanoseconds);
  return pfs_mutex_timedlock(m, &until);
}
int t_mutex_consistent(pfs_mutex_t* m) { return pthread_mutex_consistent(&m->mutex); }

/* So many times: the mutex, which guards a counter, and a read lock. Each must have been had. */
static long hammered;
long t_hammered(void) { return hammered; }
int t_hammer(pfs_mutex_t* m, pfs_rwlock_t* rw, int times) {
  int i, done = 0;
  for (i = 0; i < times; ++i) {
    if (pfs_mutex_lock(m) != 0) continue;
    ++hammered;
    if (pfs_mutex_unlock(m) != 0 || pfs_rwlock_rdlock(rw) != 0 || pfs_rwlock_unlock(rw) != 0) continue;
    ++done;
  }
  return done;
}

pfs_instance_t* t_own_new(pfs_key_t key, void* identity) { return pfs_mutex_create(key, identity); }
void t_own_free(pfs_instance_t* instance) { pfs_mutex_discard(instance); }
pfs_wait_t* t_own_begin(pfs_instance_t* instance, int op) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_mutex_wait_begin(wait, instance, (enum pfs_lock_op)op);
  return wait;
}
void t_own_end(pfs_wait_t* wait, int rc, uint32_t spins) {
  pfs_mutex_wait_end(wait, rc, spins);
  free(wait);
}
void t_own_released(pfs_instance_t* instance) { pfs_mutex_released(instance); }

uint32_t t_register_rwlock(const char* c, const char* n, uint32_t f, const char* d, int* e) {
  return RegisterOne(pfs_register_rwlock, c, n, f, d, e);
}
uint32_t t_register_cond(const char* c, const char* n, uint32_t f, const char* d, int* e) {
  return RegisterOne(pfs_register_cond, c, n, f, d, e);
}

pfs_rwlock_t* t_rwlock_new(pfs_key_t key) {
  pfs_rwlock_t* rw = malloc(sizeof *rw);
  return pfs_rwlock_init(key, rw, NULL) == 0 ? rw : NULL;
}
int t_rwlock_free(pfs_rwlock_t* rw) {
  int rc = pfs_rwlock_destroy(rw);
  if (rc == 0) free(rw);
  return rc;
}
int t_rwlock_read_lock(pfs_rwlock_t* rw) { return pfs_rwlock_rdlock(rw); }
int t_rwlock_write_lock(pfs_rwlock_t* rw) { return pfs_rwlock_wrlock(rw); }
int t_rwlock_try_read_lock(pfs_rwlock_t* rw) { return pfs_rwlock_tryrdlock(rw); }
int t_rwlock_try_write_lock(pfs_rwlock_t* rw) { return pfs_rwlock_trywrlock(rw); }
int t_rwlock_timed_write_lock(pfs_rwlock_t* rw, long nanoseconds) {
  const struct timespec until = In(CLOCK_REALTIME, nanoseconds);
  return pfs_rwlock_timedwrlock(rw, &until);
}
int t_rwlock_unlock(pfs_rwlock_t* rw) { return pfs_rwlock_unlock(rw); }

pfs_cond_t* t_cond_new(pfs_key_t key) {
  pfs_cond_t* c = malloc(sizeof *c);
  return pfs_cond_init(key, c, NULL) == 0 ? c : NULL;
}
int t_cond_free(pfs_cond_t* c) {
  int rc = pfs_cond_destroy(c);
  if (rc == 0) free(c);
  return rc;
}
/* A wait that is over before it begins. */
int t_cond_late(pfs_cond_t* c) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const struct timespec past = {1, 0};
  pthread_mutex_lock(&mutex);
  int rc = pfs_cond_timedwait_plain(c, &mutex, &past);
  pthread_mutex_unlock(&mutex);
  return rc;
}
int t_cond_signal(pfs_cond_t* c) { return pfs_cond_broadcast(c) | pfs_cond_signal(c); }
/* With a mutex that is held. nanoseconds < 0: for ever. */
int t_cond_wait(pfs_cond_t* c, pfs_mutex_t* m, long nanoseconds) {
  if (nanoseconds < 0) return pfs_cond_wait(c, m);
  const struct timespec until = In(CLOCK_MONOTONIC, nanoseconds);
  return pfs_cond_clockwait(c, m, CLOCK_MONOTONIC, &until);
}

/* A thread is cancelled in a wait. seen: whether it has the mutex in its cleanup handler, and who the table says has it; its own THREAD_ID.
 */
static struct {
  pfs_cond_t* c;
  pfs_mutex_t* m;
  uint64_t thread_id, owner;
  int trylock;
} cancelled;
static void t_cleanup(void* unused) {
  (void)unused;
  cancelled.owner = cancelled.m->instance->owner;
  cancelled.trylock = pthread_mutex_trylock(&cancelled.m->mutex);
  pfs_mutex_unlock(cancelled.m);
}
static void* t_wait_for_ever(void* unused) {
  pfs_mutex_lock(cancelled.m);
  pthread_cleanup_push(t_cleanup, NULL);
  __atomic_store_n(&cancelled.thread_id, pfs_thread_id(), __ATOMIC_RELEASE);
  for (;;) pfs_cond_wait(cancelled.c, cancelled.m);
  pthread_cleanup_pop(0);
  return unused;
}
int t_cond_cancel(pfs_cond_t* c, pfs_mutex_t* m, uint64_t* seen) {
  pthread_t thread;
  cancelled.c = c, cancelled.m = m, cancelled.thread_id = 0;
  pthread_create(&thread, NULL, t_wait_for_ever, NULL);
  while (__atomic_load_n(&cancelled.thread_id, __ATOMIC_ACQUIRE) == 0) usleep(100);
  pthread_mutex_lock(&m->mutex); /* free: it waits */
  pthread_mutex_unlock(&m->mutex);
  pthread_cancel(thread);
  pthread_join(thread, NULL);
  seen[0] = (uint64_t)cancelled.trylock, seen[1] = cancelled.owner, seen[2] = cancelled.thread_id;
  return 0;
}

pfs_instance_t* t_ownrw_new(pfs_key_t key, void* identity) { return pfs_rwlock_create(key, identity); }
void t_ownrw_free(pfs_instance_t* instance) { pfs_rwlock_discard(instance); }
pfs_wait_t* t_ownrw_begin(pfs_instance_t* instance, int op) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_rwlock_wait_begin(wait, instance, (enum pfs_rwlock_op)op);
  return wait;
}
void t_ownrw_end(pfs_wait_t* wait, int rc, uint32_t spins) {
  pfs_rwlock_wait_end(wait, rc, spins);
  free(wait);
}
void t_ownrw_released(pfs_instance_t* instance, int op) { pfs_rwlock_released(instance, (enum pfs_rwlock_op)op); }

pfs_instance_t* t_owncond_new(pfs_key_t key, void* identity) { return pfs_cond_create(key, identity); }
void t_owncond_free(pfs_instance_t* instance) { pfs_cond_discard(instance); }
pfs_wait_t* t_owncond_begin(pfs_instance_t* instance, int op) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_cond_wait_begin(wait, instance, (enum pfs_cond_op)op);
  return wait;
}
void t_owncond_end(pfs_wait_t* wait, int rc) {
  pfs_cond_wait_end(wait, rc);
  free(wait);
}

int t_open(pfs_key_t key, const char* path, int flags, int mode) { return pfs_open(key, path, flags, mode); }
int t_creat(pfs_key_t key, const char* path, int mode) { return pfs_creat(key, path, (mode_t)mode); }
int t_mkstemp(pfs_key_t key, char* pattern) { return pfs_mkstemp(key, pattern); }
int t_close(int fd) { return pfs_close(fd); }
long t_read(int fd, size_t size) {
  char buffer[65536];
  return pfs_read(fd, buffer, size);
}
long t_pread(int fd, size_t size, long offset) {
  char buffer[65536];
  return pfs_pread(fd, buffer, size, offset);
}
long t_write(int fd, size_t size) {
  static const char buffer[65536];
  return pfs_write(fd, buffer, size);
}
long t_lseek(int fd, long offset, int whence) { return pfs_lseek(fd, offset, whence); }
long t_tell(int fd) { return pfs_tell(fd); }
int t_fstat(int fd) {
  struct stat result;
  return pfs_fstat(fd, &result);
}
int t_stat(pfs_key_t key, const char* path) {
  struct stat result;
  return pfs_stat(key, path, &result);
}
int t_fsync(int fd) { return pfs_fsync(fd); }
int t_ftruncate(int fd, long length) { return pfs_ftruncate(fd, length); }
int t_rename(pfs_key_t key, const char* from, const char* to) { return pfs_rename(key, from, to); }
int t_unlink(pfs_key_t key, const char* path) { return pfs_unlink(key, path); }
int t_mkdir(pfs_key_t key, const char* path) { return pfs_mkdir(key, path, 0700); }
int t_rmdir(pfs_key_t key, const char* path) { return pfs_rmdir(key, path); }

/* A wait of so long on nobody's lock, and a few of them one after the other. */
void t_own_pause(pfs_instance_t* instance, long nanoseconds) {
  struct timespec pause = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  pfs_wait_t wait;
  pfs_mutex_wait_begin(&wait, instance, PFS_LOCK);
  while (nanosleep(&pause, &pause) != 0 && errno == EINTR) continue;
  pfs_mutex_wait_end(&wait, 0, PFS_NO_SPINS);
  pfs_mutex_released(instance);
}

#line 1 "/a/very/long/folder/name/that/is/no/part/of/what/is/shown/a_file_name_of_just_about_seventy_bytes_which_is_more_than_SOURCE_can_show.c"
int t_lock_far_away(pfs_mutex_t* m) { return pfs_mutex_lock(m); }
