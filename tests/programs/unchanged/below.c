// Opens files below directories that are open, as tools do that follow no link: openat, fstatat, renameat, unlinkat.
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void Write(int directory, const char* name) {
  const int fd = openat(directory, name, O_WRONLY | O_CREAT, 0600);
  assert(fd >= 0 && write(fd, "abc", 3) == 3 && close(fd) == 0);
}

// `count` times: a chain of three directories, of which each is closed at once, and the calls on one file in the last.
static void Chain(int count) {
  mkdir("a", 0700), mkdir("a/b", 0700), mkdir("a/b/c", 0700);
  const int here = open(".", O_DIRECTORY);
  for (int i = 0; i < count; ++i) {
    struct stat info;
    const int a = openat(here, "a", O_PATH | O_DIRECTORY | O_NOFOLLOW), b = openat(a, "b", O_PATH | O_DIRECTORY | O_NOFOLLOW);
    close(a);
    const int c = openat(b, "c", O_PATH | O_DIRECTORY | O_NOFOLLOW);
    close(b);
    const int fd = openat(c, "file", O_RDWR | O_CREAT, 0600);
    assert(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0 && fstatat(c, "file", &info, 0) == 0 && close(c) == 0);
  }
}

// Directories that move, and numbers of descriptors that become another directory's.
static void Names(void) {
  mkdir("one", 0700), mkdir("two", 0700), mkdir("one/below", 0700);
  const int one = open("one", O_DIRECTORY), two = open("two", O_DIRECTORY);
  Write(one, "first");
  assert(dup2(two, one) == one);
  Write(one, "second");
  close(one);
  const int again = open("one/below", O_DIRECTORY);
  assert(again == one);
  Write(again, "third");
  assert(renameat(two, "second", again, "fourth") == 0);
  Write(again, "fourth");
  assert(rename("one", "moved") == 0);
  Write(again, "fifth");
  Write(two, "sixth");
}

int main(int count, char** arguments) {
  if (count > 1) {
    Chain(atoi(arguments[1]));
  } else {
    Names();
  }
  puts("done");
  return 0;
}
