// Three processes hold the lock of a file while they work; mended, while they write only.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm';
  for (int process = 0; process < 3; process++) {
    if (fork() != 0) continue;
    int file = open("queue.lock", O_CREAT | O_RDWR, 0644);
    for (int i = 0; i < 6; i++) {
      if (mended) usleep(15000);
      flock(file, LOCK_EX);  // FAULT
      if (!mended) usleep(15000);
      if (pwrite(file, "x", 1, process) < 0) _exit(1);
      flock(file, LOCK_UN);
    }
    _exit(0);
  }
  while (wait(0) > 0) {
  }
  return 0;
}
