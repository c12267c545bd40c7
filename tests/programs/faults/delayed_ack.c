// Each request is sent in two writes, so TCP waits for an acknowledgment; mended, in one.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm';
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int server = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(server, (void*)&address, size) || listen(server, 1) || getsockname(server, (void*)&address, &size)) return 1;
  char text[64] = {0};
  if (fork() == 0) {
    int client = accept(server, 0, 0);
    ssize_t have = 0;
    for (ssize_t got; (got = read(client, text, sizeof text)) > 0;) {
      for (have += got; have >= 16; have -= 16) {
        if (write(client, "answer", 6) < 0) _exit(1);
      }
    }
    _exit(0);
  }
  int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, (void*)&address, size)) return 1;
  for (int i = 0; i < 20; i++) {
    if (mended) {
      if (write(client, text, 16) < 0) return 1;
    } else if (write(client, text, 4) < 0 || write(client, text, 12) < 0) {
      return 1;
    }
    if (read(client, text, sizeof text) <= 0) return 1;  // FAULT
  }
  close(client);
  wait(0);
  return 0;
}
