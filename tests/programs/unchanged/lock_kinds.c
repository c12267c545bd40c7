/* Mutexes of each kind do what POSIX says, and are locked 10 times each. A read-write lock and a condition live twice at one address. glibc
 * shares robust mutexes between processes, so pfs does not record them. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRounds = 10 };

pthread_mutex_t normal, recursive, checking, adaptive, robust, inheriting;
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
pthread_mutex_t* shared;

static void make(pthread_mutex_t* m, int type, int is_robust, int protocol, int is_shared) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  assert(pthread_mutexattr_settype(&attributes, type) == 0);
  if (is_robust) assert(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
  assert(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
  if (is_shared) assert(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  assert(pthread_mutex_init(m, &attributes) == 0);
}

static void use(pthread_mutex_t* m) {
  for (int i = 0; i < kRounds; ++i) {
    assert(pthread_mutex_lock(m) == 0);
    assert(pthread_mutex_unlock(m) == 0);
  }
}

static void* lock_and_end(void* m) {
  assert(pthread_mutex_lock(m) == 0);
  return NULL;
}

/* Waits once, or not at all. */
#define WAIT_BRIEFLY(c, nanoseconds, result)                         \
  do {                                                               \
    struct timespec past = {1, nanoseconds};                         \
    assert(pthread_mutex_lock(&adaptive) == 0);                      \
    assert(pthread_cond_timedwait(c, &adaptive, &past) == (result)); \
    assert(pthread_mutex_unlock(&adaptive) == 0);                    \
  } while (0)

static void first_life(pthread_cond_t* c) { WAIT_BRIEFLY(c, 0, ETIMEDOUT); }
static void second_life(pthread_cond_t* c) {
  WAIT_BRIEFLY(c, 0, ETIMEDOUT);
  WAIT_BRIEFLY(c, -1, EINVAL);
  WAIT_BRIEFLY(c, 0, ETIMEDOUT);
}

/* Arguments that glibc looks at before the lock: the call says so, and takes nothing. */
static void refuse(pthread_mutex_t* m, pthread_rwlock_t* rw) {
  const struct timespec late = {1l << 40, 0}, wrong[] = {{1l << 40, -1}, {1l << 40, 1000000000}};
  assert(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
  assert(pthread_rwlock_clockrdlock(rw, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
  assert(pthread_rwlock_clockwrlock(rw, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
  for (int i = 0; i < 2; ++i) {
    assert(pthread_rwlock_timedrdlock(rw, &wrong[i]) == EINVAL);
    assert(pthread_rwlock_timedwrlock(rw, &wrong[i]) == EINVAL);
    assert(pthread_rwlock_clockrdlock(rw, CLOCK_MONOTONIC, &wrong[i]) == EINVAL);
    assert(pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &wrong[i]) == EINVAL);
  }
}

int main(void) {
  make(&normal, PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_NONE, 0);
  make(&recursive, PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_PRIO_NONE, 0);
  make(&checking, PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_NONE, 0);
  make(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP, 0, PTHREAD_PRIO_NONE, 0);
  make(&robust, PTHREAD_MUTEX_NORMAL, 1, PTHREAD_PRIO_NONE, 0);
  make(&inheriting, PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT, 0);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  make(shared, PTHREAD_MUTEX_NORMAL, 1, PTHREAD_PRIO_NONE, 1);
  use(&normal);
  use(&inheriting);
  refuse(&normal, &table);

  for (int i = 0; i < kRounds / 2; ++i) {
    assert(pthread_mutex_lock(&recursive) == 0);
    assert(pthread_mutex_lock(&recursive) == 0);
    assert(pthread_mutex_unlock(&recursive) == 0);
    assert(pthread_mutex_unlock(&recursive) == 0);
  }
  assert(pthread_mutex_unlock(&recursive) == EPERM);

  use(&checking);
  assert(pthread_mutex_unlock(&checking) == EPERM);
  assert(pthread_mutex_lock(&checking) == 0);
  assert(pthread_mutex_lock(&checking) == EDEADLK);
  assert(pthread_mutex_trylock(&checking) == EBUSY);
  assert(pthread_mutex_unlock(&checking) == 0);

  pthread_t thread;
  for (int i = 0; i < kRounds / 2; ++i) {
    assert(pthread_create(&thread, NULL, lock_and_end, &robust) == 0);
    assert(pthread_join(thread, NULL) == 0);
    assert(pthread_mutex_lock(&robust) == EOWNERDEAD);
    assert(pthread_mutex_consistent(&robust) == 0);
    assert(pthread_mutex_unlock(&robust) == 0);
  }

  /* Another process dies as the owner. */
  if (fork() == 0) {
    assert(pthread_mutex_lock(shared) == 0);
    _exit(0);
  }
  wait(NULL);
  assert(pthread_mutex_lock(shared) == EOWNERDEAD);
  assert(pthread_mutex_consistent(shared) == 0);
  assert(pthread_mutex_unlock(shared) == 0);
  use(shared);

  for (int life = 0; life < 2; ++life) {
    for (int i = 0; i < kRounds; ++i) {
      assert(pthread_rwlock_rdlock(&table) == 0);
      assert(pthread_rwlock_tryrdlock(&table) == 0);
      assert(pthread_rwlock_trywrlock(&table) == EBUSY);
      assert(pthread_rwlock_unlock(&table) == 0);
      assert(pthread_rwlock_unlock(&table) == 0);
      assert(pthread_rwlock_wrlock(&table) == 0);
      assert(pthread_rwlock_unlock(&table) == 0);
    }
    memset(&table, 0, sizeof table); /* as PTHREAD_RWLOCK_INITIALIZER */
  }
  pthread_cond_t* condition = calloc(1, sizeof *condition); /* as PTHREAD_COND_INITIALIZER */
  first_life(condition);
  memset(condition, 0, sizeof *condition);
  second_life(condition);
  for (int i = 0; i < kRounds - 4; ++i) {
    assert(pthread_mutex_lock(&adaptive) == 0);
    assert(pthread_mutex_unlock(&adaptive) == 0);
  }
  assert(pthread_mutex_destroy(&normal) == 0);
  assert(pthread_mutex_destroy(&recursive) == 0);
  puts("as POSIX says");
  return 0;
}
