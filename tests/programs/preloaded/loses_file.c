/* A library to be preloaded: the first LOSE_COUNT files that are made longer lose their names just before, as if another process had
 * removed them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

int ftruncate(int fd, off_t length) {
  static long lost;
  int (*plain)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate");
  if (lost++ < atol(getenv("LOSE_COUNT"))) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length_of_path = readlink(link, path, sizeof path - 1);
    path[length_of_path < 0 ? 0 : length_of_path] = 0;
    if (unlink(path) != 0) abort();
  }
  return plain(fd, length);
}
