// Says when it begins, before pfs is there, and when it ends, after pfs: WORD NANOSECONDS. With -DLIBRARY it is the library that does that,
// else the program. With an argument the program runs itself again, without it.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void say(const char* word) {
  char text[64];
  snprintf(text, sizeof text, "%s %ld\n", word, now(CLOCK_MONOTONIC));
  if (write(1, text, strlen(text)) < 0) _exit(1);
}
__attribute__((unused)) static void compute(void) {
  const long end = now(CLOCK_THREAD_CPUTIME_ID) + 100000000;
  while (now(CLOCK_THREAD_CPUTIME_ID) < end) continue;
}

#ifdef LIBRARY
__attribute__((constructor)) static void begin(void) {
  say("begin");
  compute();
  usleep(100000);
}
__attribute__((destructor)) static void end(void) {
  usleep(100000);
  say("end");
}
int needed;
#else
extern int needed;
int main(int argc, char** argv) {
  say("main");
  needed = argc;
  if (argc == 1) return 0;
  compute();
  say("exec");
  execl(argv[0], argv[0], NULL);
  return 1;
}
#endif
