/* A thread that is cancelled inside a wrapped call. It ends as it would without pfs, its cleanup handlers run (and
 * use pfs), and its open event gets an end. Prints the same with -DPFS_DISABLE. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>

static pfs_key_t key_pipe, key_lock;
static pfs_file_info_t files[] = {{&key_pipe, "pipe", 0, "Nothing ever comes."}};
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK_pipe", 0, NULL}};
static pfs_mutex_t lock;
static int ends[2];

static void clean_up(void* buffer) {
  printf("cleanup: write %ld\n", (long)pfs_write(ends[1], buffer, 3));
  pfs_mutex_unlock(&lock);
}

static void* wait_for_nothing(void* buffer) {
  pfs_mutex_lock(&lock);
  pthread_cleanup_push(clean_up, buffer);
  printf("read %ld\n", (long)pfs_read(ends[0], buffer, 3));
  pthread_cleanup_pop(1);
  return NULL;
}

int main(void) {
  char buffer[4] = "abc";
  pthread_t thread;
  void* result;
  int i;
  if (pfs_register_file("cancelled", files, 1) != 0 || pfs_register_mutex("cancelled", mutexes, 1) != 0) return 2;
  pfs_mutex_init(key_lock, &lock, NULL);
  for (i = 0; i < 3; ++i) {
    if (pipe2(ends, 0) != 0) return 2;
    pfs_file_bind(key_pipe, ends[0], "reading end");
    pfs_file_bind(key_pipe, ends[1], "writing end");
    pthread_create(&thread, NULL, wait_for_nothing, buffer);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d, left in the pipe %ld\n", result == PTHREAD_CANCELED, (long)pfs_read(ends[0], buffer, 4));
    printf("lock %d\n", pfs_mutex_lock(&lock));
    printf("unlock %d\n", pfs_mutex_unlock(&lock));
    pfs_close(ends[0]);
    pfs_close(ends[1]);
  }
  return pfs_mutex_destroy(&lock);
}
