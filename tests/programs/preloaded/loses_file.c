/* A library to be preloaded: the first LOSE_COUNT files of the process lose their names, as if another process had taken them for those of
 * the dead. LOSE_WHEN says when: "early", before it is locked; "late": the other one has it locked, and removes it when it has a header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long locks;
static int is_lost; /* the file that is being made */

static int is_when(const char* when) { return strcmp(getenv("LOSE_WHEN"), when) == 0; }

static void lose(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  if (unlink(path) != 0) abort();
}

int fcntl(int fd, int command, ...) {
  int (*plain)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  if (command == F_OFD_SETLK && ((struct flock*)argument)->l_type == F_WRLCK) {
    is_lost = ++locks <= atol(getenv("LOSE_COUNT"));
    if (is_lost && is_when("early")) lose(fd);
    if (is_lost && is_when("late")) {
      errno = EAGAIN;
      return -1;
    }
  }
  return plain(fd, command, argument);
}

int fchmod(int fd, mode_t mode) {
  int (*plain)(int, mode_t) = (int (*)(int, mode_t))dlsym(RTLD_NEXT, "fchmod");
  struct stat info;
  if (is_lost && is_when("late") && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) lose(fd);
  return plain(fd, mode);
}
