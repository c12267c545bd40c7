/* Starts a program in every way there is: starts FOLDER/CHILD, CHILD being found in PATH, too. Prints how each one ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static void ended(const char* how, pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  printf("%s: %d\n", how, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  fflush(stdout);
}

#define START(how, call)        \
  do {                          \
    const pid_t pid = how();    \
    if (pid == 0) {             \
      call;                     \
      _exit(99);                \
    }                           \
    ended(#how " " #call, pid); \
  } while (0)

int main(int count, char** arguments) {
  if (count != 2) return 1;
  const char* path = arguments[1];
  const char* name = strrchr(path, '/') + 1;
  char* const with[] = {"child", "one", "two", NULL};
  char* const none[] = {NULL};
  pid_t pid;
  setvbuf(stdout, NULL, _IOLBF, 0);
  START(fork, execve(path, with, environ));
  START(fork, execve(path, with, none));
  START(vfork, execve(path, with, environ));
  START(fork, execv(path, with));
  START(vfork, execvp(name, with));
  START(fork, execvpe(name, with, environ));
  START(fork, execl(path, "child", "one", "two", NULL));
  START(fork, execlp(name, "child", "one", "two", NULL));
  START(vfork, execle(path, "child", "one", "two", NULL, environ));
  const int fd = open(path, O_RDONLY);
  START(fork, fexecve(fd, with, environ));
  close(fd);
  START(fork, execvp("no-such-program", with));
  if (posix_spawn(&pid, path, NULL, NULL, with, environ) == 0) ended("posix_spawn", pid);
  if (posix_spawnp(&pid, name, NULL, NULL, with, environ) == 0) ended("posix_spawnp", pid);
  char command[4096];
  snprintf(command, sizeof command, "%s one two", path);
  printf("system: %d\n", WEXITSTATUS(system(command)));
  char line[100];
  FILE* stream = popen(command, "r");
  while (fgets(line, sizeof line, stream) != NULL) fputs(line, stdout);
  printf("popen: %d\n", WEXITSTATUS(pclose(stream)));
  return 0;
}
