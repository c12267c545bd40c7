// perfschema::socket as a C++ user writes it. Exits with 0 if everything behaved as the system calls. Works with -DPFS_DISABLE as well.
//   g++ -std=c++17 socket_class.cpp $(pkg-config --cflags --libs perfschema) -o socket_class
// With two arguments it waits for a line at the end, so that its tables can be read.
#include <netinet/in.h>

#include <cstdio>
#include <cstring>
#include <perfschema/pfs.hpp>
#include <thread>

namespace {

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

sockaddr* any(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

void echo(perfschema::socket client) {
  client.set_thread();
  char text[100];
  for (;;) {
    client.set_state(PFS_SOCKET_IDLE);
    const ssize_t n = client.recv(text, sizeof text);
    client.set_state(PFS_SOCKET_ACTIVE);
    if (n <= 0) break;
    EXPECT(client.send(text, static_cast<size_t>(n)) == n);
  }
  EXPECT(client.shutdown(SHUT_RDWR) == 0);
}

void serve_and_connect() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  perfschema::socket listener{"socket_class/listen", AF_INET, SOCK_STREAM};
  const int on = 1;
  EXPECT(listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  EXPECT(listener.bind(any(address), sizeof address) == 0 && listener.listen(4) == 0);
  EXPECT(listener.getsockname(any(address), &length) == 0 && address.sin_port != 0);
  std::thread server([&] {
    perfschema::socket client = listener.accept(perfschema::socket_key("socket_class/client"));
    EXPECT(client.is_open());
    echo(std::move(client));
  });
  perfschema::socket client{"socket_class/client", AF_INET, SOCK_STREAM, 0};
  EXPECT(client.connect(any(address), sizeof address) == 0);
  sockaddr_in peer;
  EXPECT(client.getpeername(any(peer), &length) == 0 && peer.sin_port == address.sin_port);
  char text[100] = {};
  for (int i = 0; i < 10; ++i)
    EXPECT(client.send("hello", 5) == 5 && client.recv(text, 5, MSG_WAITALL) == 5 && std::strcmp(text, "hello") == 0);
  EXPECT(client.sockatmark() == 0);
  EXPECT(client.shutdown(SHUT_WR) == 0 && client.recv(text, sizeof text) == 0);
  server.join();
  EXPECT(client.close() == 0 && !client);
  errno = 0;
  EXPECT(client.close() == -1 && errno == EBADF);
  EXPECT(client.send("x", 1) == -1 && errno == EBADF);
  // No client connects.
  EXPECT(fcntl(listener.native_handle(), F_SETFL, O_NONBLOCK) == 0);
  errno = 0;
  EXPECT(!listener.accept() && (errno == EAGAIN || errno == EWOULDBLOCK));
}

void pairs() {
  auto [a, b] = perfschema::socket::pair("socket_class/pair");
  char text[16] = {};
  iovec part{text, sizeof text};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  EXPECT(a.sendto("to", 2, 0, nullptr, 0) == 2 && b.recvfrom(text, sizeof text, 0, nullptr, nullptr) == 2);
  EXPECT(b.sendmsg(message) == 16 && a.recvmsg(message) == 16);
  int type = 0;
  socklen_t length = sizeof type;
  EXPECT(a.getsockopt(SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM);
  const int fd = a.native_handle();
  perfschema::socket moved{std::move(a)};
  EXPECT(!a.is_open() && moved.native_handle() == fd);
  perfschema::socket assigned;
  assigned = std::move(moved);
  EXPECT(!moved && assigned);
  perfschema::socket adopted = perfschema::socket::adopt(perfschema::socket_key("socket_class/adopted"), assigned.release());
  EXPECT(!assigned && adopted.native_handle() == fd && adopted.send("x", 1) == 1 && b.recv(text, 1) == 1);
  try {
    const perfschema::socket impossible{"socket_class/pair", 12345, SOCK_STREAM};
    EXPECT(!"a socket of no kind throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::address_family_not_supported);
  }
  try {
    perfschema::socket::pair("socket_class/pair", AF_INET);
    EXPECT(!"a pair over the internet throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::operation_not_supported);
  }
  perfschema::socket unnamed{"no slash: not recorded, and works", AF_UNIX, SOCK_DGRAM};
  EXPECT(unnamed.is_open() && unnamed.close() == 0);
}

}  // namespace

int main(int argc, char**) {
  serve_and_connect();
  pairs();
  std::puts(failures == 0 ? "socket_class: ok" : "socket_class: FAILED");
  if (argc > 2) {
    std::printf("segment %s\nready -\n", pfs_segment_path());
    std::fflush(stdout);
    static_cast<void>(std::getchar());
  }
  return failures != 0;
}
