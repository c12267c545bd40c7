/* A stream of a socket is received byte by byte; mended, in blocks. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlock = 65536, kBlocks = 3 };
static char block[kBlock];

int main(int argc, char** argv) {
  const size_t size = argc > 1 && strcmp(argv[1], "mended") == 0 ? sizeof block : 1;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  if (fork() == 0) {
    for (int i = 0; i < kBlocks; i++) {
      if (send(ends[1], block, sizeof block, 0) != sizeof block) return 1;
    }
    return 0;
  }
  close(ends[1]);
  long total = 0;
  for (ssize_t bytes; (bytes = recv(ends[0], block, size, 0)) > 0;) total += bytes; /* FAULT */
  int status = 1;
  return wait(&status) < 0 || status != 0 || total != kBlock * kBlocks;
}
