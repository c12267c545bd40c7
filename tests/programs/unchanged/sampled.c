/* Workloads whose waits a sampler sees: sampled MODE SECONDS. It says its pid first. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };

static const char* mode;
static double end;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
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

static void* work(void* argument) {
  const int number = *(const int*)argument;
  unsigned seed = (unsigned)number;
  char bytes[4096] = {0};
  FILE* const file = tmpfile();
  if (file == NULL) return NULL;
  while (now() < end) {
    const double random = rand_r(&seed) / (double)RAND_MAX;
    if (strcmp(mode, "lock") == 0) {
      take(&first, 0.001 * random);
      nap(0.003 * random);
    } else if (strcmp(mode, "two_locks") == 0) {
      take(&first, 0.001);
      take(&second, 0.0003);
    } else if (strcmp(mode, "timer") == 0) {
      nap(0.047);
      take(&first, 0.003);
    } else if (strcmp(mode, "rwlock") == 0) {
      rwlock_step(number == 0, random);
    } else if (strcmp(mode, "queue") == 0) {
      queue_step(number == 0);
    } else {
      if (pwrite(fileno(file), bytes, sizeof bytes, 0) < 0 || fdatasync(fileno(file)) != 0) return NULL;
      nap(0.002 * random);
    }
  }
  fclose(file);
  return NULL;
}

int main(int count, char** arguments) {
  static int numbers[THREADS];
  pthread_t threads[THREADS];
  if (count != 3) return 2;
  mode = arguments[1];
  end = now() + atof(arguments[2]);
  printf("%d\n", getpid());
  fflush(stdout);
  for (int i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0) return 1;
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return 0;
}
