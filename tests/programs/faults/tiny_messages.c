// A parent sends its child 40,000 numbers, each in a message; mended, 512 in a message.
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  static long numbers[512];
  size_t each = argc > 1 && argv[1][0] == 'm' ? 512 : 1;
  int there[2], back[2];
  if (pipe(there) || pipe(back)) return 1;
  if (fork() == 0) {
    close(there[1]);
    for (ssize_t got; (got = read(there[0], numbers, sizeof numbers)) > 0;) {
      if (write(back[1], numbers, got) < 0) _exit(1);
    }
    _exit(0);
  }
  for (size_t sent = 0; sent < 20000; sent += each) {
    if (write(there[1], numbers, each * sizeof numbers[0]) < 0) return 1;  // FAULT
    if (read(back[0], numbers, sizeof numbers) < 0) return 1;
  }
  close(there[1]);
  wait(0);
  return 0;
}
