/* crowd.c: many mutexes, threads, files and events, for scale.py and reading.py. A library for ctypes: public headers only. */
#include <perfschema/pfs.h>
#include <semaphore.h>
#include <stdio.h>
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

static pfs_key_t file_key;
static pfs_file_info_t files[] = {{&file_key, "crowd", 0, "One of many."}};

/* `n` files in `folder`, which is an absolute path: each was written to, and is on no disk any more. */
int crowd_files(const char* folder, long n) {
  char path[512];
  pfs_register_file("bench", files, 1);
  for (long i = 0; i < n; ++i) {
    snprintf(path, sizeof path, "%s/file_%ld", folder, i);
    const int fd = pfs_open(file_key, path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || pfs_write(fd, path, 8) != 8 || pfs_close(fd) != 0) return -1;
    unlink(path);
  }
  return 0;
}

enum { kNames = 4, kFiles = 8 };
static pfs_key_t lock_keys[kNames], data_keys[kNames];
static pfs_mutex_info_t locks[kNames] = {{&lock_keys[0], "LOCK_first", 0, ""},
                                         {&lock_keys[1], "LOCK_second", 0, ""},
                                         {&lock_keys[2], "LOCK_third", 0, ""},
                                         {&lock_keys[3], "LOCK_fourth", 0, ""}};
static pfs_file_info_t data[kNames] = {
    {&data_keys[0], "first", 0, ""}, {&data_keys[1], "second", 0, ""}, {&data_keys[2], "third", 0, ""}, {&data_keys[3], "fourth", 0, ""}};
static pfs_mutex_t lock_of[kNames];
static int file_of[kFiles];
static long rounds;

/* Five events: reads of files and waits for locks of changing names, from five places. */
static void* mix(void* first) {
  unsigned long turn = (unsigned long)first;
  char byte;
  for (long i = 0; i < rounds; ++i, turn = turn * 6364136223846793005u + 1442695040888963407u) {
    pfs_mutex_t* const m = &lock_of[turn >> 60 & (kNames - 1)];
    pfs_mutex_lock(m);
    (void)!pfs_pread(file_of[turn >> 50 & (kFiles - 1)], &byte, 1, 0);
    pfs_mutex_unlock(m);
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
    if (pfs_mutex_trylock(&lock_of[turn >> 40 & (kNames - 1)]) == 0) pfs_mutex_unlock(&lock_of[turn >> 40 & (kNames - 1)]);
    (void)!pfs_pwrite(file_of[turn >> 50 & (kFiles - 1)], "?", 1, 0);
  }
  return NULL;
}

/* At least `n` events of `threads` threads, of locks and of files in `folder`. */
int crowd_events(const char* folder, long threads, long n) {
  char path[512];
  pthread_t thread[64];
  if (threads > 64) return -1;
  pfs_register_mutex("bench", locks, kNames);
  pfs_register_file("bench", data, kNames);
  for (int i = 0; rounds == 0 && i < kNames; ++i) pfs_mutex_init(lock_keys[i], &lock_of[i], NULL);
  for (int i = 0; rounds == 0 && i < kFiles; ++i) {
    snprintf(path, sizeof path, "%s/data_%d", folder, i);
    file_of[i] = pfs_open(data_keys[i % kNames], path, O_RDWR | O_CREAT, 0600);
    if (file_of[i] < 0) return -1;
  }
  rounds = n / threads / 5 + 1;
  for (long i = 0; i < threads; ++i) {
    if (pthread_create(&thread[i], NULL, mix, (void*)(i + 1)) != 0) return -1;
  }
  for (long i = 0; i < threads; ++i) pthread_join(thread[i], NULL);
  return 0;
}
