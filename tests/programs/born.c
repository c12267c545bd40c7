/* Threads that are born and die, as fast as one thread can make them; each takes a lock.
 *   born THREADS
 * Prints how many there were, and the nanoseconds that each took. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long born;

static void* live(void* none) {
  pthread_mutex_lock(&lock);
  ++born;
  pthread_mutex_unlock(&lock);
  return none;
}

int main(int argc, char** argv) {
  const long threads = argc == 2 ? atol(argv[1]) : 1;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long i = 0; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%ld\n", born);
  fprintf(stderr, "%ld\n", ((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) / threads);
  return 0;
}
