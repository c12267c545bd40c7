/* Workloads whose waits a sampler sees: sampled MODE SECONDS [THREADS]. It says its pid first. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096 };

static const char* mode;
static double end;
static int threads = 4;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static sem_t slots;
static int queued;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void nap(double seconds) {
  const struct timespec time = {0, (long)(seconds * 1e9)};
  nanosleep(&time, NULL);
}

static void spin(double seconds) {
  const double until = now() + seconds;
  while (now() < until) {
  }
}

static void take(pthread_mutex_t* mutex, double seconds) {
  pthread_mutex_lock(mutex);
  nap(seconds);
  pthread_mutex_unlock(mutex);
}

static void queue_step(int is_producer) {
  if (is_producer) nap(0.003);
  pthread_mutex_lock(&first);
  if (is_producer) {
    ++queued;
    pthread_cond_signal(&more);
  } else {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ++until.tv_sec;
    while (queued == 0 && pthread_cond_timedwait(&more, &first, &until) != ETIMEDOUT) {
    }
    if (queued != 0) --queued;
  }
  pthread_mutex_unlock(&first);
  if (!is_producer) spin(0.0002);
}

static void rwlock_step(int is_writer, double random) {
  is_writer ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock);
  nap(is_writer ? 0.002 : 0.0005);
  pthread_rwlock_unlock(&rwlock);
  nap(0.002 * random);
}

/* A message to itself through a pipe: a thread waits for it in poll() or in read(). */
static int pipe_step(const int ends[2], int polls, double random) {
  struct pollfd ready = {ends[0], POLLIN, 0};
  char byte = 0;
  if (polls) return poll(&ready, 1, 1 + (int)(3 * random)) < 0 ? -1 : 0;
  if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return -1;
  spin(0.0001 * random);
  return 0;
}

struct thread {
  int number, ends[2];
  FILE* file;
  pthread_mutex_t own;
};

static int step(const char* kind, struct thread* thread, double random) {
  static const char* const all[] = {"lock", "two_locks", "sync", "poll", "short"};
  static char bytes[4096];
  if (strcmp(kind, "mixed") == 0) return step(all[(int)(random * 4.999)], thread, random * 4.999 - (int)(random * 4.999));
  if (strcmp(kind, "lock") == 0) {
    take(&first, 0.001 * random);
    nap(0.003 * random);
  } else if (strcmp(kind, "two_locks") == 0) {
    take(&first, 0.001);
    take(&second, 0.0003);
  } else if (strcmp(kind, "short") == 0) { /* held for less than the sampler takes */
    pthread_mutex_lock(&first);
    spin(0.00005);
    pthread_mutex_unlock(&first);
    nap(0.001 * random);
  } else if (strcmp(kind, "busy") == 0) { /* 5,000 waits a second, of all threads */
    take(&thread->own, 0);
    nap(threads * 0.0004 * random);
  } else if (strcmp(kind, "wait") == 0) {
    nap(0.9);
  } else if (strcmp(kind, "timer") == 0) {
    nap(0.047);
    take(&first, 0.003);
  } else if (strcmp(kind, "rwlock") == 0) {
    rwlock_step(thread->number == 0, random);
  } else if (strcmp(kind, "queue") == 0) {
    queue_step(thread->number == 0);
  } else if (strcmp(kind, "sem") == 0) {
    while (sem_wait(&slots) != 0) {
    }
    nap(0.002 * random);
    sem_post(&slots);
  } else if (strcmp(kind, "sync") == 0) {
    if (pwrite(fileno(thread->file), bytes, sizeof bytes, 0) < 0 || fdatasync(fileno(thread->file)) != 0) return -1;
    nap(0.002 * random);
  } else {
    return pipe_step(thread->ends, strcmp(kind, "poll") == 0, random);
  }
  return 0;
}

static void* work(void* argument) {
  struct thread* const thread = argument;
  unsigned seed = (unsigned)thread->number;
  while (now() < end && step(mode, thread, rand_r(&seed) / (double)RAND_MAX) == 0) {
  }
  return NULL;
}

int main(int count, char** arguments) {
  static struct thread all[MOST];
  static pthread_t made[MOST];
  pthread_attr_t small;
  if (count > 3) threads = atoi(arguments[3]);
  if (count < 3 || threads < 1 || threads > MOST) return 2;
  mode = arguments[1];
  end = now() + atof(arguments[2]);
  printf("%d\n", getpid());
  fflush(stdout);
  const int is_mixed = strcmp(mode, "mixed") == 0, needs_file = is_mixed || strcmp(mode, "sync") == 0;
  const int needs_pipe = is_mixed || strcmp(mode, "pipe") == 0 || strcmp(mode, "poll") == 0;
  sem_init(&slots, 0, 1);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 * 1024);
  for (int i = 0; i < threads; ++i) {
    all[i] = (struct thread){i, {-1, -1}, needs_file ? tmpfile() : NULL, PTHREAD_MUTEX_INITIALIZER};
    if ((needs_file && all[i].file == NULL) || (needs_pipe && pipe(all[i].ends) != 0)) return 1;
    if (pthread_create(&made[i], &small, work, &all[i]) != 0) return 1;
  }
  for (int i = 0; i < threads; ++i) pthread_join(made[i], NULL);
  pthread_attr_destroy(&small);
  return 0;
}
