/* Threads that end in every way: 2000 short ones, pthread_exit(), pthread_cancel() in a read, and as they do so they lock and read.
 *   thread_ends [short threads]
 * At the end "ready", then it waits for a line: live are main and one thread that never ends. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <string.h>

static pfs_key_t key_lock, key_pipe;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_file_info_t files[] = {{&key_pipe, "pipe", 0, NULL}};
static pfs_mutex_t shared;
static pthread_key_t at_end;
static int ends[2];

static void once(void) {
  pfs_mutex_lock(&shared);
  pfs_mutex_unlock(&shared);
}
static void destructor(void* unused) {
  (void)unused;
  once(); /* counted: the thread is not yet over for pfs */
}
static void* short_thread(void* argument) {
  pthread_setspecific(at_end, argument);
  once();
  return NULL;
}
static void* exiting(void* argument) {
  pthread_setspecific(at_end, argument);
  once();
  pthread_exit(argument);
}
static void* cancelled(void* argument) {
  char byte;
  pthread_setspecific(at_end, argument);
  once();
  (void)!pfs_read(ends[0], &byte, 1);
  return NULL;
}
static void* forever(void* argument) {
  once();
  for (;;) pause();
  return argument;
}

int main(int argc, char** argv) {
  const int many = argc > 1 ? atoi(argv[1]) : 2000;
  pthread_t threads[4];
  char here[] = "here", line[4];
  void* result;
  int i, j, good = 0;
  if (pfs_register_mutex("thread_ends", mutexes, 1) != PFS_OK || pfs_register_file("thread_ends", files, 1) != PFS_OK || pipe(ends) != 0)
    return 2;
  pthread_key_create(&at_end, destructor);
  pfs_mutex_init(key_lock, &shared, NULL);
  pfs_file_bind(key_pipe, ends[0], "/pipe");
  for (i = 0; i < many / 4; ++i) {
    for (j = 0; j < 4; ++j) pthread_create(&threads[j], NULL, short_thread, here);
    for (j = 0; j < 4; ++j) good += pthread_join(threads[j], &result) == 0 && result == NULL;
  }
  for (i = 0; i < 50; ++i) {
    pthread_create(&threads[0], NULL, exiting, here);
    good += pthread_join(threads[0], &result) == 0 && result == here;
  }
  for (i = 0; i < 20; ++i) {
    pthread_create(&threads[0], NULL, cancelled, here);
    usleep(5000);
    pthread_cancel(threads[0]);
    good += pthread_join(threads[0], &result) == 0 && result == PTHREAD_CANCELED;
  }
  pthread_create(&threads[0], NULL, forever, NULL);
  usleep(20000);
  printf("good %d\nsegment %s\nready 1\n", good, pfs_segment_path());
  fflush(stdout);
  return read(0, line, 2) < 0;
}
