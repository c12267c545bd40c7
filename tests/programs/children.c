/* Children of fork() in a program that has used pfs. Prints nothing that differs from the same program without pfs.
 *   children COUNT WAY [MEGABYTES]
 *   WAY: exit (_exit at once), exec (runs /bin/true), work (an event, then _exit), clean (an event, then exit).
 *   MEGABYTES: after its first event, the program sets RLIMIT_AS to its present size plus that much.
 * Each child must end as it would without pfs: 7, or 0 after exec. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pfs_key_t key_lock, key_file;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_mutex_t mutex;

static void work(void) {
  int i, fd;
  for (i = 0; i < 3; ++i) {
    pfs_mutex_lock(&mutex);
    pfs_mutex_unlock(&mutex);
  }
  fd = pfs_open(key_file, "/dev/null", O_RDONLY);
  if (fd >= 0) pfs_close(fd);
}

static void limit(long megabytes) {
  struct rlimit wanted;
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  if (statm == NULL || fscanf(statm, "%ld", &pages) != 1) abort();
  fclose(statm);
  wanted.rlim_cur = wanted.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)megabytes << 20);
  if (setrlimit(RLIMIT_AS, &wanted) != 0) abort();
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  const char* const way = argc > 2 ? argv[2] : "work";
  int i, status, bad = 0;
  pfs_register_mutex("children", mutexes, 1);
  pfs_register_file("children", files, 1);
  pfs_mutex_init(key_lock, &mutex, NULL);
  work();
  if (argc > 3) limit(atol(argv[3]));
  for (i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child < 0) {
      ++bad;
      continue;
    }
    if (child == 0) {
      if (strcmp(way, "exec") == 0) execl("/bin/true", "true", (char*)NULL);
      if (strcmp(way, "exit") != 0) work();
      if (strcmp(way, "clean") == 0) exit(7);
      _exit(7);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != (strcmp(way, "exec") == 0 ? 0 : 7)) {
      printf("child %d ended with %x\n", i, status);
      ++bad;
    }
  }
  work();
  printf("%d children, %d bad\n", count, bad);
  return bad != 0;
}
