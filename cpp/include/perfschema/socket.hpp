// perfschema/socket.hpp: a socket that closes itself, recorded. A part of pfs.hpp, which the program includes.
//
//     perfschema::socket listener{"myapp/listen", AF_INET, SOCK_STREAM};
//     if (listener.bind(address, length) != 0 || listener.listen() != 0) ...
//     perfschema::socket client = listener.accept(perfschema::socket_key("myapp/client"));
//     ssize_t n = client.recv(buffer, sizeof buffer);
#ifndef PERFSCHEMA_SOCKET_HPP
#define PERFSCHEMA_SOCKET_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

inline pfs_key_t socket_key(std::string_view name) { return detail::key_of(pfs_register_socket, name); }

// An open socket. The destructor closes it and ignores errors: call close() where they matter.
class socket {
 public:
  socket() noexcept = default;
  // `name` is "component/name". Throws std::system_error with errno if the socket cannot be made.
  socket(std::string_view name, int domain, int type, int protocol = 0, PFS_CALLER_)
      : socket(socket_key(name), domain, type, protocol, source_file, source_line) {}
  socket(const char* name, int domain, int type, int protocol = 0, PFS_CALLER_)
      : socket(std::string_view(name), domain, type, protocol, source_file, source_line) {}
  socket(pfs_key_t key, int domain, int type, int protocol = 0, PFS_CALLER_)
      : socket(PFS_CALL_(socket, key, domain, type, protocol), source_file, source_line, made{}) {
    if (fd_ < 0) PFS_THROW_(std::system_error(errno, std::generic_category(), "socket"));
  }
  // Makes two connected sockets. Throws like the constructor.
  static std::pair<socket, socket> pair(pfs_key_t key, int domain = AF_UNIX, int type = SOCK_STREAM, int protocol = 0, PFS_CALLER_) {
    int fds[2];
    if (PFS_CALL_(socketpair, key, domain, type, protocol, fds) != 0)
      PFS_THROW_(std::system_error(errno, std::generic_category(), "socketpair"));
    return {socket(fds[0], source_file, source_line, made{}), socket(fds[1], source_file, source_line, made{})};
  }
  static std::pair<socket, socket> pair(std::string_view name, int domain = AF_UNIX, int type = SOCK_STREAM, int protocol = 0,
                                        PFS_CALLER_) {
    return pair(socket_key(name), domain, type, protocol, source_file, source_line);
  }
  static std::pair<socket, socket> pair(const char* name, int domain = AF_UNIX, int type = SOCK_STREAM, int protocol = 0, PFS_CALLER_) {
    return pair(std::string_view(name), domain, type, protocol, source_file, source_line);
  }
  // Takes over an open descriptor, and instruments it if possible (pfs_socket_bind). No event.
  static socket adopt(pfs_key_t key, int fd, PFS_CALLER_) {
    if (key != 0) static_cast<void>(pfs_socket_bind(key, fd));
    return socket(fd, source_file, source_line, made{});
  }

  ~socket() {
    if (fd_ >= 0) close(source_file_, source_line_);
  }
  socket(socket&& other) noexcept { swap(other); }
  socket& operator=(socket&& other) noexcept {
    socket taken{std::move(other)};
    taken.swap(*this);
    return *this;
  }
  void swap(socket& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(source_file_, other.source_file_);
    std::swap(source_line_, other.source_line_);
  }

  // These work like the system calls: they return 0, or -1 and errno.
  int bind(const sockaddr* address, socklen_t length, PFS_CALLER_) { return PFS_CALL_(bind, fd_, address, length); }
  int listen(int backlog = SOMAXCONN, PFS_CALLER_) { return PFS_CALL_(listen, fd_, backlog); }
  int connect(const sockaddr* address, socklen_t length, PFS_CALLER_) { return PFS_CALL_(connect, fd_, address, length); }
  int getsockname(sockaddr* address, socklen_t* length, PFS_CALLER_) const { return PFS_CALL_(getsockname, fd_, address, length); }
  int getpeername(sockaddr* address, socklen_t* length, PFS_CALLER_) const { return PFS_CALL_(getpeername, fd_, address, length); }
  int shutdown(int how, PFS_CALLER_) { return PFS_CALL_(shutdown, fd_, how); }
  int getsockopt(int level, int name, void* value, socklen_t* length, PFS_CALLER_) const {
    return PFS_CALL_(getsockopt, fd_, level, name, value, length);
  }
  int setsockopt(int level, int name, const void* value, socklen_t length, PFS_CALLER_) {
    return PFS_CALL_(setsockopt, fd_, level, name, value, length);
  }
  int sockatmark(PFS_CALLER_) const { return PFS_CALL_(sockatmark, fd_); }
  int close(PFS_CALLER_) {
    const int fd = std::exchange(fd_, -1);
    return PFS_CALL_(close, fd);
  }

  // Accepts the next client, with the instrument `key`, 0 = that of this socket. The result is not open, with errno, if there is none.
  socket accept(pfs_key_t key = 0, sockaddr* address = nullptr, socklen_t* length = nullptr, PFS_CALLER_) {
    return socket(PFS_CALL_(accept, key, fd_, address, length), source_file, source_line, made{});
  }

  // These work like the system calls: they return bytes, or -1 and errno.
  ssize_t send(const void* buffer, size_t size, int flags = 0, PFS_CALLER_) { return PFS_CALL_(send, fd_, buffer, size, flags); }
  ssize_t recv(void* buffer, size_t size, int flags = 0, PFS_CALLER_) { return PFS_CALL_(recv, fd_, buffer, size, flags); }
  ssize_t sendto(const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length, PFS_CALLER_) {
    return PFS_CALL_(sendto, fd_, buffer, size, flags, to, length);
  }
  ssize_t recvfrom(void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length, PFS_CALLER_) {
    return PFS_CALL_(recvfrom, fd_, buffer, size, flags, from, length);
  }
  ssize_t sendmsg(const msghdr& message, int flags = 0, PFS_CALLER_) { return PFS_CALL_(sendmsg, fd_, &message, flags); }
  ssize_t recvmsg(msghdr& message, int flags = 0, PFS_CALLER_) { return PFS_CALL_(recvmsg, fd_, &message, flags); }

  // These set THREAD_ID and STATE of its row of socket_instances. No events.
  void set_thread() noexcept { pfs_socket_set_thread(fd_); }
  void set_state(pfs_socket_state state) noexcept { pfs_socket_set_state(fd_, state); }

  bool is_open() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return is_open(); }
  int native_handle() const noexcept { return fd_; }
  // Releases the descriptor, still open; close it with pfs_close().
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  struct made {};
  socket(int fd, const char* source_file, uint32_t source_line, made) noexcept
      : fd_(fd), source_file_(source_file), source_line_(source_line) {}

  int fd_ = -1;
  const char* source_file_ = nullptr;  // call site of the creation: SOURCE of the close by the destructor
  uint32_t source_line_ = 0;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_SOCKET_HPP
