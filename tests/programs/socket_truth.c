/* Three threads that use sockets of their own at random, for strace to count: streams, datagrams, TCP; all calls that move bytes; calls
 * that fail, would block, move part. Some sockets are closed on the way, the others stay open. socket_truth SEED        says "segment PATH"
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <perfschema/pfs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, PAIRS = 4, TURNS = 400 };

static pfs_key_t key;
static pfs_socket_info_t sockets[] = {{&key, "socket", 0, "Counted by two."}};
static unsigned seed;

static void connect_over_tcp(int fds[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr* any = (struct sockaddr*)&address;
  socklen_t length = sizeof address;
  const int on = 1, listener = pfs_socket(key, AF_INET, SOCK_STREAM, 0);
  pfs_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (pfs_bind(listener, any, length) != 0 || pfs_listen(listener, 1) != 0 || getsockname(listener, any, &length) != 0) exit(2);
  fds[0] = pfs_socket(key, AF_INET, SOCK_STREAM, 0);
  if (pfs_connect(fds[0], any, length) != 0) exit(2);
  fds[1] = pfs_accept(key, listener, NULL, NULL);
  pfs_close(listener);
}

static void make(int fds[2], int kind) {
  if (kind == 0) {
    connect_over_tcp(fds);
  } else if (pfs_socketpair(key, AF_UNIX, kind == 1 ? SOCK_STREAM : SOCK_DGRAM, 0, fds) != 0) {
    exit(2);
  }
}

static void* use(void* number) {
  unsigned random = seed + 1000 * (unsigned)(size_t)number;
  static const char zeros[9000];
  char buffer[9000];
  int pairs[PAIRS][2], i, on;
  socklen_t length;
  struct iovec out[2], in[2];
  struct msghdr message;
  struct mmsghdr many[2];
  for (i = 0; i < PAIRS; ++i) make(pairs[i], i % 3);
  for (i = 0; i < TURNS; ++i) {
    int* pair = pairs[rand_r(&random) % PAIRS];
    const int from = pair[i % 2], to = pair[1 - i % 2];
    const size_t size = (size_t)rand_r(&random) % 3 == 0 ? (size_t)rand_r(&random) % sizeof buffer : (size_t)rand_r(&random) % 100;
    out[0] = (struct iovec){(void*)zeros, size / 2};
    out[1] = (struct iovec){(void*)zeros, size - size / 2};
    in[0] = (struct iovec){buffer, size / 3};
    in[1] = (struct iovec){buffer + size / 3, size - size / 3};
    memset(&message, 0, sizeof message);
    message.msg_iov = rand_r(&random) % 2 ? out : in;
    message.msg_iovlen = 2;
    memset(many, 0, sizeof many);
    many[0].msg_hdr.msg_iov = message.msg_iov;
    many[1].msg_hdr.msg_iov = message.msg_iov + 1;
    many[0].msg_hdr.msg_iovlen = many[1].msg_hdr.msg_iovlen = 1;
    switch (rand_r(&random) % 24) {
      case 0:
        pfs_send(from, zeros, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      case 1:
        pfs_sendto(from, zeros, size, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        break;
      case 2:
        message.msg_iov = out;
        pfs_sendmsg(from, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      case 3:
        pfs_sendmmsg(from, many, 2, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      case 4:
      case 5:
        fcntl(from, F_SETFL, O_NONBLOCK);
        pfs_write(from, zeros, size);
        break;
      case 6:
        fcntl(from, F_SETFL, O_NONBLOCK);
        pfs_writev(from, out, 2);
        break;
      case 7:
      case 8:
        pfs_recv(to, buffer, size, MSG_DONTWAIT);
        break;
      case 9:
        pfs_recvfrom(to, buffer, size, MSG_DONTWAIT | MSG_PEEK, NULL, NULL);
        break;
      case 10:
        message.msg_iov = in;
        pfs_recvmsg(to, &message, MSG_DONTWAIT);
        break;
      case 11:
        many[0].msg_hdr.msg_iov = &in[0];
        many[1].msg_hdr.msg_iov = &in[1];
        pfs_recvmmsg(to, many, 2, MSG_DONTWAIT, NULL);
        break;
      case 12:
      case 13:
        fcntl(to, F_SETFL, O_NONBLOCK);
        pfs_read(to, buffer, size);
        break;
      case 14:
        fcntl(to, F_SETFL, O_NONBLOCK);
        pfs_readv(to, in, 2);
        break;
      case 15:
        length = sizeof on;
        pfs_getsockopt(from, SOL_SOCKET, SO_TYPE, &on, &length);
        break;
      case 16:
        pfs_lseek(from, 0, SEEK_SET);
        break;
      case 17:
        pfs_listen(to, 3);
        break;
      case 18:
        if (rand_r(&random) % 4 == 0) pfs_shutdown(from, SHUT_WR);
        break;
      case 19:
        if (rand_r(&random) % 2 != 0) break;
        pfs_close(from);
        pfs_close(to);
        make(pair, rand_r(&random) % 3);
        break;
      default:
        pfs_send(from, zeros, 10, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[THREADS];
  size_t i;
  if (argc != 2 || pfs_register_socket("truth", sockets, 1) != 0) return 2;
  signal(SIGPIPE, SIG_IGN);
  seed = (unsigned)atoi(argv[1]);
  if (pfs_socket(key, 12345, SOCK_STREAM, 0) != -1) return 2;
  for (i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, use, (void*)i);
  for (i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  printf("segment %s\n", pfs_segment_path());
  return 0;
}
