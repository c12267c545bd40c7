// Threads call vfork() at once; with an argument a signal's handler does so, too. Prints how often vfork() and waitpid() were called, and
// by the handler, and fails if a child's exit code came back wrong. A child calls functions that overwrite the stack below its parent's
// frame.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, EACH = 25 };
static int counted, by_handler;

static __attribute__((noinline)) int overwrites(int depth) {
  volatile char bytes[512];
  memset((char*)bytes, depth, sizeof bytes);
  return depth == 0 ? bytes[7] : overwrites(depth - 1) + bytes[depth];
}

static __attribute__((noinline)) void one(int code) {
  int status = 0;
  const pid_t pid = vfork();
  if (pid == 0) _exit(overwrites(code) == code * (code + 1) / 2 ? code : 99);
  if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != code) abort();
  __atomic_add_fetch(&counted, 2, __ATOMIC_RELAXED);
}

static void handler(int number) {
  (void)number;
  one(3);
  __atomic_add_fetch(&by_handler, 2, __ATOMIC_RELAXED);
}

static void* many(void* given) {
  for (int i = 0; i < EACH; ++i) one(1 + i % 7);
  return given;
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t threads[THREADS];
  struct sigaction action = {0};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, many, NULL);
  for (int i = 0; i < EACH && argc > 1; ++i) pthread_kill(threads[i % THREADS], SIGUSR1);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  printf("%d %d\n", counted, by_handler);
  return 0;
}
