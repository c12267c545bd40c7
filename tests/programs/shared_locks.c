/* Locks that several processes share lie in a file that both map; the second process is a program of its own, whose segment lies elsewhere.
 *   shared_locks FILE          makes them, runs itself with FILE and "second", and looks at what that left
 * Prints "ok", or what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

struct locks {
  pfs_mutex_t mutex, robust;
  pfs_rwlock_t rwlock;
  pfs_cond_t cond;
  int is_set;
};

#define CHECK(what)                             \
  do {                                          \
    if (!(what)) {                              \
      printf("line %d: %s\n", __LINE__, #what); \
      exit(1);                                  \
    }                                           \
  } while (0)

static pfs_key_t key_mutex, key_rwlock, key_cond;
static pfs_mutex_info_t mutexes[] = {{&key_mutex, "m", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_rwlock, "rw", 0, NULL}};
static pfs_cond_info_t conds[] = {{&key_cond, "c", 0, NULL}};

static void second(struct locks* locks) {
  struct timespec soon;
  CHECK(pfs_mutex_trylock(&locks->mutex) == 0);
  locks->is_set = 1;
  CHECK(pfs_cond_broadcast(&locks->cond) == 0);
  clock_gettime(CLOCK_REALTIME, &soon);
  CHECK(pfs_cond_timedwait(&locks->cond, &locks->mutex, &soon) == ETIMEDOUT);
  CHECK(pfs_mutex_unlock(&locks->mutex) == 0);
  CHECK(pfs_rwlock_rdlock(&locks->rwlock) == 0);
  CHECK(pfs_rwlock_unlock(&locks->rwlock) == 0);
  CHECK(pfs_rwlock_wrlock(&locks->rwlock) == 0);
  CHECK(pfs_rwlock_unlock(&locks->rwlock) == 0);
  CHECK(pfs_mutex_lock(&locks->robust) == 0); /* and ends with it */
}

int main(int argc, char** argv) {
  pthread_mutexattr_t of_mutex, of_robust;
  pthread_rwlockattr_t of_rwlock;
  pthread_condattr_t of_cond;
  pfs_mutex_t own;
  struct locks* locks;
  const int is_second = argc > 2;
  int fd, status;
  pid_t pid;
  CHECK(argc > 1);
  CHECK(pfs_register_mutex("shared", mutexes, 1) == 0 && pfs_register_rwlock("shared", rwlocks, 1) == 0 &&
        pfs_register_cond("shared", conds, 1) == 0);
  pfs_mutex_init(key_mutex, &own, NULL);
  CHECK(pfs_mutex_lock(&own) == 0 && pfs_mutex_unlock(&own) == 0);
  fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && (is_second || ftruncate(fd, sizeof *locks) == 0));
  locks = mmap(NULL, sizeof *locks, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(locks != MAP_FAILED);
  if (is_second) {
    second(locks);
    return 0;
  }
  pthread_mutexattr_init(&of_mutex);
  pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_init(&of_robust);
  pthread_mutexattr_setpshared(&of_robust, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&of_robust, PTHREAD_MUTEX_ROBUST);
  pthread_rwlockattr_init(&of_rwlock);
  pthread_rwlockattr_setpshared(&of_rwlock, PTHREAD_PROCESS_SHARED);
  pthread_condattr_init(&of_cond);
  pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
  CHECK(pfs_mutex_init(key_mutex, &locks->mutex, &of_mutex) == 0);
  CHECK(pfs_mutex_init(key_mutex, &locks->robust, &of_robust) == 0);
  CHECK(pfs_rwlock_init(key_rwlock, &locks->rwlock, &of_rwlock) == 0);
  CHECK(pfs_cond_init(key_cond, &locks->cond, &of_cond) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    execl(argv[0], argv[0], argv[1], "second", (char*)NULL);
    _exit(9);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(locks->is_set == 1);
  CHECK(pfs_mutex_lock(&locks->mutex) == 0 && pfs_mutex_unlock(&locks->mutex) == 0);
  CHECK(pfs_mutex_lock(&locks->robust) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&locks->robust.mutex) == 0);
  CHECK(pfs_mutex_unlock(&locks->robust) == 0);
  CHECK(pfs_mutex_destroy(&locks->robust) == 0 && pfs_mutex_destroy(&locks->mutex) == 0);
  CHECK(pfs_rwlock_destroy(&locks->rwlock) == 0 && pfs_cond_destroy(&locks->cond) == 0);
  printf("segment %s\n", pfs_segment_path());
  printf("result ok\n");
  return 0;
}
