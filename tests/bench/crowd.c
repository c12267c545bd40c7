/* crowd.c: many mutexes and many threads at one time, for scale.py. A library for ctypes: public headers only. */
#include <perfschema/pfs.h>

#include <semaphore.h>
#include <stdlib.h>

static pfs_key_t key;
static pfs_mutex_info_t mutexes[] = {{&key, "LOCK_crowd", 0, "One of many."}};
static pfs_mutex_t* all;
static long count, each;
static sem_t ready, leave;

/* `n` mutexes, each locked once. */
int crowd_mutexes(long n) {
  pfs_register_mutex("bench", mutexes, 1);
  all = malloc((size_t)n * sizeof *all);
  if (all == NULL) return -1;
  count = n;
  for (long i = 0; i < n; ++i) {
    if (pfs_mutex_init(key, &all[i], NULL) != 0) return -1;
    pfs_mutex_lock(&all[i]);
    pfs_mutex_unlock(&all[i]);
  }
  return 0;
}

static void* stay(void* first) {
  for (long i = 0; i < each; ++i) {
    pfs_mutex_t* m = &all[((long)first + i) % count];
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  }
  sem_post(&ready);
  sem_wait(&leave);
  return NULL;
}

/* `n` threads that have made `events` events each, and stay until the process ends. */
int crowd_threads(long n, long events) {
  each = events;
  sem_init(&ready, 0, 0);
  sem_init(&leave, 0, 0);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 * 1024);
  for (long i = 0; i < n; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, stay, (void*)(i * events)) != 0) return -1;
    pthread_detach(thread);
  }
  for (long i = 0; i < n; ++i) sem_wait(&ready);
  pthread_attr_destroy(&small);
  return 0;
}
