// lab/churn.c: files, connections, threads and locks that come and go under `pfs run`.
//
//     cc -O1 -o churn lab/churn.c -lpthread; pfs run --no-report -- ./churn [ROUNDS]
//
// Each round makes 100 of each. It prints the memory of the process and of its segment ten times: after the first tenth nothing may grow.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { kEach = 100 };

static long Resident(void) {
  long pages = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%ld %ld", &pages, &resident) != 2) abort();
  fclose(file);
  return resident * 4;
}

// Returns the KiB of all segments in PFS_DIR.
static long Segments(void) {
  const char* const folder = getenv("PFS_DIR");
  DIR* const files = folder != NULL ? opendir(folder) : NULL;
  long blocks = 0;
  struct stat info;
  for (const struct dirent* entry; files != NULL && (entry = readdir(files)) != NULL;) {
    if (fstatat(dirfd(files), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) blocks += info.st_blocks;
  }
  if (files != NULL) closedir(files);
  return blocks / 2;
}

static void* Lock(void* mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

static void Round(long number) {
  char name[64], other[64];
  for (int i = 0; i < kEach; ++i) {
    snprintf(name, sizeof name, "file-%ld-%d", number, i);
    snprintf(other, sizeof other, "other-%ld-%d", number, i);
    const int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0 || rename(name, other) != 0 || unlink(other) != 0) abort();
    snprintf(name, sizeof name, "missing-%ld-%d", number, i);
    if (open(name, O_RDONLY) >= 0) abort();
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || send(pair[0], "x", 1, 0) != 1) abort();
    close(pair[0]);
    close(pair[1]);
    pthread_mutex_t* const mutex = malloc(sizeof *mutex);
    sem_t* const semaphore = malloc(sizeof *semaphore);
    pthread_mutex_init(mutex, NULL);
    sem_init(semaphore, 0, 1);
    sem_wait(semaphore);
    pthread_t thread;
    if (i % 8 == 0 && (pthread_create(&thread, NULL, Lock, mutex) != 0 || pthread_join(thread, NULL) != 0)) abort();
    Lock(mutex);
    pthread_mutex_destroy(mutex);
    sem_destroy(semaphore);
    free(mutex);
    free(semaphore);
  }
}

int main(int count, char** arguments) {
  const long rounds = count > 1 ? atol(arguments[1]) : 4000;
  for (long number = 0; number < rounds; ++number) {
    Round(number);
    if ((number + 1) % (rounds / 10) == 0) printf("%ld: resident %ld KiB, segment %ld KiB\n", (number + 1) * kEach, Resident(), Segments());
  }
}
