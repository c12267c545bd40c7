/* A program that runs itself again by exec, after an event each time.
 *   execs COUNT
 * Prints its pid at the end, and leaves its segment. */
#include <perfschema/pfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pfs_key_t key_lock;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_mutex_t mutex;

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 0;
  char next[16];
  pfs_register_mutex("execs", mutexes, 1);
  pfs_mutex_init(key_lock, &mutex, NULL);
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  if (count > 0) {
    snprintf(next, sizeof next, "%d", count - 1);
    execl("/proc/self/exe", argv[0], next, (char*)NULL);
    return 1;
  }
  printf("%d\n", (int)getpid());
  fflush(stdout);
  _exit(0);
}
