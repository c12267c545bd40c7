/* Some events of every kind in growing numbers, for environments without capacity: mutexes, files, threads, events.
 * Its output does not depend on pfs.
 *   busy DIRECTORY [hold]
 * "hold": "ready SEGMENT" on stderr, then it waits for a line. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <string.h>

enum { kMutexes = 3000, kFiles = 300, kThreads = 8 };
static pfs_key_t key_lock, key_file;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_mutex_t many[kMutexes];
static long counter;

static void* work(void* argument) {
  long done = 0;
  int i, turn;
  for (turn = 0; turn < 3; ++turn) {
    for (i = 0; i < kMutexes; ++i) {
      done += pfs_mutex_lock(&many[i]) == 0;
      if (i == 0) ++counter;
      done += pfs_mutex_unlock(&many[i]) == 0;
    }
  }
  *(long*)argument = done;
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  long done[kThreads], sum = 0;
  int i;
  if (argc < 2 || chdir(argv[1]) != 0) return 2;
  if (pfs_register_mutex("busy", mutexes, 1) != PFS_OK || pfs_register_file("busy", files, 1) != PFS_OK) return 2;
  for (i = 0; i < kMutexes; ++i) sum += pfs_mutex_init(key_lock, &many[i], NULL);
  for (i = 0; i < kThreads; ++i) sum += pthread_create(&threads[i], NULL, work, &done[i]);
  for (i = 0; i < kThreads; ++i) sum += pthread_join(threads[i], NULL) + done[i];
  printf("threads %ld %ld\n", sum, counter);
  for (sum = 0, i = 0; i < kFiles; ++i) {
    char name[64], buffer[16];
    int fd;
    snprintf(name, sizeof name, "a-file-with-a-name-of-some-length-%d", i);
    fd = pfs_open(key_file, name, O_RDWR | O_CREAT, 0600);
    sum += pfs_write(fd, name, 8) + pfs_pread(fd, buffer, sizeof buffer, 0) + memcmp(buffer, name, 8);
    sum += pfs_close(fd) + (i % 3 == 0 ? pfs_rename(key_file, name, "renamed") : 0);
  }
  printf("files %ld\n", sum);
  if (argc > 2 && strcmp(argv[2], "hold") == 0) {
    char line[4];
    fprintf(stderr, "ready %s\n", pfs_segment_path());
    if (read(0, line, 2) < 0) return 1;
  }
  for (sum = 0, i = 0; i < kMutexes; ++i) sum += pfs_mutex_destroy(&many[i]);
  for (i = 0; i < kFiles; ++i) {
    char name[64];
    snprintf(name, sizeof name, "a-file-with-a-name-of-some-length-%d", i);
    sum += pfs_unlink(key_file, name);
  }
  printf("end %ld\n", sum);
  return 0;
}
