/* A forked child that releases its parent's locks and objects. The parent's segment must not change by a byte.
 *   quiet_child unlock    the child unlocks a mutex, which is no event, and ends
 *   quiet_child close     it closes an instrumented file first
 *   quiet_child all       it also releases a read lock, destroys objects, and locks and opens others
 *   quiet_child twice     it forks again before its first event, and both do all of this
 * Prints the number of changed bytes, and how the child ended. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 64 << 20 };

static pfs_key_t key_held, key_free, key_rw, key_file;
static pfs_mutex_info_t mutexes[] = {{&key_held, "held", 0, NULL}, {&key_free, "free", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_rw, "rw", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_mutex_t held, spare[3];
static pfs_rwlock_t rw;
static char before[kMost], after[kMost];

static long bytes_of(const char* path, char* to) {
  const int fd = open(path, O_RDONLY);
  long bytes = 0;
  ssize_t got;
  while (fd >= 0 && bytes < kMost && (got = read(fd, to + bytes, (size_t)(kMost - bytes))) > 0) bytes += got;
  if (fd >= 0) close(fd);
  return bytes;
}

static void child(const char* way, int fd) {
  char byte;
  int i;
  pfs_mutex_unlock(&held);
  if (strcmp(way, "unlock") == 0) _exit(7);
  pfs_close(fd);
  if (strcmp(way, "close") == 0) _exit(7);
  pfs_rwlock_unlock(&rw);
  for (i = 0; i < 3; ++i) pfs_mutex_destroy(&spare[i]);
  for (i = 0; i < 3; ++i) {
    pfs_mutex_init(key_free, &spare[i], NULL);
    pfs_mutex_lock(&spare[i]);
    pfs_mutex_unlock(&spare[i]);
    pfs_mutex_destroy(&spare[i]);
  }
  fd = pfs_open(key_file, "/dev/zero", O_RDONLY);
  if (pfs_read(fd, &byte, 1) != 1) _exit(8);
  pfs_close(fd);
  _exit(7);
}

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "unlock";
  long bytes, i, changed = 0;
  int status, fd;
  pid_t pid;
  if (pfs_register_mutex("quiet", mutexes, 2) != PFS_OK || pfs_register_rwlock("quiet", rwlocks, 1) != PFS_OK ||
      pfs_register_file("quiet", files, 1) != PFS_OK) {
    return 2;
  }
  pfs_mutex_init(key_held, &held, NULL);
  pfs_rwlock_init(key_rw, &rw, NULL);
  for (i = 0; i < 3; ++i) pfs_mutex_init(key_free, &spare[i], NULL);
  for (i = 0; i < 3; ++i) pfs_mutex_destroy(&spare[i]);
  for (i = 0; i < 3; ++i) pfs_mutex_init(key_free, &spare[i], NULL);
  fd = pfs_open(key_file, "/dev/zero", O_RDONLY);
  pfs_mutex_lock(&held);
  pfs_rwlock_rdlock(&rw);
  bytes = bytes_of(pfs_segment_path(), before);
  pid = fork();
  if (pid == 0 && strcmp(way, "twice") == 0) {
    const pid_t grandchild = fork();
    if (grandchild != 0 && (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 7)) _exit(9);
  }
  if (pid == 0) child(way, fd);
  if (waitpid(pid, &status, 0) != pid) return 2;
  if (bytes_of(pfs_segment_path(), after) != bytes || bytes == 0) return 2;
  for (i = 0; i < bytes; ++i) changed += before[i] != after[i];
  printf("changed %ld\nended %d\n", changed, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
}
