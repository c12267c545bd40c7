/* Opens many files that do not exist, each once. So does its child, with other names. It prints the child's pid; both wait to be killed. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void open_all(const char* who) {
  char name[64];
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "/nowhere/%s/settings-%04d.conf", who, i);
    (void)open(name, O_RDONLY);
  }
}

int main(void) {
  int done[2];
  char byte = 0;
  open_all("parent");
  if (pipe(done) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    open_all("child");
    (void)!write(done[1], &byte, 1);
    pause();
  }
  if (read(done[0], &byte, 1) != 1) return 1;
  printf("%d\n", (int)child);
  fflush(stdout);
  pause();
}
