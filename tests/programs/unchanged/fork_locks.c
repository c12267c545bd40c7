/* A library whose handler of fork() takes a lock, as allocators' do, and a program that forks while others hold that lock. Built twice:
   with -DLIBRARY as the library, whose constructor comes before that of a preloaded library. Prints how many children ended well. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void work(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 20; ++i) { /* new locks: each is an object that pfs has to make */
    pthread_mutex_t* const made = malloc(sizeof *made);
    pthread_mutex_init(made, NULL);
    pthread_mutex_lock(made);
    pthread_mutex_unlock(made);
    pthread_mutex_destroy(made);
    free(made);
  }
  pthread_mutex_unlock(&lock);
}

static void take(void) { pthread_mutex_lock(&lock); }
static void give(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void start(void) { pthread_atfork(take, give, give); }

#else

void work(void);

static void* works(void* unused) {
  for (;;) work();
  return unused;
}

int main(int argc, char** argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : 300;
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, works, NULL);
    pthread_detach(thread);
  }
  int good = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  printf("%d\n", good);
  fflush(stdout);
  _exit(0); /* the threads go on */
}

#endif
