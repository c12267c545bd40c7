/* Threads of pfs_thread_create(): results, exit values, cancellation, signal masks and attributes are those of pthread_create().
 *   spawned           what can be seen of it, the same in every line with and without pfs
 *   spawned many N    N short threads that start threads; then "ready", and it waits for a line */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

static pfs_key_t key_worker, key_lock;
static pfs_thread_info_t threads[] = {{&key_worker, "worker", 0, "Works."}};
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_mutex_t lock;
static int pipe_ends[2];

static void show(const char* what, long value) { printf("%s %ld\n", what, value); }

static void* returning(void* argument) { return argument; }
static void* exiting(void* argument) {
  pthread_exit((char*)argument + 1);
  return NULL;
}
static void* reading(void* argument) {
  char byte;
  (void)!read(pipe_ends[0], &byte, 1);
  return argument;
}
static void* mask(void* argument) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  *(int*)argument = sigismember(&set, SIGUSR1) * 2 + sigismember(&set, SIGUSR2);
  return NULL;
}
static void* state_of_cancellation(void* argument) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  *(int*)argument = (state == PTHREAD_CANCEL_ENABLE) * 2 + (type == PTHREAD_CANCEL_DEFERRED);
  return NULL;
}
static void* errno_of_new_thread(void* argument) {
  *(int*)argument = errno;
  return NULL;
}
static void* size_of_stack(void* argument) {
  pthread_attr_t attributes;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_destroy(&attributes);
  *(long*)argument = (long)(size >> 20);
  return NULL;
}
static void* posting(void* argument) {
  if (write(pipe_ends[1], "x", 1) != 1) abort();
  return argument;
}

static void* inner(void* argument) {
  pfs_mutex_lock(&lock);
  pfs_mutex_unlock(&lock);
  return argument;
}
static void* outer(void* argument) {
  pthread_t thread;
  inner(argument);
  if (pfs_thread_create(key_worker, &thread, NULL, inner, argument) != 0) abort();
  pthread_join(thread, NULL);
  return argument;
}

static void* joined(void* (*start)(void*), void* argument, const pthread_attr_t* attributes) {
  pthread_t thread;
  void* result = NULL;
  int rc = pfs_thread_create(key_worker, &thread, attributes, start, argument);
  if (rc != 0) return (void*)-1;
  return pthread_join(thread, &result) == 0 ? result : (void*)-2;
}

static int results(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t set;
  void* result;
  char byte;
  int seen;
  long megabytes = 0;
  show("returned", (long)joined(returning, (void*)77, NULL));
  show("exited", (long)joined(exiting, (void*)77, NULL));
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  joined(mask, &seen, NULL);
  show("mask", seen);
  joined(state_of_cancellation, &seen, NULL);
  show("cancellation", seen);
  errno = ENOTTY;
  joined(errno_of_new_thread, &seen, NULL);
  show("errno_of_parent", errno);
  show("errno_of_child", seen);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 3u << 20);
  joined(size_of_stack, &megabytes, &attributes);
  show("stack", megabytes);
  pthread_attr_setstacksize(&attributes, (size_t)1 << 46);
  thread = pthread_self();
  errno = ENOTTY;
  show("too_large", pfs_thread_create(key_worker, &thread, &attributes, returning, NULL));
  pthread_attr_destroy(&attributes);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  show("detached", pfs_thread_create(key_worker, &thread, &attributes, posting, NULL));
  show("posted", read(pipe_ends[0], &byte, 1));
  pthread_attr_destroy(&attributes);
  show("created", pfs_thread_create(key_worker, &thread, NULL, reading, (void*)5));
  show("cancelled", pthread_cancel(thread));
  show("joined", pthread_join(thread, &result));
  show("result", result == PTHREAD_CANCELED);
  show("plain", pfs_thread_create(0, &thread, NULL, returning, (void*)6));
  pthread_join(thread, &result);
  show("result", (long)result);
  return 0;
}

static int many(int count) {
  pthread_t started[8];
  char line[4];
  int i, j;
  pfs_set_account("anna", "desk");
  for (i = 0; i < count / 8; ++i) {
    for (j = 0; j < 8; ++j) {
      if (pfs_thread_create(key_worker, &started[j], NULL, outer, NULL) != 0) abort();
    }
    for (j = 0; j < 8; ++j) pthread_join(started[j], NULL);
  }
  printf("segment %s\nready 1\n", pfs_segment_path());
  fflush(stdout);
  return read(0, line, 2) < 0;
}

int main(int argc, char** argv) {
  if (pfs_register_thread("spawned", threads, 1) != PFS_OK || pfs_register_mutex("spawned", mutexes, 1) != PFS_OK || pipe(pipe_ends) != 0)
    return 2;
  pfs_mutex_init(key_lock, &lock, NULL);
  return argc > 2 ? many(atoi(argv[2])) : results();
}
