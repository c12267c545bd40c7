/* Every wrapped socket call, failures included, over IPv4, IPv6 (where there is one), AF_UNIX, streams and datagrams: "name result errno
 * bytes". Run in an empty directory. The output is that of the program built with -DPFS_DISABLE, byte for byte: nothing that varies
 * (descriptors, ports, times) is printed. `errno` is set to 77 before each call, so a call that leaves it alone shows 77. `bytes` is a
 * checksum of what the call stored. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <perfschema/pfs.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>

static pfs_key_t key, other_key;
static pfs_socket_info_t sockets[] = {{&key, "all", 0, "Every call."}, {&other_key, "accepted", 0, "Accepted ones."}};

static char buffer[256];

static unsigned long sum(const void* bytes, size_t size) {
  unsigned long hash = 5381;
  size_t i;
  for (i = 0; i < size; ++i) hash = (hash * 33 + ((const unsigned char*)bytes)[i]) % 1000003;
  return hash;
}

static void clear(void) {
  memset(buffer, 0, sizeof buffer);
  errno = 77;
}

static void show(const char* name, long long result) {
  const int error = errno;
  printf("%s %lld %d %lu\n", name, result, error, sum(buffer, sizeof buffer));
}

/* Results are numbers, or descriptors (>= 0 is "open"). */
static long long result;
#define NUMBER(name, call) (clear(), result = (long long)(call), show(name, result))
#define OPENED(name, variable, call) (clear(), (variable) = (call), result = (variable) >= 0, show(name, result))

/* Values that are wrong on purpose; volatile, so that the compiler does not warn. */
static volatile int minus_one = -1;
static void* volatile nowhere = (void*)8;

static void on_alarm(int signal) { (void)signal; }
static const struct itimerval never = {{0, 0}, {0, 0}}, soon = {{0, 20000}, {0, 20000}};

static void wait_for(int fd, short events) {
  struct pollfd one = {fd, events, 0};
  if (poll(&one, 1, 10000) != 1) exit(3);
}

/* Calls that are the same in every family: two connected streams. */
static void talk(int a, int b) {
  struct msghdr message;
  struct mmsghdr many[2];
  struct iovec parts[2] = {{buffer, 4}, {buffer + 100, 100}}, written[2] = {{(char[]){"scattered "}, 10}, {(char[]){"parts"}, 5}};
  struct stat facts;
  struct timeval patience = {0, 20000};
  int value;
  socklen_t length;
  FILE* stream;

  NUMBER("send", pfs_send(a, "hello", 5, 0));
  NUMBER("recv short", pfs_recv(b, buffer, sizeof buffer, 0));
  NUMBER("write", pfs_write(a, "0123456789", 10));
  NUMBER("recv MSG_PEEK", pfs_recv(b, buffer, 3, MSG_PEEK));
  NUMBER("recv MSG_WAITALL", pfs_recv(b, buffer, 4, MSG_WAITALL));
  NUMBER("read", pfs_read(b, buffer, sizeof buffer));
  NUMBER("sendto", pfs_sendto(b, "to", 2, 0, NULL, 0));
  NUMBER("recvfrom", pfs_recvfrom(a, buffer, sizeof buffer, 0, NULL, NULL));
  NUMBER("writev", pfs_writev(b, written, 2));
  NUMBER("readv", pfs_readv(a, parts, 2));
  memset(&message, 0, sizeof message);
  message.msg_iov = written;
  message.msg_iovlen = 2;
  NUMBER("sendmsg", pfs_sendmsg(a, &message, 0));
  message.msg_iov = parts;
  NUMBER("recvmsg", pfs_recvmsg(b, &message, 0));
  memset(many, 0, sizeof many);
  many[0].msg_hdr.msg_iov = &written[0];
  many[1].msg_hdr.msg_iov = &written[1];
  many[0].msg_hdr.msg_iovlen = many[1].msg_hdr.msg_iovlen = 1;
  NUMBER("sendmmsg", pfs_sendmmsg(a, many, 2, 0));
  NUMBER("sendmmsg none", pfs_sendmmsg(a, many, 0, 0));
  many[0].msg_hdr.msg_iov = &parts[0];
  many[1].msg_hdr.msg_iov = &parts[1];
  NUMBER("recvmmsg", pfs_recvmmsg(b, many, 2, 0, NULL));
  printf("  of %u and %u bytes\n", many[0].msg_len, many[1].msg_len);

  NUMBER("recv MSG_DONTWAIT EAGAIN", pfs_recv(b, buffer, 1, MSG_DONTWAIT));
  NUMBER("recvmsg EAGAIN", pfs_recvmsg(b, &message, MSG_DONTWAIT));
  NUMBER("recvmmsg EAGAIN", pfs_recvmmsg(b, many, 2, MSG_DONTWAIT, NULL));
  NUMBER("recv bad address", (pfs_send(a, "x", 1, 0), pfs_recv(b, nowhere, 5, 0)));
  NUMBER("recv", pfs_recv(b, buffer, 5, MSG_DONTWAIT));
  NUMBER("send bad address", pfs_send(a, nowhere, 5, 0));
  NUMBER("sendmsg bad address", pfs_sendmsg(a, nowhere, 0));
  NUMBER("recvmsg bad address", pfs_recvmsg(b, nowhere, MSG_DONTWAIT));
  NUMBER("sendmmsg bad address", pfs_sendmmsg(a, nowhere, 1, 0));
  NUMBER("recvmmsg bad address", pfs_recvmmsg(b, nowhere, 1, MSG_DONTWAIT, NULL));
  NUMBER("writev bad count", pfs_writev(a, written, minus_one));
  NUMBER("lseek", pfs_lseek(a, 0, SEEK_SET));
  NUMBER("tell", pfs_tell(a));
  NUMBER("pread", pfs_pread(a, buffer, 1, 0));
  NUMBER("fsync", pfs_fsync(a));
  NUMBER("ftruncate", pfs_ftruncate(a, 0));
  NUMBER("fstat", pfs_fstat(a, &facts));
  printf("  socket %d\n", S_ISSOCK(facts.st_mode) != 0);

  value = 4096;
  NUMBER("setsockopt", pfs_setsockopt(a, SOL_SOCKET, SO_SNDBUF, &value, sizeof value));
  length = sizeof value;
  NUMBER("getsockopt", pfs_getsockopt(a, SOL_SOCKET, SO_TYPE, &value, &length));
  printf("  type %d of %u bytes\n", value, length);
  NUMBER("getsockopt unknown", pfs_getsockopt(a, SOL_SOCKET, 9999, &value, &length));
  NUMBER("setsockopt bad address", pfs_setsockopt(a, SOL_SOCKET, SO_SNDBUF, nowhere, sizeof value));
  NUMBER("setsockopt short", pfs_setsockopt(a, SOL_SOCKET, SO_SNDBUF, &value, 1));
  NUMBER("getsockopt bad address", pfs_getsockopt(a, SOL_SOCKET, SO_TYPE, &value, nowhere));
  NUMBER("bind again", pfs_bind(a, (const struct sockaddr*)nowhere, 16));
  NUMBER("listen on a connected one", pfs_listen(a, 1));
  NUMBER("accept on a connected one", pfs_accept(key, a, NULL, NULL));

  /* A signal, a timeout. */
  NUMBER("setsockopt SO_RCVTIMEO", pfs_setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
  NUMBER("recv times out", pfs_recv(b, buffer, 1, 0));
  patience.tv_usec = 0;
  NUMBER("setsockopt SO_RCVTIMEO", pfs_setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
  setitimer(ITIMER_REAL, &soon, NULL);
  NUMBER("recv EINTR", pfs_recv(b, buffer, 1, 0));
  NUMBER("recvfrom EINTR", pfs_recvfrom(b, buffer, 1, 0, NULL, NULL));
  NUMBER("recvmsg EINTR", pfs_recvmsg(b, &message, 0));
  NUMBER("read EINTR", pfs_read(b, buffer, 1));
  setitimer(ITIMER_REAL, &never, NULL);

  /* Streams over a socket. */
  stream = fdopen(dup(a), "w");
  pfs_socket_bind(key, fileno(stream));
  NUMBER("fputs", pfs_fputs("a line\n", stream));
  NUMBER("fprintf", pfs_fprintf(stream, "%d lines\n", 2));
  NUMBER("fflush", pfs_fflush(stream));
  NUMBER("fclose", pfs_fclose(stream));
  NUMBER("recv of lines", pfs_recv(b, buffer, sizeof buffer, 0));

  NUMBER("shutdown bad", pfs_shutdown(a, 99));
  NUMBER("shutdown SHUT_WR", pfs_shutdown(a, SHUT_WR));
  NUMBER("recv the end", pfs_recv(b, buffer, 5, 0));
  NUMBER("recvmsg the end", pfs_recvmsg(b, &message, 0));
  NUMBER("send EPIPE", pfs_send(a, "x", 1, MSG_NOSIGNAL));
  signal(SIGPIPE, SIG_IGN);
  NUMBER("send EPIPE, ignored", pfs_send(a, "x", 1, 0));
  NUMBER("write EPIPE", pfs_write(a, "x", 1));
  signal(SIGPIPE, SIG_DFL);
  NUMBER("shutdown SHUT_RDWR", pfs_shutdown(b, SHUT_RDWR));
  NUMBER("close", pfs_close(a));
  NUMBER("close", pfs_close(b));
  NUMBER("close again", pfs_close(b));
  NUMBER("recv closed", pfs_recv(b, buffer, 1, 0));
  NUMBER("send closed", pfs_send(b, "x", 1, 0));
  NUMBER("getsockopt closed", pfs_getsockopt(b, SOL_SOCKET, SO_TYPE, &value, &length));
  NUMBER("shutdown closed", pfs_shutdown(b, SHUT_RDWR));
  NUMBER("listen closed", pfs_listen(b, 1));
  NUMBER("accept closed", pfs_accept(key, b, NULL, NULL));
}

static void stream(const char* name, const struct sockaddr* address, socklen_t room) {
  union {
    struct sockaddr any;
    struct sockaddr_storage storage;
  } bound, peer;
  socklen_t length = sizeof bound, peer_length;
  int listener, client, server, value = 1;
  printf("== %s\n", name);
  OPENED("socket", listener, pfs_socket(key, address->sa_family, SOCK_STREAM, 0));
  if (listener < 0) return;
  NUMBER("accept before listen", pfs_accept(key, listener, NULL, NULL));
  NUMBER("setsockopt", pfs_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value));
  NUMBER("bind too short", pfs_bind(listener, address, 1));
  NUMBER("bind bad address", pfs_bind(listener, (const struct sockaddr*)nowhere, room));
  clear();
  value = pfs_bind(listener, address, room);
  show("bind", value);
  if (value != 0) return (void)pfs_close(listener);
  NUMBER("listen", pfs_listen(listener, 8));
  NUMBER("getsockname", pfs_getsockname(listener, &bound.any, &length));
  printf("  family %d of %u bytes\n", bound.any.sa_family, length);
  NUMBER("getsockname bad address", pfs_getsockname(listener, (struct sockaddr*)nowhere, &length));
  NUMBER("getpeername of none", pfs_getpeername(listener, &peer.any, &length));

  OPENED("socket", client, pfs_socket(key, address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  NUMBER("send before connect", pfs_send(client, "x", 1, MSG_NOSIGNAL));
  NUMBER("recv before connect", pfs_recv(client, buffer, 1, 0));
  NUMBER("connect too short", pfs_connect(client, &bound.any, 1));
  NUMBER("connect bad address", pfs_connect(client, (const struct sockaddr*)nowhere, length));
  length = sizeof bound;
  pfs_getsockname(listener, &bound.any, &length);
  NUMBER("connect", pfs_connect(client, &bound.any, length));
  NUMBER("connect again", pfs_connect(client, &bound.any, length));
  peer_length = sizeof peer;
  OPENED("accept", server, pfs_accept(other_key, listener, &peer.any, &peer_length));
  printf("  family %d, has length %d\n", peer.any.sa_family, peer_length > 0);
  peer_length = sizeof peer;
  NUMBER("getpeername", pfs_getpeername(client, &peer.any, &peer_length));
  printf("  family %d, same %d\n", peer.any.sa_family, peer_length == length && memcmp(&peer, &bound, length) == 0);
  if (address->sa_family != AF_UNIX) {
    NUMBER("sockatmark", pfs_sockatmark(client));
    NUMBER("send MSG_OOB", pfs_send(server, "!", 1, MSG_OOB));
    wait_for(client, POLLPRI);
    NUMBER("sockatmark", pfs_sockatmark(client));
    NUMBER("recv MSG_OOB", pfs_recv(client, buffer, 1, MSG_OOB));
    NUMBER("setsockopt TCP_NODELAY", pfs_setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
  }
  talk(client, server);

  /* Accepts without an address, with a buffer too small for one, and where there is none. */
  client = pfs_socket(0, address->sa_family, SOCK_STREAM, 0);
  connect(client, &bound.any, length);
  OPENED("accept nameless", server, pfs_accept(0, listener, NULL, NULL));
  NUMBER("recv MSG_DONTWAIT", pfs_recv(server, buffer, 1, MSG_DONTWAIT));
  NUMBER("close", pfs_close(server));
  NUMBER("close", pfs_close(client));
  client = socket(address->sa_family, SOCK_STREAM, 0);
  connect(client, &bound.any, length);
  peer_length = 3;
  memset(&peer, 0x55, sizeof peer);
  OPENED("accept4 little room", server, pfs_accept4(key, listener, &peer.any, &peer_length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  printf("  family %d, rest untouched %d, length told %d\n", peer.any.sa_family, ((char*)&peer)[3] == 0x55, peer_length != 3);
  printf("  flags %d %d\n", (fcntl(server, F_GETFL) & O_NONBLOCK) != 0, (fcntl(server, F_GETFD) & FD_CLOEXEC) != 0);
  NUMBER("read EAGAIN", pfs_read(server, buffer, 1));
  NUMBER("close", pfs_close(server));
  close(client);
  client = socket(address->sa_family, SOCK_STREAM, 0);
  connect(client, &bound.any, length);
  NUMBER("accept bad length", pfs_accept(key, listener, &peer.any, nowhere));
  close(client);
  client = socket(address->sa_family, SOCK_STREAM, 0);
  connect(client, &bound.any, length);
  NUMBER("accept bad address", pfs_accept(key, listener, (struct sockaddr*)nowhere, &peer_length));
  close(client);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  NUMBER("accept EAGAIN", pfs_accept(key, listener, NULL, NULL));
  NUMBER("accept4 bad flags", pfs_accept4(key, listener, NULL, NULL, 12345));
  fcntl(listener, F_SETFL, 0);
  setitimer(ITIMER_REAL, &soon, NULL);
  NUMBER("accept EINTR", pfs_accept(key, listener, NULL, NULL));
  setitimer(ITIMER_REAL, &never, NULL);
  NUMBER("close", pfs_close(listener));
  OPENED("socket", client, pfs_socket(key, address->sa_family, SOCK_STREAM, 0));
  NUMBER("connect refused", pfs_connect(client, &bound.any, length));
  NUMBER("close", pfs_close(client));
}

static void datagrams(const char* name, const struct sockaddr* address, socklen_t room, const struct sockaddr* second) {
  union {
    struct sockaddr any;
    struct sockaddr_storage storage;
  } to, from;
  socklen_t length = sizeof to, from_length = sizeof from;
  struct iovec part = {(char[]){"message"}, 7};
  struct msghdr message;
  struct mmsghdr many[3];
  struct sockaddr nobody = {.sa_family = AF_UNSPEC};
  int a, b, i, rc;
  printf("== %s\n", name);
  OPENED("socket", a, pfs_socket(key, address->sa_family, SOCK_DGRAM, 0));
  OPENED("socket", b, pfs_socket(key, address->sa_family, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  if (a < 0 || b < 0) return;
  clear();
  rc = pfs_bind(a, address, room);
  show("bind", rc);
  if (rc != 0) return (void)(pfs_close(a), pfs_close(b));
  if (second != NULL) NUMBER("bind", pfs_bind(b, second, room));
  pfs_getsockname(a, &to.any, &length);
  NUMBER("listen", pfs_listen(a, 1));
  NUMBER("accept", pfs_accept(key, a, NULL, NULL));
  NUMBER("recv EAGAIN", pfs_recv(b, buffer, 1, 0));
  NUMBER("send nowhere", pfs_send(b, "x", 1, 0));
  NUMBER("sendto", pfs_sendto(b, "datagram", 8, 0, &to.any, length));
  NUMBER("recvfrom truncated", pfs_recvfrom(a, buffer, 4, 0, &from.any, &from_length));
  printf("  family %d\n", from.any.sa_family);
  NUMBER("sendto empty", pfs_sendto(b, "", 0, 0, &to.any, length));
  NUMBER("recv empty", pfs_recv(a, buffer, sizeof buffer, 0));
  NUMBER("sendto", pfs_sendto(b, "datagram", 8, 0, &to.any, length));
  NUMBER("recv MSG_TRUNC", pfs_recv(a, buffer, 2, MSG_TRUNC));
  NUMBER("sendto bad address", pfs_sendto(b, "datagram", 8, 0, (const struct sockaddr*)nowhere, length));
  NUMBER("sendto too long", pfs_sendto(b, calloc(1, 1 << 20), 1 << 20, 0, &to.any, length));
  memset(&message, 0, sizeof message);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_name = &to;
  message.msg_namelen = length;
  NUMBER("sendmsg", pfs_sendmsg(b, &message, 0));
  NUMBER("connect", pfs_connect(b, &to.any, length));
  memset(many, 0, sizeof many);
  for (i = 0; i < 3; ++i) {
    many[i].msg_hdr.msg_iov = &part;
    many[i].msg_hdr.msg_iovlen = 1;
  }
  NUMBER("sendmmsg", pfs_sendmmsg(b, many, 3, 0));
  part.iov_base = buffer;
  part.iov_len = sizeof buffer;
  NUMBER("recvmmsg", pfs_recvmmsg(a, many, 3, MSG_WAITFORONE, &(struct timespec){1, 0}));
  NUMBER("send", pfs_send(b, "connected", 9, 0));
  NUMBER("read", pfs_read(a, buffer, 4));
  NUMBER("connect elsewhere", pfs_connect(b, &nobody, sizeof nobody));
  NUMBER("send nowhere again", pfs_send(b, "x", 1, 0));
  NUMBER("close", pfs_close(a));
  NUMBER("close", pfs_close(b));
}

static void making(void) {
  int fds[2], fd, other;
  printf("== making\n");
  OPENED("socket bad domain", fd, pfs_socket(key, 12345, SOCK_STREAM, 0));
  OPENED("socket bad type", fd, pfs_socket(key, AF_INET, 12345, 0));
  OPENED("socket bad protocol", fd, pfs_socket(key, AF_UNIX, SOCK_STREAM, 12345));
  NUMBER("socketpair bad domain", pfs_socketpair(key, AF_INET, SOCK_STREAM, 0, fds));
  NUMBER("socketpair bad address", pfs_socketpair(key, AF_UNIX, SOCK_STREAM, 0, nowhere));
  NUMBER("socketpair", pfs_socketpair(key, AF_UNIX, SOCK_STREAM, 0, fds));
  talk(fds[0], fds[1]);
  NUMBER("socketpair datagrams", pfs_socketpair(key, AF_UNIX, SOCK_DGRAM, 0, fds));
  NUMBER("send", pfs_send(fds[0], "datagram", 8, 0));
  NUMBER("recv", pfs_recv(fds[1], buffer, 3, 0));
  /* A descriptor that is closed unnoticed, and then belongs to another socket. */
  close(fds[0]);
  OPENED("socket of the same number", other, pfs_socket(key, AF_UNIX, SOCK_DGRAM, 0));
  printf("  same number %d\n", other == fds[0]);
  NUMBER("recv EAGAIN", pfs_recv(other, buffer, 1, MSG_DONTWAIT));
  close(other);
  OPENED("not followed, of the same number", other, pfs_socket(0, AF_UNIX, SOCK_DGRAM, 0));
  NUMBER("recv EAGAIN", pfs_recv(other, buffer, 1, MSG_DONTWAIT));
  NUMBER("close", pfs_close(other));
  NUMBER("close", pfs_close(fds[1]));
  /* No sockets. */
  fd = open(".", O_RDONLY);
  NUMBER("recv of a directory", pfs_recv(fd, buffer, 1, 0));
  NUMBER("connect of a directory", pfs_connect(fd, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(struct sockaddr)));
  NUMBER("accept of a directory", pfs_accept(key, fd, NULL, NULL));
  NUMBER("sockatmark of a directory", pfs_sockatmark(fd));
  close(fd);
  NUMBER("accept -1", pfs_accept(key, minus_one, NULL, NULL));
  NUMBER("recv -1", pfs_recv(minus_one, buffer, 1, 0));
  NUMBER("recv a great number", pfs_recv(1 << 30, buffer, 1, 0));
}

int main(void) {
  struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 inet6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "stream"}, a = {.sun_family = AF_UNIX, .sun_path = "a"};
  struct sockaddr_un b = {.sun_family = AF_UNIX, .sun_path = "b"}, missing = {.sun_family = AF_UNIX, .sun_path = "missing/socket"};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm; /* without SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  if (pfs_register_socket("all", sockets, 2) != 0) return 2;
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  making();
  stream("IPv4", (struct sockaddr*)&inet, sizeof inet);
  stream("IPv6", (struct sockaddr*)&inet6, sizeof inet6);
  stream("AF_UNIX", (struct sockaddr*)&path, sizeof path);
  stream("AF_UNIX in no directory", (struct sockaddr*)&missing, sizeof missing);
  stream("AF_UNIX, the system names it", (struct sockaddr*)&path, sizeof(sa_family_t));
  datagrams("IPv4 datagrams", (struct sockaddr*)&inet, sizeof inet, NULL);
  datagrams("IPv6 datagrams", (struct sockaddr*)&inet6, sizeof inet6, NULL);
  datagrams("AF_UNIX datagrams", (struct sockaddr*)&a, sizeof a, (struct sockaddr*)&b);
  return 0;
}
