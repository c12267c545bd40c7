/* C11's threads, mutexes, conditions and once; named semaphores; names of threads; waits for a futex by syscall(). With known numbers. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 3, kRounds = 50 };

mtx_t lock;
cnd_t turned;
once_flag once = ONCE_FLAG_INIT;
pthread_once_t other_once = PTHREAD_ONCE_INIT;
static int turn, once_runs, number;
static sem_t* named;

static void initialize(void) {
  const struct timespec long_enough = {0, 30000000};
  thrd_sleep(&long_enough, NULL); /* the other threads come meanwhile, and wait */
  ++once_runs;
}

int worker(void* mine) {
  const int self = (int)(long)mine;
  char name[16];
  snprintf(name, sizeof name, "worker-%d", self);
  assert(prctl(PR_SET_NAME, name, 0, 0, 0) == 0);
  call_once(&once, initialize);
  pthread_once(&other_once, initialize);
  for (int i = 0; i < kRounds; ++i) {
    assert(mtx_lock(&lock) == thrd_success);
    while (turn != self) assert(cnd_wait(&turned, &lock) == thrd_success);
    turn = (turn + 1) % kThreads;
    ++number;
    assert(cnd_broadcast(&turned) == thrd_success);
    assert(mtx_unlock(&lock) == thrd_success);
  }
  sem_wait(named);
  return -self;
}

int main(void) {
  char name[64];
  snprintf(name, sizeof name, "/pfs-test-%d", (int)getpid());
  named = sem_open(name, O_CREAT | O_EXCL, 0600, kThreads);
  assert(named != SEM_FAILED && sem_unlink(name) == 0);
  assert(mtx_init(&lock, mtx_timed) == thrd_success && cnd_init(&turned) == thrd_success);
  thrd_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) assert(thrd_create(&threads[i], worker, (void*)i) == thrd_success);
  for (int i = 0; i < kThreads; ++i) {
    int result = 1;
    assert(thrd_join(threads[i], &result) == thrd_success && result == -i);
  }
  assert(number == kThreads * kRounds && once_runs == 2);

  const struct timespec past = {1, 0};
  assert(mtx_trylock(&lock) == thrd_success);
  assert(mtx_trylock(&lock) == thrd_busy);
  assert(mtx_timedlock(&lock, &past) == thrd_timedout);
  assert(cnd_timedwait(&turned, &lock, &past) == thrd_timedout);
  assert(mtx_unlock(&lock) == thrd_success);
  cnd_destroy(&turned);
  mtx_destroy(&lock);
  assert(sem_trywait(named) == -1 && errno == EAGAIN);
  sem_close(named);

  static int word = 1;
  const struct timespec briefly = {0, 1000000};
  for (int i = 0; i < 5; ++i) {
    assert(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &briefly, NULL, 0) == -1 && errno == ETIMEDOUT);
  }
  assert(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0) == -1 && errno == EAGAIN);
  assert(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
  puts("done");
  return 0;
}
