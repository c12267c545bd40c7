// Each letter of the first argument is a thread that waits or computes for 300 ms: c computes, s sleeps, l waits for a lock, r reads a
// pipe, w waits for a condition, p polls, a accepts a connection, x sleeps by an instruction of its own. At its end each thread prints its
// letter, its life, and how long the kernel says that it computed and was runnable: nanoseconds. Second argument: f, a child of fork() does
// all of it; k, it kills itself before the threads are joined.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMilliseconds = 300 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, guard = PTHREAD_MUTEX_INITIALIZER, printing = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ends[2], listener;

static uint64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

struct Job {
  char letter;
  uint64_t born;
};

static void nap(void) {
  const struct timespec time = {0, kMilliseconds * 1000000L};
#if defined(__x86_64__)
  long result = SYS_nanosleep;
  __asm__ volatile("syscall" : "+a"(result) : "D"(&time), "S"(0) : "rcx", "r11", "memory");
#else
  nanosleep(&time, NULL);
#endif
}

static void work(char letter) {
  const struct timespec time = {0, kMilliseconds * 1000000L};
  struct timespec until;
  char byte;
  switch (letter) {
    case 'c':
      for (const uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID); now(CLOCK_THREAD_CPUTIME_ID) - begin < kMilliseconds * 1000000ull;)
        continue;
      return;
    case 's':
      nanosleep(&time, NULL);
      return;
    case 'l':
      pthread_mutex_lock(&lock);
      pthread_mutex_unlock(&lock);
      return;
    case 'r':
      if (read(ends[0], &byte, 1) != 1) abort();
      return;
    case 'w':
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += (until.tv_nsec + time.tv_nsec) / 1000000000;
      until.tv_nsec = (until.tv_nsec + time.tv_nsec) % 1000000000;
      pthread_mutex_lock(&guard);
      while (pthread_cond_timedwait(&cond, &guard, &until) == 0) continue;
      pthread_mutex_unlock(&guard);
      return;
    case 'a':
      if (accept(listener, NULL, NULL) < 0) abort();
      return;
    case 'p':
      poll(NULL, 0, kMilliseconds);
      return;
    case 'x':
      nap();
      return;
  }
}

static void* run(void* argument) {
  const struct Job job = *(struct Job*)argument;
  work(job.letter);
  char path[64], line[96] = "";
  snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
  pthread_mutex_lock(&printing);
  FILE* const file = fopen(path, "r");
  if (file == NULL || fgets(line, sizeof line, file) == NULL) abort();
  fclose(file);
  const uint64_t runnable = strtoull(strchr(line, ' '), NULL, 10);
  printf("%c %llu %llu %llu\n", job.letter, (unsigned long long)(now(CLOCK_MONOTONIC) - job.born),
         (unsigned long long)now(CLOCK_THREAD_CPUTIME_ID), (unsigned long long)runnable);
  pthread_mutex_unlock(&printing);
  return NULL;
}

int main(int count, char** arguments) {
  static struct Job jobs[64];
  static pthread_t threads[64];
  const size_t letters = strlen(arguments[1]);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count > 2 && arguments[2][0] == 'f') {
    const pid_t child = fork();
    if (child != 0) return waitpid(child, NULL, 0) == child ? 0 : 1;
  }
  struct sockaddr address = {.sa_family = AF_UNIX};
  socklen_t size = sizeof(sa_family_t);  // the kernel chooses the name
  if (pipe(ends) != 0) return 1;
  if (strchr(arguments[1], 'a') != NULL) {
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, &address, size) != 0 || listen(listener, 64) != 0) return 1;
    size = sizeof address;
    if (getsockname(listener, &address, &size) != 0) return 1;
  }
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < letters; ++i) {
    jobs[i] = (struct Job){arguments[1][i], now(CLOCK_MONOTONIC)};
    if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) return 1;
  }
  nap();
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < letters; ++i) {
    if (arguments[1][i] == 'r' && write(ends[1], "x", 1) != 1) return 1;
    if (arguments[1][i] == 'a' && connect(socket(AF_UNIX, SOCK_STREAM, 0), &address, size) != 0) return 1;
  }
  if (count > 2 && arguments[2][0] == 'k' && write(2, "killed", 6) == 6) raise(SIGKILL);
  for (size_t i = 0; i < letters; ++i) pthread_join(threads[i], NULL);
  return 0;
}
