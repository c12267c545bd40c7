/* A library to preload that counts calls that fail, and polls that find nothing at once, and prints them to the descriptor COUNT_FAILURES
 * at the end of each process. It shares nothing with pfs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kOpen, kStat, kDelete, kConnect, kRead, kTry, kPoll, kOption, kListen, kAccept, kOperations };
static const char* const names[] = {"open", "stat", "delete", "connect", "read", "try_lock", "idle", "opt", "listen", "accept"};
static long counts[kOperations][256];

#define COUNTED(type, name, parameters, arguments, what, has_failed, error)        \
  type name parameters {                                                           \
    static type(*real) parameters;                                                 \
    if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name);                    \
    type rc = real arguments;                                                      \
    if (has_failed) __atomic_fetch_add(&counts[what][error], 1, __ATOMIC_RELAXED); \
    return rc;                                                                     \
  }
COUNTED(int, stat, (const char* path, struct stat* result), (path, result), kStat, rc < 0, errno)
COUNTED(int, unlink, (const char* path), (path), kDelete, rc < 0, errno)
COUNTED(int, connect, (int fd, const struct sockaddr* to, socklen_t size), (fd, to, size), kConnect, rc < 0 && errno != EINPROGRESS, errno)
COUNTED(int, getsockopt, (int fd, int level, int option, void* value, socklen_t* size), (fd, level, option, value, size), kOption,
        rc == 0 && option == SO_ERROR && *(int*)value != 0, *(int*)value)
COUNTED(int, listen, (int fd, int backlog), (fd, backlog), kListen, rc < 0, errno)
COUNTED(int, accept, (int fd, struct sockaddr* from, socklen_t* size), (fd, from, size), kAccept, rc < 0, errno)
COUNTED(ssize_t, read, (int fd, void* to, size_t size), (fd, to, size), kRead, rc < 0, errno)
COUNTED(int, pthread_mutex_trylock, (pthread_mutex_t * lock), (lock), kTry, rc != 0, rc)
COUNTED(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), kPoll, rc == 0 && timeout == 0, 0)
COUNTED(int, epoll_wait, (int fd, struct epoll_event* events, int most, int timeout), (fd, events, most, timeout), kPoll,
        rc == 0 && timeout == 0, 0)

int open(const char* path, int flags, ...) {
  static int (*real)(const char*, int, ...);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "open");
  va_list list;
  va_start(list, flags);
  const int fd = real(path, flags, va_arg(list, int));
  va_end(list);
  if (fd < 0) __atomic_fetch_add(&counts[kOpen][errno], 1, __ATOMIC_RELAXED);
  return fd;
}

static void forget(void) { memset(counts, 0, sizeof counts); }
__attribute__((constructor)) static void start(void) { pthread_atfork(NULL, NULL, forget); }

__attribute__((destructor)) static void report(void) {
  const char* fd = getenv("COUNT_FAILURES");
  for (int what = 0; fd != NULL && what < kOperations; what++) {
    for (int error = 0; error < 256; error++) {
      if (counts[what][error] != 0) dprintf(atoi(fd), "%d %s %d %ld\n", getpid(), names[what], error, counts[what][error]);
    }
  }
}
