/* Every call on read-write locks and conditions, with its result: good ones, bad ones, one cancelled. Prints the same
 * with -DPFS_DISABLE, with pfs off, and with no capacity for its objects. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <string.h>

static pfs_key_t key_rw, key_pr, key_cond, key_mutex;
static pfs_rwlock_info_t rwlocks[] = {{&key_rw, "rw", 0, "Plain."}, {&key_pr, "pr", PFS_RWLOCK_PR, "Prefers writers."}};
static pfs_cond_info_t conds[] = {{&key_cond, "cond", 0, "Of this program."}};
static pfs_mutex_info_t mutexes[] = {{&key_mutex, "LOCK_cond", 0, NULL}};

static pfs_rwlock_t rw, still = PFS_RWLOCK_INITIALIZER;
static pfs_cond_t c, still_cond = PFS_COND_INITIALIZER;
static pfs_mutex_t m;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static int woken, in_cleanup;

static const char* named(int rc) {
  static char number[16];
  switch (rc) {
    case 0:
      return "0";
    case EBUSY:
      return "EBUSY";
    case EDEADLK:
      return "EDEADLK";
    case ETIMEDOUT:
      return "ETIMEDOUT";
    case EINVAL:
      return "EINVAL";
    case EPERM:
      return "EPERM";
    default:
      snprintf(number, sizeof number, "%d", rc);
      return number;
  }
}
/* errno must be unchanged. */
#define SAY(call)                                                               \
  do {                                                                          \
    errno = 77;                                                                 \
    const char* result = named(call);                                           \
    printf("%-60s %s%s\n", #call, result, errno == 77 ? "" : " errno changed"); \
  } while (0)

static struct timespec in(clockid_t clock, long milliseconds) {
  struct timespec now;
  clock_gettime(clock, &now);
  now.tv_nsec += milliseconds % 1000 * 1000000;
  now.tv_sec += milliseconds / 1000 + now.tv_nsec / 1000000000;
  now.tv_nsec %= 1000000000;
  return now;
}

static void* from_another_thread(void* lock) {
  pfs_rwlock_t* held = lock;
  struct timespec soon = in(CLOCK_REALTIME, 2), soon_monotonic = in(CLOCK_MONOTONIC, 2), past = {1, 0}, bad = {1, 2000000000};
  SAY(pfs_rwlock_tryrdlock(held) == 0 ? pfs_rwlock_unlock(held) : EBUSY);
  SAY(pfs_rwlock_trywrlock(held));
  SAY(pfs_rwlock_timedwrlock(held, &soon));
  SAY(pfs_rwlock_timedwrlock(held, &past));
  SAY(pfs_rwlock_clockwrlock(held, CLOCK_MONOTONIC, &soon_monotonic));
  SAY(pfs_rwlock_timedwrlock(held, &bad));
  SAY(pfs_rwlock_clockwrlock(held, CLOCK_PROCESS_CPUTIME_ID, &soon));
  return NULL;
}
static void* readers(void* lock) {
  pfs_rwlock_t* held = lock;
  struct timespec soon = in(CLOCK_REALTIME, 2), soon_monotonic = in(CLOCK_MONOTONIC, 2);
  SAY(pfs_rwlock_timedrdlock(held, &soon));
  SAY(pfs_rwlock_clockrdlock(held, CLOCK_MONOTONIC, &soon_monotonic));
  SAY(pfs_rwlock_clockrdlock(held, CLOCK_REALTIME, &(struct timespec){1, 0}));
  return NULL;
}
static void elsewhere(void* (*function)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, argument);
  pthread_join(thread, NULL);
}

static void all_of_rwlock(pfs_rwlock_t* lock) {
  struct timespec later = in(CLOCK_REALTIME, 3600000), later_monotonic = in(CLOCK_MONOTONIC, 3600000), bad = {1l << 40, 1000000000};
  /* The lock is free, and stays so. */
  SAY(pfs_rwlock_timedrdlock(lock, &bad));
  SAY(pfs_rwlock_timedwrlock(lock, &bad));
  SAY(pfs_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &bad));
  SAY(pfs_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &bad));
  SAY(pfs_rwlock_clockrdlock(lock, CLOCK_PROCESS_CPUTIME_ID, &later));
  SAY(pfs_rwlock_clockwrlock(lock, CLOCK_PROCESS_CPUTIME_ID, &later));
  SAY(pfs_rwlock_rdlock(lock));
  SAY(pfs_rwlock_rdlock(lock));
  SAY(pfs_rwlock_trywrlock(lock));
  elsewhere(from_another_thread, lock);
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_wrlock(lock));
  SAY(pfs_rwlock_wrlock(lock));
  SAY(pfs_rwlock_rdlock(lock));
  SAY(pfs_rwlock_tryrdlock(lock));
  SAY(pfs_rwlock_timedrdlock(lock, &later));
  SAY(pfs_rwlock_timedwrlock(lock, &later));
  elsewhere(from_another_thread, lock);
  elsewhere(readers, lock);
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_tryrdlock(lock));
  SAY(pfs_rwlock_timedrdlock(lock, &later));
  SAY(pfs_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &later_monotonic));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_trywrlock(lock));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_timedwrlock(lock, &later));
  SAY(pfs_rwlock_unlock(lock));
  SAY(pfs_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &later_monotonic));
  SAY(pfs_rwlock_unlock(lock));
}

static void* waker(void* with_plain) {
  if (with_plain != NULL)
    pthread_mutex_lock(&plain);
  else
    pfs_mutex_lock(&m);
  woken = 1;
  pfs_cond_broadcast(&c);
  if (with_plain != NULL)
    pthread_mutex_unlock(&plain);
  else
    pfs_mutex_unlock(&m);
  return NULL;
}

static void all_of_cond(void) {
  struct timespec past = {1, 0}, soon = in(CLOCK_REALTIME, 2), soon_monotonic = in(CLOCK_MONOTONIC, 2), bad = {1, -1}, later;
  pthread_t thread;
  SAY(pfs_mutex_lock(&m));
  SAY(pfs_cond_timedwait(&c, &m, &past));
  SAY(pfs_cond_timedwait(&c, &m, &soon));
  SAY(pfs_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon_monotonic));
  SAY(pfs_cond_clockwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &soon));
  SAY(pfs_cond_timedwait(&c, &m, &bad));
  SAY(pfs_cond_timedwait(&still_cond, &m, &past));
  SAY(pfs_mutex_trylock(&m));
  woken = 0;
  pthread_create(&thread, NULL, waker, NULL);
  while (!woken)
    if (pfs_cond_wait(&c, &m) != 0) puts("wait failed");
  pthread_join(thread, NULL);
  woken = 0;
  pthread_create(&thread, NULL, waker, NULL);
  later = in(CLOCK_REALTIME, 3600000);
  while (!woken)
    if (pfs_cond_timedwait(&c, &m, &later) != 0) puts("wait failed");
  pthread_join(thread, NULL);
  SAY(pfs_mutex_unlock(&m));
  SAY(pfs_cond_timedwait(&c, &m, &past));
  SAY(pfs_cond_wait(&c, &m));
  pthread_mutex_lock(&plain);
  SAY(pfs_cond_timedwait_plain(&c, &plain, &past));
  SAY(pfs_cond_clockwait_plain(&c, &plain, CLOCK_MONOTONIC, &past));
  woken = 0;
  pthread_create(&thread, NULL, waker, &plain);
  while (!woken)
    if (pfs_cond_wait_plain(&c, &plain) != 0) puts("wait failed");
  pthread_mutex_unlock(&plain);
  pthread_join(thread, NULL);
  SAY(pfs_cond_signal(&c));
  SAY(pfs_cond_broadcast(&still_cond));
}

/* A thread that is cancelled in a wait has the mutex when its cleanup handlers run, and they may use pfs. */
static void clean_up(void* unused) {
  (void)unused;
  ++in_cleanup;
  SAY(pfs_mutex_trylock(&m));
  SAY(pfs_rwlock_tryrdlock(&rw));
  SAY(pfs_rwlock_unlock(&rw));
  SAY(pfs_mutex_unlock(&m));
}
static void* wait_for_nothing(void* timed) {
  struct timespec later = in(CLOCK_REALTIME, 3600000);
  pfs_mutex_lock(&m);
  pthread_cleanup_push(clean_up, NULL);
  woken = 1;
  while (timed == NULL) pfs_cond_wait(&c, &m);
  while (timed != NULL) pfs_cond_timedwait(&c, &m, &later);
  pthread_cleanup_pop(0);
  return NULL;
}
static void cancel(int when, void* timed) {
  pthread_t thread;
  void* result;
  pfs_mutex_lock(&m);
  woken = 0;
  pfs_mutex_unlock(&m);
  pthread_create(&thread, NULL, wait_for_nothing, timed);
  for (int there = 0; when == 1 && !there;) { /* it waits: the mutex is free, and the thread has held it */
    pfs_mutex_lock(&m);
    there = woken;
    pfs_mutex_unlock(&m);
  }
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

/* A wait of the program for anything: never NULL-checked, and nested in itself. */
static void own_wait(void) {
  static pfs_key_t key_wait;
  static pfs_cond_info_t waits[] = {{&key_wait, "device", 0, ""}};
  pfs_instance_t* point;
  pfs_wait_t outer, inner;
  printf("register wait %d\n", pfs_register_wait("sync", waits, 1));
  point = pfs_wait_create(key_wait, &key_wait);
  pfs_cond_wait_begin(&outer, point, PFS_WAIT);
  pfs_cond_wait_begin(&inner, point, PFS_WAIT);
  pfs_cond_wait_end(&inner, 0);
  pfs_cond_wait_end(&outer, 0);
  pfs_cond_wait_end(&outer, 0); /* a second end does nothing */
  pfs_cond_discard(point);
  pfs_cond_discard(pfs_wait_create(0, NULL));
  puts("own wait");
}

int main(void) {
  pthread_mutexattr_t checks;
  pthread_rwlockattr_t writers_first;
  printf("register %d %d %d\n", pfs_register_rwlock("sync", rwlocks, 2), pfs_register_cond("sync", conds, 1),
         pfs_register_mutex("sync", mutexes, 1));
  own_wait();
  pthread_mutexattr_init(&checks);
  pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK);
  pthread_rwlockattr_init(&writers_first);
  pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  SAY(pfs_mutex_init(key_mutex, &m, &checks));
  SAY(pfs_rwlock_init(key_rw, &rw, NULL));
  SAY(pfs_cond_init(key_cond, &c, NULL));
  all_of_rwlock(&rw);
  all_of_rwlock(&still);
  all_of_cond();
  cancel(0, NULL);
  cancel(1, NULL);
  cancel(1, &m);
  printf("cleanups %d\n", in_cleanup);
  SAY(pfs_rwlock_destroy(&rw));
  SAY(pfs_rwlock_init(key_pr, &rw, &writers_first));
  SAY(pfs_rwlock_rdlock(&rw));
  SAY(pfs_rwlock_unlock(&rw));
  SAY(pfs_rwlock_wrlock(&rw));
  SAY(pfs_rwlock_unlock(&rw));
  SAY(pfs_rwlock_destroy(&rw));
  SAY(pfs_rwlock_destroy(&still));
  SAY(pfs_cond_destroy(&c));
  SAY(pfs_cond_destroy(&still_cond));
  SAY(pfs_mutex_destroy(&m));
  return 0;
}
