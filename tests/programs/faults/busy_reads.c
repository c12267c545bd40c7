// A thread reads again and again from a socket that does not block; mended, it waits in poll().
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
static int ends[2];
static void* feed(void* nothing) {
  for (int i = 0; i < 25; i++) {
    usleep(8000);
    if (send(ends[1], "x", 1, 0) < 0) _exit(1);
  }
  return nothing;
}
int main(int argc, char** argv) {
  pthread_t thread;
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  pthread_create(&thread, 0, feed, 0);
  for (int got = 0; got < 25;) {
    struct pollfd soon = {ends[0], POLLIN, 0};
    char byte;
    if (argc > 1) poll(&soon, 1, -1);
    got += recv(ends[0], &byte, 1, MSG_DONTWAIT) == 1;  // FAULT
  }
  pthread_join(thread, 0);
  return 0;
}
