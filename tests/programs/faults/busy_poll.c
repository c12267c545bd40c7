// A parent asks with the timeout 0 whether its child has written; mended, it waits.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int timeout = argc > 1 && argv[1][0] == 'm' ? -1 : 0;
  int ends[2];
  if (pipe(ends)) return 1;
  if (fork() == 0) {
    for (int i = 0; i < 40; i++) {
      usleep(5000);
      if (write(ends[1], "x", 1) < 0) _exit(1);
    }
    _exit(0);
  }
  struct pollfd one = {ends[0], POLLIN, 0};
  for (int got = 0; got < 40;) {
    char text[1];
    if (poll(&one, 1, timeout) == 1) got += read(ends[0], text, 1);  // FAULT
  }
  wait(0);
  return 0;
}
