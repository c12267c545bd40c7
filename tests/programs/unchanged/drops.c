// Becomes another user in three children, by the function that its argument names. Each locks a mutex and reads a file 100 times.
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kNobody = 65534 };

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int Become(const char* how) {
  if (setgroups(0, NULL) != 0 || setgid(kNobody) != 0) return -1;
  if (strcmp(how, "seteuid") == 0) return seteuid(kNobody);
  if (strcmp(how, "setreuid") == 0) return setreuid(kNobody, kNobody);
  if (strcmp(how, "setresuid") == 0) return setresuid(kNobody, kNobody, kNobody);
  return setuid(kNobody);
}

static int ReadOnce(const char* path) {
  char bytes[9];
  const int fd = open(path, O_RDONLY);
  const ssize_t got = read(fd, bytes, sizeof bytes);
  close(fd);
  return got > 0 ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count != 2 || ReadOnce("/etc/hostname") != 0) return 2;
  for (int i = 0; i < 3; ++i) {
    if (fork() != 0) continue;
    if (Become(arguments[1]) != 0) _exit(3);
    for (int k = 0; k < 100; ++k) {
      pthread_mutex_lock(&m);
      pthread_mutex_unlock(&m);
      if (ReadOnce("/etc/passwd") != 0) _exit(4);
    }
    _exit(0);
  }
  int state = 0, bad = 0;
  while (wait(&state) > 0) bad |= state;
  puts("done");
  return bad != 0;
}
