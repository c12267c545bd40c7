/* Threads that go on working, whatever the main thread does: fork, exec, limits, the end. */
#include "program.h"

enum { BESIDE = 6 };

static pfs_mutex_t beside_lock;
static int beside;          /* how many */
static long rounds[BESIDE]; /* of each */

static void* nothing(void* unused) { return unused; }

static void* work_beside(void* index) {
  const int i = (int)(intptr_t)index;
  char name[64], path[64];
  snprintf(name, sizeof name, "user%d", i);
  snprintf(path, sizeof path, "beside-%ld-%d", (long)getpid(), i);
  pfs_set_account(name, "host");
  for (long round = 0;; ++round) {
    pfs_mutex_t own;
    void* const block = pfs_malloc(key_memory, 100);
    pthread_t brief;
    struct rlimit descriptors;
    pfs_mutex_init(key_lock, &own, NULL);
    pfs_mutex_lock(&own);
    pfs_mutex_lock(&beside_lock);
    pfs_mutex_unlock(&beside_lock);
    pfs_mutex_unlock(&own);
    pfs_mutex_destroy(&own);
    nest(1);
    getrlimit(RLIMIT_NOFILE, &descriptors);
    const int fd = descriptors.rlim_cur < FEW ? -1 /* the main thread needs the last one */
                                              : pfs_open(key_file, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
      if (pfs_pwrite(fd, name, 5, 0) != 5) errno = 0;
      pfs_close(fd);
    }
    if (round % 32 == 0) pfs_unlink(key_file, path);
    if (round % 16 == 0 && pthread_create(&brief, NULL, nothing, NULL) == 0) pthread_join(brief, NULL);
    pfs_free(block);
    if (round % 4 == 0) usleep(100);
    __atomic_fetch_add(&rounds[i], 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

void start_beside(long count) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (beside == 0) pfs_mutex_init(key_beside, &beside_lock, NULL); /* a parent's may be locked, for ever */
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (; count > 0 && beside < BESIDE; --count) {
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, work_beside, (void*)(intptr_t)beside);
    if (error != 0) {
      say("beside: %s\n", strerror(error));
      break;
    }
    ++beside;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  say("beside %d\n", beside);
}

/* Waits until each of them has gone on: nothing that this thread has done holds them up. */
void await_beside(void) {
  for (int i = 0; i < beside; ++i) {
    const long seen = __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
    for (int naps = 0; __atomic_load_n(&rounds[i], __ATOMIC_RELAXED) < seen + 2; ++naps) {
      if (naps == 15000) {
        say("a thread beside does not go on\n");
        return;
      }
      usleep(1000);
    }
  }
}

void forget_beside(void) {
  if (beside > 0) has_stray = 1; /* that of a thread that is not in this process */
  beside = 0;
}
