/* Destroys an rwlock that a second thread has read-locked. Then its slot is reused 65,535 times, and once more for
 * another rwlock, which both threads read-lock. Prints "ready" and waits for a line; then the second thread releases
 * the lock, and the program prints "one" and waits again; then the first one does, and it prints "none". */
#define _GNU_SOURCE
#include <perfschema/pfs.h>

static pfs_key_t key;
static pfs_rwlock_info_t rwlocks[] = {{&key, "LIVES", 0, NULL}};
static pfs_rwlock_t rwlock;
static pthread_barrier_t turn;

static void* reader(void* unused) {
  int i;
  for (i = 0; i < 2; ++i) {
    pthread_barrier_wait(&turn);
    pfs_rwlock_rdlock(&rwlock);
    if (i == 1) { /* held until main says so */
      pthread_barrier_wait(&turn);
      pthread_barrier_wait(&turn);
    }
    pfs_rwlock_unlock(&rwlock);
    pthread_barrier_wait(&turn);
  }
  return unused;
}

int main(void) {
  pthread_t thread;
  char line[8];
  int i;
  if (pfs_register_rwlock("lives", rwlocks, 1) != PFS_OK) return 2;
  pthread_barrier_init(&turn, NULL, 2);
  pfs_rwlock_init(key, &rwlock, NULL);
  if (pthread_create(&thread, NULL, reader, NULL) != 0) return 2;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  pfs_rwlock_destroy(&rwlock);
  for (i = 0; i < 65535; ++i) {
    pfs_rwlock_init(key, &rwlock, NULL);
    pfs_rwlock_destroy(&rwlock);
  }
  pfs_rwlock_init(key, &rwlock, NULL);
  pfs_rwlock_rdlock(&rwlock);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("segment %s\nready\n", pfs_segment_path());
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) return 3;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("one\n");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) return 3;
  pfs_rwlock_unlock(&rwlock);
  printf("none\n");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) return 3;
  pthread_join(thread, NULL);
  return 0;
}
