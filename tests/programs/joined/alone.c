// A program of one thread, which says what its C library knows of that: 1, or 0 once it has made another thread.
//
//   look                  __libc_single_threaded
//   thread                makes a thread, and waits until it has ended
//   work MICROSECONDS     takes locks; how many picoseconds of the processor each took
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <time.h>

static void* End(void* unused) { return unused; }

static long Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

static long Work(long microseconds) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const long begin = Now();
  long times = 0;
  for (; Now() - begin < microseconds * 1000; times += 1000) {
    for (int i = 0; i < 1000; ++i) {
      pthread_mutex_lock(&lock);
      pthread_mutex_unlock(&lock);
    }
  }
  return (Now() - begin) * 1000 / times;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  char line[100];
  while (fgets(line, sizeof line, stdin) != NULL) {
    long answer = __libc_single_threaded;
    if (strncmp(line, "thread", 6) == 0) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, End, NULL) != 0 || pthread_join(thread, NULL) != 0) abort();
    } else if (strncmp(line, "work ", 5) == 0) {
      answer = Work(atol(line + 5));
    }
    printf("%ld\n", answer);
  }
  return 0;
}
