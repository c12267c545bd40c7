/* Holds of locks: held life | fork | kill. Prints "name value" and waits for two bytes whenever the test reads the tables. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static pfs_key_t mutex_key, guard_key, check_key, again_key, tree_key, cond_key;
static pfs_mutex_info_t mutexes[] = {
    {&mutex_key, "mutex", 0, NULL}, {&guard_key, "guard", 0, NULL}, {&check_key, "check", 0, NULL}, {&again_key, "again", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&tree_key, "tree", 0, NULL}};
static pfs_cond_info_t conds[] = {{&cond_key, "cond", 0, NULL}};
static pfs_mutex_t mutex, guard, check, again;
static pfs_rwlock_t tree;
static pfs_cond_t cond;

static void look(const char* name) {
  printf("%s\n", name);
  fflush(stdout);
  if (getchar() == EOF || getchar() == EOF) exit(9);
}

static void rest(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

static void init(pfs_key_t key, pfs_mutex_t* m, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  if (pfs_mutex_init(key, m, &attributes) != 0) exit(8);
}

static void* unlock_check(void* nothing) {
  if (pfs_mutex_unlock(&check) != EPERM) exit(7);
  return nothing;
}

static void* take(void* m) {
  pfs_mutex_lock(m);
  return NULL;
}

static void run(void* (*function)(void*), void* argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, argument);
  pthread_join(thread, NULL);
}

static void life(void) {
  for (int i = 0; i < 9; ++i) {
    pfs_mutex_lock(&mutex);
    pfs_mutex_unlock(&mutex);
  }
  printf("line %d\n", __LINE__ + 1);
  pfs_mutex_lock(&mutex);
  rest(20);
  pfs_mutex_unlock(&mutex);
  pfs_mutex_trylock(&mutex);
  pfs_mutex_unlock(&mutex);
  pfs_mutex_lock(&mutex); /* still held: not counted */
  look("ended 11");
  pfs_mutex_unlock(&mutex);

  /* The wait is no part of a hold. */
  pfs_mutex_lock(&guard);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 60000000;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
  printf("cond_line %d\n", __LINE__ + 1);
  if (pfs_cond_timedwait(&cond, &guard, &until) != ETIMEDOUT) exit(6);
  rest(30);
  pfs_mutex_unlock(&guard);
  look("waited 2");

  /* One hold from the first lock to the last unlock. */
  pfs_mutex_lock(&again);
  pfs_mutex_lock(&again);
  pfs_mutex_unlock(&again);
  rest(5);
  pfs_mutex_lock(&again);
  pfs_mutex_unlock(&again);
  pfs_mutex_unlock(&again);

  /* A release that fails ends the hold. */
  pfs_mutex_lock(&check);
  run(unlock_check, NULL);
  rest(20);
  pfs_mutex_unlock(&check);

  /* Read holds are not measured. */
  pfs_rwlock_rdlock(&tree);
  pfs_rwlock_unlock(&tree);
  pfs_rwlock_wrlock(&tree);
  pfs_rwlock_unlock(&tree);
  look("families 1");

  /* Another thread releases it. */
  run(take, &mutex);
  pfs_mutex_unlock(&mutex);
  look("foreign 13");

  /* The next object in the slot begins at zero; the dead ones count for the instrument. */
  pfs_mutex_destroy(&mutex);
  pfs_mutex_init(mutex_key, &mutex, NULL);
  look("reborn 13");
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  look("again 14");
}

static void fork_while_held(void) {
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  pfs_mutex_lock(&mutex);
  const pid_t child = fork();
  if (child == 0) {
    pfs_mutex_unlock(&mutex); /* its hold began in the parent */
    pfs_mutex_lock(&mutex);
    rest(10);
    pfs_mutex_unlock(&mutex);
    printf("child_segment %s\n", pfs_segment_path());
    look("child 1");
    _exit(0);
  }
  waitpid(child, NULL, 0);
  pfs_mutex_unlock(&mutex);
  look("parent 2");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  pfs_register_mutex("held", mutexes, 4);
  pfs_register_rwlock("held", rwlocks, 1);
  pfs_register_cond("held", conds, 1);
  init(mutex_key, &mutex, PTHREAD_MUTEX_NORMAL);
  init(guard_key, &guard, PTHREAD_MUTEX_NORMAL);
  init(check_key, &check, PTHREAD_MUTEX_ERRORCHECK);
  init(again_key, &again, PTHREAD_MUTEX_RECURSIVE);
  pfs_rwlock_init(tree_key, &tree, NULL);
  pfs_cond_init(cond_key, &cond, NULL);
  printf("segment %s\n", pfs_segment_path());
  if (strcmp(argv[1], "life") == 0) life();
  if (strcmp(argv[1], "fork") == 0) fork_while_held();
  if (strcmp(argv[1], "kill") == 0) {
    for (int i = 0; i < 5; ++i) {
      pfs_mutex_lock(&mutex);
      pfs_mutex_unlock(&mutex);
    }
    pfs_mutex_lock(&mutex);
    fflush(stdout);
    raise(SIGKILL);
  }
  return 0;
}
