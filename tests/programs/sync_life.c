/* Read locks and the changes of their count: sync_life ends | signals | fork. Prints "name value" and waits for a
 * line whenever the test reads the tables. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

static pfs_key_t key_a, key_b;
static pfs_rwlock_info_t rwlocks[] = {{&key_a, "a", 0, NULL}, {&key_b, "b", 0, NULL}};
static pfs_rwlock_t a, b;
static pthread_key_t at_end;
static _Thread_local int rounds;
static atomic_long in_handler;

static void look(const char* name) {
  printf("%s\n", name);
  fflush(stdout);
  if (getchar() == EOF || getchar() == EOF) exit(9);
}

/* The last of the four rounds: pfs has forgotten the thread by then. */
static void release_late(void* lock) {
  if (++rounds < 4)
    pthread_setspecific(at_end, lock);
  else
    pfs_rwlock_unlock(lock);
}
static void* lock_and_end(void* lock) {
  pfs_rwlock_rdlock(lock);
  pfs_rwlock_rdlock(&b);
  pfs_rwlock_unlock(&b);
  pthread_setspecific(at_end, lock);
  return NULL;
}
static void* lock_and_keep(void* lock) {
  pfs_rwlock_rdlock(lock);
  return NULL;
}
static void* lock_and_unlock(void* lock) {
  pfs_rwlock_rdlock(lock);
  pfs_rwlock_rdlock(lock);
  pfs_rwlock_unlock(lock);
  pfs_rwlock_unlock(lock);
  return NULL;
}
static void run(void* (*function)(void*), void* lock) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, lock);
  pthread_join(thread, NULL);
}

static void ends(void) {
  pthread_key_create(&at_end, release_late);
  for (int i = 0; i < 3; ++i) run(lock_and_end, &a);
  look("released_late 0");
  run(lock_and_keep, &a);   /* it is never released */
  run(lock_and_unlock, &a); /* in the same slot */
  look("kept 1");
}

static void handler(int signal) {
  (void)signal;
  /* A handler should not do this, but some do. */
  if (pfs_rwlock_tryrdlock(&b) == 0) pfs_rwlock_unlock(&b);
  pfs_rwlock_rdlock(&a);
  pfs_rwlock_rdlock(&a);
  pfs_rwlock_unlock(&a);
  pfs_rwlock_unlock(&a);
  in_handler += 3;
}

static void signals(void) {
  const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  long events = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  pfs_rwlock_rdlock(&a); /* before handlers come: cells are there */
  pfs_rwlock_rdlock(&b);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (long i = 0; in_handler < 30000 || i < 300000; ++i) {
    pfs_rwlock_t* lock = i % 3 == 0 ? &b : &a;
    pfs_rwlock_rdlock(lock);
    if (i % 5 == 0) {
      pfs_rwlock_rdlock(&a);
      pfs_rwlock_unlock(&a);
      ++events;
    }
    pfs_rwlock_unlock(lock);
    ++events;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("events %ld\n", events + 2 + in_handler);
  look("held 1");
  pfs_rwlock_unlock(&a);
  pfs_rwlock_unlock(&b);
  look("released 0");
}

static void forks(void) {
  int answer[2];
  char byte;
  if (pipe(answer) != 0) exit(8);
  pfs_rwlock_rdlock(&a);
  pfs_rwlock_rdlock(&a);
  pfs_rwlock_rdlock(&b);
  pfs_rwlock_unlock(&b);
  pid_t child = fork();
  if (child == 0) {
    printf("child_segment %s\n", pfs_segment_path());
    look("child 2");
    pfs_rwlock_unlock(&a);
    pfs_rwlock_rdlock(&b);
    look("child_released 1");
    pfs_rwlock_unlock(&a);
    pfs_rwlock_unlock(&b);
    look("child_free 0");
    if (write(answer[1], "x", 1) != 1) _exit(7);
    _exit(0);
  }
  if (read(answer[0], &byte, 1) != 1) exit(6);
  waitpid(child, NULL, 0);
  look("parent 2");
  pfs_rwlock_unlock(&a);
  pfs_rwlock_unlock(&a);
  look("parent_free 0");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  pfs_register_rwlock("life", rwlocks, 2);
  pfs_rwlock_init(key_a, &a, NULL);
  pfs_rwlock_init(key_b, &b, NULL);
  printf("segment %s\n", pfs_segment_path());
  if (strcmp(argv[1], "ends") == 0) ends();
  if (strcmp(argv[1], "signals") == 0) signals();
  if (strcmp(argv[1], "fork") == 0) forks();
  return 0;
}
