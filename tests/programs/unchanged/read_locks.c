/* Takes the same read locks again and again, as OpenSSL does. It prints what it has done and knows nothing of pfs.
 *
 *     read_locks lives N     three locks at one address take N, 2 N and 3 N reads; the first is never destroyed
 *     read_locks many N      lock i of 40 takes N + i reads in turns, and keeps i % 3 of them
 *     read_locks handled N   a signal handler takes read locks, too, until the program has taken N. Prints the reads of each lock
 *     read_locks steps N     takes N reads and N unlocks for each line of standard input, and answers each with a line
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { kLocks = 40 };
static pthread_rwlock_t locks[kLocks];

static void read_often(pthread_rwlock_t* lock, int times) {
  for (int i = 0; i < times; ++i) {
    assert(pthread_rwlock_rdlock(lock) == 0);
    assert(pthread_rwlock_unlock(lock) == 0);
  }
}

#define LIFE __attribute__((noinline)) static void
LIFE first_life(pthread_rwlock_t* lock, int times) {
  for (int i = 0; i < times; ++i) {
    assert(pthread_rwlock_rdlock(lock) == 0);
    assert(pthread_rwlock_unlock(lock) == 0);
  }
}
LIFE second_life(pthread_rwlock_t* lock, int times) {
  for (int i = 0; i < times; ++i) {
    assert(pthread_rwlock_rdlock(lock) == 0);
    assert(pthread_rwlock_unlock(lock) == 0);
  }
}
LIFE third_life(pthread_rwlock_t* lock, int times) {
  assert(pthread_rwlock_destroy(lock) == 0);
  assert(pthread_rwlock_init(lock, NULL) == 0);
  read_often(lock, times);
}

static void lives(int times) {
  const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
  pthread_rwlock_t* const lock = malloc(sizeof *lock);
  memcpy(lock, &fresh, sizeof fresh);
  first_life(lock, times);
  memcpy(lock, &fresh, sizeof fresh);
  second_life(lock, 2 * times);
  third_life(lock, 3 * times);
}

static void many(int times) {
  for (int turn = 0; turn < times; ++turn) {
    for (int i = 0; i < kLocks; ++i) read_often(&locks[i], 1);
  }
  for (int i = 0; i < kLocks; ++i) {
    for (int kept = 0; kept < i % 3; ++kept) assert(pthread_rwlock_rdlock(&locks[i]) == 0);
    read_often(&locks[i], i - i % 3);
  }
}

static volatile long reads_of[kLocks], handler_calls;

static void handle(int number) {
  (void)number;
  const int i = (int)(handler_calls++ % kLocks);
  /* pthread_rwlock_rdlock() of a lock that this thread is just taking does not wait: nobody writes. */
  if (pthread_rwlock_rdlock(&locks[i]) != 0) return;
  ++reads_of[i];
  pthread_rwlock_unlock(&locks[i]);
}

static void handled(int times) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  const struct itimerval often = {{0, 60}, {0, 60}}, never = {{0, 0}, {0, 0}};
  long own[kLocks] = {0};
  read_often(&locks[0], 1);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < times; ++i) {
    read_often(&locks[i % 3], 1);
    ++own[i % 3];
  }
  setitimer(ITIMER_REAL, &never, NULL);
  ++own[0];
  for (int i = 0; i < kLocks; ++i) printf("%ld %ld\n", own[i], reads_of[i]);
}

static void steps(int times) {
  char line[80];
  read_often(&locks[0], times);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    read_often(&locks[0], times);
    fputs(line, stdout);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  assert(argc == 3);
  const int times = atoi(argv[2]);
  for (int i = 0; i < kLocks; ++i) assert(pthread_rwlock_init(&locks[i], NULL) == 0);
  switch (argv[1][0]) {
    case 'l':
      lives(times);
      break;
    case 'm':
      many(times);
      break;
    case 'h':
      handled(times);
      break;
    default:
      steps(times);
  }
  return 0;
}
