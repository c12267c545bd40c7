/* A program whose children are not from fork(): they share its memory while it runs, or have a copy of it.
 *   gcc -O1 clones.c -o clones
 *   clones KIND    one of: shared, waited_for, copied, raw_fork, raw_clone, _Fork
 * The parent opens and closes /dev/null while each of kRounds children does, and says how often it did. Exits with 0 if all calls
 * succeed, if a child with a copy can make a child by fork() and wait for it, and if the parent hears of signals at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRounds = 60, kOwn = 50, kOfChild = 50, kStack = 1 << 18 };

static int is_shared;
static volatile sig_atomic_t alarms;
static void heard(int number) {
  (void)number;
  ++alarms;
}

/* Returns 0 if each call did what it does. */
static int use_files(int times) {
  int i;
  for (i = 0; i < times; ++i) {
    const int fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || close(fd) != 0) return 1;
  }
  return 0;
}

static int in_child(void* argument) {
  (void)argument;
  if (use_files(kOfChild) != 0) return 2;
  if (!is_shared) { /* fork() from a child that shares memory would have the handlers of fork() run in its parent's memory */
    int status = -1;
    const pid_t child = fork();
    if (child == 0) exit(use_files(1));
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 3;
  }
  return 0;
}

static pid_t make(const char* kind, char* top) {
  pid_t child;
  if (strcmp(kind, "shared") == 0) return clone(in_child, top, CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
  if (strcmp(kind, "waited_for") == 0) return clone(in_child, top, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
  if (strcmp(kind, "copied") == 0) return clone(in_child, top, SIGCHLD, NULL);
#ifdef SYS_fork
  if (strcmp(kind, "raw_fork") == 0)
    child = (pid_t)syscall(SYS_fork);
  else
#endif
      if (strcmp(kind, "raw_clone") == 0)
    child = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0ul, NULL, NULL, NULL);
  else
    child = _Fork();
  if (child == 0) exit(in_child(NULL));
  return child;
}

int main(int count, char** arguments) {
  static char stack[kStack];
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  sigset_t blocked;
  int round, number, opened = 0;
  if (count != 2) return 9;
  is_shared = strcmp(arguments[1], "shared") == 0 || strcmp(arguments[1], "waited_for") == 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = heard;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGALRM, &action, NULL) != 0) return 9;
  for (round = 0; round < kRounds; ++round) {
    const pid_t child = make(arguments[1], (char*)(((uintptr_t)(stack + kStack)) & ~(uintptr_t)63));
    int status = -1;
    if (child < 0) return 9;
    setitimer(ITIMER_REAL, &often, NULL);
    if (use_files(kOwn) != 0) return 4;
    opened += kOwn;
    while (waitpid(child, &status, 0) != child) {
      if (errno != EINTR) return 5;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    if (status != 0) {
      fprintf(stderr, "a child ended with %d\n", status);
      return 6;
    }
  }
  if (sigprocmask(SIG_BLOCK, NULL, &blocked) != 0) return 9;
  for (number = 1; number < 32; ++number) {
    if (sigismember(&blocked, number)) {
      fprintf(stderr, "signal %d is blocked\n", number);
      return 7;
    }
  }
  setitimer(ITIMER_REAL, &often, NULL);
  for (number = alarms; alarms == number; ++opened) (void)use_files(1); /* a hang, if the timer is not heard */
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%d\n", opened);
  return 0;
}
