// Threads that are nearly always where nobody may interrupt them: in malloc(), dlopen(), fork(), pthread_create(), in handlers of signals
// that jump out. storms SECONDS: it ends then or with its input, with 0 if all of it was as it must be, and says how often.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int must_stop;
static atomic_long allocations, loads, threads, forks, jumps, locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock_of_forks = PTHREAD_MUTEX_INITIALIZER;  // no other thread has it when a child begins

static void Fail(const char* what) {
  printf("failed: %s\n", what);
  _exit(1);
}

static void* Allocate(void* unused) {
  (void)unused;
  for (unsigned seed = 1; !must_stop; ++allocations) {
    char* blocks[100];
    for (int i = 0; i < 100; ++i) {
      const size_t bytes = (size_t)(rand_r(&seed) % 200000) + 1;
      blocks[i] = malloc(bytes);
      blocks[i][0] = blocks[i][bytes - 1] = (char)i;
    }
    for (int i = 0; i < 100; ++i) {
      if (blocks[i][0] != (char)i) Fail("a block of memory");
      free(blocks[i]);
    }
  }
  return NULL;
}

static void* Load(void* unused) {
  (void)unused;
  for (; !must_stop; ++loads) {
    void* const library = dlopen("libz.so.1", RTLD_NOW);
    if (library == NULL) {
      if (loads > 0) Fail(dlerror());
      return NULL;  // this machine has none
    }
    unsigned long (*const sum)(unsigned long, const char*, unsigned) =
        (unsigned long (*)(unsigned long, const char*, unsigned))dlsym(library, "crc32");
    if (sum(0, "pfs", 3) != 0x511b5de5ul) Fail("a function of a library");
    dlclose(library);
  }
  return NULL;
}

static void* Once(void* unused) {
  pthread_mutex_lock(&lock);
  ++locked;
  pthread_mutex_unlock(&lock);
  return unused;
}
static void* Create(void* unused) {
  (void)unused;
  for (; !must_stop; ++threads) {
    pthread_t made[8];
    char arguments[8];
    for (int i = 0; i < 8; ++i) {
      if (pthread_create(&made[i], NULL, Once, arguments + i) != 0) Fail("a thread");
    }
    for (int i = 0; i < 8; ++i) {
      void* result;
      if (pthread_join(made[i], &result) != 0 || result != arguments + i) Fail("the result of a thread");
    }
  }
  return NULL;
}

static void* Fork(void* unused) {
  (void)unused;
  for (; !must_stop; ++forks) {
    const pid_t child = fork();
    if (child == 0) {
      free(malloc(1000));
      pthread_mutex_lock(&lock_of_forks);
      pthread_mutex_unlock(&lock_of_forks);
      _exit(7);
    }
    int status, naps = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      usleep(1000);
      if (++naps > 20000) Fail("a child hangs");
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) Fail("a child");
    pthread_mutex_lock(&lock_of_forks);
    pthread_mutex_unlock(&lock_of_forks);
  }
  return NULL;
}

static sigjmp_buf place;
static void Jump(int number) {
  (void)number;
  siglongjmp(place, 1);
}
static void* BeInterrupted(void* unused) {
  (void)unused;
  signal(SIGUSR1, Jump);
  for (; !must_stop; ++jumps) {
    if (sigsetjmp(place, 1) == 0) {
      pthread_kill(pthread_self(), SIGUSR1);
      Fail("a signal");
    }
  }
  return NULL;
}

int main(int count, char** arguments) {
  (void)count;
  setvbuf(stdout, NULL, _IONBF, 0);
  void* (*const all[])(void*) = {Allocate, Allocate, Load, Create, Fork, BeInterrupted};
  enum { kThreads = sizeof all / sizeof all[0] };
  pthread_t made[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&made[i], NULL, all[i], NULL);
  puts("ready");
  struct pollfd input = {0, POLLIN, 0};
  for (int left = (int)(atof(arguments[1]) * 100); left > 0 && poll(&input, 1, 10) == 0; --left) {
  }
  must_stop = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(made[i], NULL);
  if (locked != threads * 8) Fail("locks");
  printf("ended: %ld allocations, %ld loads, %ld threads, %ld forks, %ld jumps\n", allocations, loads, threads, forks, jumps);
  return 0;
}
