/* Times an uncontended lock and unlock: lab/run_price.py runs it plain and under libperfschema-run.so.
 *
 *     run_locks [MILLISECONDS of each measurement]
 *
 * Prints nanoseconds of a pair, the fastest of several runs: one mutex, the same between two readings of the cycle counter, 16,384
 * adjacent mutexes in random order, a read-write lock, and mutexes that are made, locked once and gone: without calls to make and destroy
 * them, as std::mutex, and with them. It knows nothing of pfs.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpp/timer.h"

enum { kScattered = 16384, kDraws = 65536, kRuns = 7 };

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t* many;
static uint16_t order[kDraws];
static volatile uint64_t ticks;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void lock_one(int i) {
  (void)i;
  pthread_mutex_lock(&one);
  pthread_mutex_unlock(&one);
}

static void lock_timed(int i) {
  (void)i;
  const uint64_t begin = read_timer();
  pthread_mutex_lock(&one);
  ticks += read_timer() - begin;
  pthread_mutex_unlock(&one);
}

static void read_table(int i) {
  (void)i;
  pthread_rwlock_rdlock(&table);
  pthread_rwlock_unlock(&table);
}

static void lock_many(int i) {
  pthread_mutex_t* m = &many[order[i % kDraws]];
  pthread_mutex_lock(m);
  pthread_mutex_unlock(m);
}

static void lock_new(int i) {
  pthread_mutex_t* m = &many[i % 16];
  memset(m, 0, sizeof *m);
  pthread_mutex_lock(m);
  pthread_mutex_unlock(m);
}

static void make_and_destroy(int i) {
  pthread_mutex_t* m = &many[i % 16];
  pthread_mutex_init(m, NULL);
  pthread_mutex_lock(m);
  pthread_mutex_unlock(m);
  pthread_mutex_destroy(m);
}

/* Returns nanoseconds of a call, the fastest of several runs. */
static inline __attribute__((always_inline)) double measure(void (*call)(int), double wanted) {
  double fastest = 1e9;
  int calls = kDraws;
  for (int run = -1; run < kRuns; ++run) {
    const double begin = now();
    for (int i = 0; i < calls; ++i) call(i);
    const double took = now() - begin;
    if (run < 0)
      calls = took < wanted ? (int)(kDraws * wanted / took) : kDraws; /* the first one warms up */
    else if (took / calls < fastest)
      fastest = took / calls;
  }
  return fastest;
}

int main(int argc, char** argv) {
  const double wanted = (argc > 1 ? atof(argv[1]) : 20) * 1e6;
  many = malloc(kScattered * sizeof *many);
  srand(1);
  for (int i = 0; i < kScattered; ++i) pthread_mutex_init(&many[i], NULL);
  for (int i = 0; i < kDraws; ++i) order[i] = (uint16_t)(rand() % kScattered);
  printf("{\"one\": %.3f, ", measure(lock_one, wanted));
  printf("\"timed\": %.3f, ", measure(lock_timed, wanted));
  printf("\"scattered\": %.3f, ", measure(lock_many, wanted));
  printf("\"rwlock\": %.3f, ", measure(read_table, wanted));
  printf("\"new\": %.3f, ", measure(lock_new, wanted));
  printf("\"made\": %.3f}\n", measure(make_and_destroy, wanted));
  return 0;
}
