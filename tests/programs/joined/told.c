// Does what its input says, in threads that exist from the start, and says how often. It loads libperfschema-run.so itself if it is told
// to.
//
//   join LIBRARY NAME=VALUE...    leave        as `pfs join` and `pfs leave` do, without a joiner
//   work N                                     each thread: N locks, read locks, writes, and opens with a read
//   plugin FILE N                              dlopen(), dlsym("plugin"), and N locks there
//   fork N                                     a child that takes N locks; its exit code
//   exit
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 3 };
pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t read_lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t go, done;
static int times, file;
static int (*join)(const char*);
static int (*leave)(void);

static void* Work(void* unused) {
  (void)unused;
  char bytes[16];
  for (;;) {
    sem_wait(&go);
    for (int i = 0; i < times; ++i) {
      pthread_mutex_lock(&told_lock);
      pthread_mutex_unlock(&told_lock);
      pthread_rwlock_rdlock(&read_lock);
      pthread_rwlock_unlock(&read_lock);
      if (pwrite(file, "hello", 5, 0) != 5) abort();
      const int other = open("/etc/hostname", O_RDONLY);
      if (other < 0 || read(other, bytes, sizeof bytes) < 0 || close(other) != 0) abort();
    }
    sem_post(&done);
  }
  return NULL;
}

static void* Join(void* text) { return (void*)(long)join(text); }
static void* Leave(void* unused) {
  (void)unused;
  return (void*)(long)leave();
}
static long InThread(void* (*function)(void*), void* argument) {
  pthread_t thread;
  void* result;
  if (pthread_create(&thread, NULL, function, argument) != 0 || pthread_join(thread, &result) != 0) abort();
  return (long)result;
}

int main(int count, char** arguments) {
  file = open(count > 1 ? arguments[1] : "/dev/null", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  sem_init(&go, 0, 0);
  sem_init(&done, 0, 0);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], NULL, Work, NULL);
    pthread_setname_np(threads[i], "early");
  }
  char line[4096];
  for (setvbuf(stdout, NULL, _IOLBF, 0); fgets(line, sizeof line, stdin) != NULL;) {
    long result = 0;
    const char* const word = strtok(line, " \n");
    if (strcmp(word, "join") == 0) {
      const char* const library = strtok(NULL, " \n");
      void* const handle = dlopen(library, RTLD_NOW);
      if (handle == NULL) puts(dlerror());
      join = (int (*)(const char*))dlsym(handle, "pfs_run_join");
      leave = (int (*)(void))dlsym(handle, "pfs_run_leave");
      char text[4096] = "";
      size_t bytes = 0;
      for (const char* entry; (entry = strtok(NULL, " \n")) != NULL; bytes += strlen(entry) + 1) strcpy(text + bytes, entry);
      text[bytes] = 0;
      result = InThread(Join, text);
    } else if (strcmp(word, "leave") == 0) {
      result = InThread(Leave, NULL);
    } else if (strcmp(word, "work") == 0) {
      times = atoi(strtok(NULL, " \n"));
      for (int i = 0; i < kThreads; ++i) sem_post(&go);
      for (int i = 0; i < kThreads; ++i) sem_wait(&done);
    } else if (strcmp(word, "plugin") == 0) {
      void* const handle = dlopen(strtok(NULL, " \n"), RTLD_NOW);
      if (handle == NULL) puts(dlerror());
      result = ((int (*)(int))dlsym(handle, "plugin"))(atoi(strtok(NULL, " \n")));
      dlclose(handle);
    } else if (strcmp(word, "fork") == 0) {
      const int locks = atoi(strtok(NULL, " \n"));
      const pid_t child = fork();
      if (child == 0) {
        for (int i = 0; i < locks; ++i) {
          pthread_mutex_lock(&told_lock);
          pthread_mutex_unlock(&told_lock);
        }
        kill(getpid(), 9);  // what it has recorded stays
      }
      int status;
      waitpid(child, &status, 0);
      result = status;
    } else {
      return 0;
    }
    printf("%ld\n", result);
  }
  return 0;
}
