// capi/socket.cpp: sockets.
#include <sys/socket.h>

#include <cerrno>
#include <new>

#include "capi/call.h"
#include "record/family/sockets.h"

using perfschema::FileWait;
using perfschema::Operation;
using perfschema::ShmFile;
using namespace perfschema::capi;

namespace {

static_assert(sizeof(FileWait) <= sizeof(pfs_wait_t::opaque) && alignof(FileWait) <= alignof(pfs_wait_t));

FileWait& WaitIn(pfs_wait_t* wait) { return *std::launder(reinterpret_cast<FileWait*>(wait->opaque)); }

constexpr Operation kOperationOf[] = {Operation::kNone,        Operation::kSocketCreate, Operation::kConnect,  Operation::kBind,
                                      Operation::kSocketClose, Operation::kSend,         Operation::kRecv,     Operation::kSendto,
                                      Operation::kRecvfrom,    Operation::kSendmsg,      Operation::kRecvmsg,  Operation::kSocketSeek,
                                      Operation::kOpt,         Operation::kSocketStat,   Operation::kShutdown, Operation::kSelect};

// Returns whether the operation shows its bytes. NUMBER_OF_BYTES of all others is NULL (schema/operations.json).
constexpr bool ShowsBytes(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv || operation == Operation::kSendto ||
         operation == Operation::kRecvfrom;
}

// Makes a call whose event does not show the bytes that it transfers.
template <typename Call, typename Bytes>
auto Messages(int fd, Operation operation, Site site, Call call, Bytes bytes) {
  return OnDescriptor(fd, operation, kNoBytes, kNoOffset, site, call, bytes);
}

// Counts the bytes of a call on many messages, which returns how many messages were transferred.
auto BytesOf(const mmsghdr* messages) {
  return [=](int count) {
    if (count < 0) return kNoBytes;
    int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += messages[i].msg_len;
    return sum;
  };
}

// Makes a call that creates sockets.
template <typename Call>
int Make(pfs_key_t key, int domain, int* fds, uint32_t count, Site site, Call call) {
  const uint32_t class_index = perfschema::ClassOfSocketKey(key);
  FileWait wait;
  const bool begun = perfschema::BeginSocketMake(&wait, class_index, site.file, site.line);
  const int rc = call();
  perfschema::EndSocketMake(begun ? &wait : nullptr, class_index, fds, rc < 0 ? 0 : count, domain == AF_UNIX);
  return rc;
}

// Makes an accept; `call` makes the plain call with the address buffer that it gets.
template <typename Call>
int Accept(pfs_key_t key, int fd, sockaddr* address, socklen_t* length, Site site, Call call) {
  const ShmFile* const listener = perfschema::SocketOfDescriptor(fd);
  const uint32_t of_listener = listener != nullptr ? listener->class_index.load(perfschema::kRelaxed) : 0;
  FileWait wait;
  sockaddr_storage peer;
  struct Ender {
    FileWait* wait;
    uint32_t class_index;
    const sockaddr* peer;
    socklen_t length;
    int fd = -1;
    ~Ender() { perfschema::EndSocketAccept(wait, class_index, fd, peer, length); }  // also if the thread is canceled
  } ender{perfschema::BeginSocketChange(&wait, fd, Operation::kConnect, site.file, site.line) ? &wait : nullptr,
          key != 0 ? perfschema::ClassOfSocketKey(key) : of_listener, nullptr, 0};
  // If the program does not ask for the peer's address, we do. If it does, only the plain call may read its length.
  if (address == nullptr && ender.class_index != 0) {
    ender.length = sizeof peer;
    ender.peer = reinterpret_cast<sockaddr*>(&peer);
    address = reinterpret_cast<sockaddr*>(&peer);
    length = &ender.length;
  }
  const int made = call(address, length);
  ender.fd = made;
  return made;
}

// Makes a call after which the socket has that address.
template <typename Call>
int Address(int fd, Operation operation, const sockaddr* address, socklen_t length, Site site, Call call) {
  if (perfschema::SocketOfDescriptor(fd) == nullptr) return call();
  FileWait wait;
  struct Ender {
    FileWait* wait;
    int fd;
    const sockaddr* address;
    socklen_t length;
    bool has_changed = false;
    ~Ender() { perfschema::EndSocketAddress(wait, fd, has_changed, address, length); }  // also if the thread is canceled
  } ender{perfschema::BeginSocketChange(&wait, fd, operation, site.file, site.line) ? &wait : nullptr, fd, address, length};
  const int rc = call();
  // A connection in progress has its peer already.
  ender.has_changed = rc == 0 || (operation == Operation::kConnect && (errno == EINPROGRESS || errno == EINTR));
  return rc;
}

}  // namespace

extern "C" {

// ---- Making ----------------------------------------------------------------------------------------------------------------------

int pfs_socket_at(pfs_key_t key, int domain, int type, int protocol, PFS_SITE_) {
  int fd = -1;
  return Make(key, domain, &fd, 1, {file, line}, [&] { return fd = socket(domain, type, protocol); });
}

int pfs_socketpair_at(pfs_key_t key, int domain, int type, int protocol, int fds[2], PFS_SITE_) {
  return Make(key, domain, fds, 2, {file, line}, [=] { return socketpair(domain, type, protocol, fds); });
}

int pfs_accept_at(pfs_key_t key, int fd, sockaddr* address, socklen_t* length, PFS_SITE_) {
  return Accept(key, fd, address, length, {file, line}, [=](sockaddr* peer, socklen_t* size) { return accept(fd, peer, size); });
}

int pfs_accept4_at(pfs_key_t key, int fd, sockaddr* address, socklen_t* length, int flags, PFS_SITE_) {
  return Accept(key, fd, address, length, {file, line}, [=](sockaddr* peer, socklen_t* size) { return accept4(fd, peer, size, flags); });
}

// ---- Connecting ------------------------------------------------------------------------------------------------------------------

int pfs_bind_at(int fd, const sockaddr* address, socklen_t length, PFS_SITE_) {
  return Address(fd, Operation::kBind, address, length, {file, line}, [=] { return bind(fd, address, length); });
}

int pfs_listen_at(int fd, int backlog, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kConnect, kNoOffset, {file, line}, [=] { return listen(fd, backlog); });
}

int pfs_connect_at(int fd, const sockaddr* address, socklen_t length, PFS_SITE_) {
  return Address(fd, Operation::kConnect, address, length, {file, line}, [=] { return connect(fd, address, length); });
}

int pfs_getsockname_at(int fd, sockaddr* address, socklen_t* length, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kBind, kNoOffset, {file, line}, [=] { return getsockname(fd, address, length); });
}

int pfs_getpeername_at(int fd, sockaddr* address, socklen_t* length, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kBind, kNoOffset, {file, line}, [=] { return getpeername(fd, address, length); });
}

int pfs_shutdown_at(int fd, int how, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kShutdown, kNoOffset, {file, line}, [=] { return shutdown(fd, how); });
}

// ---- Moving bytes ----------------------------------------------------------------------------------------------------------------

ssize_t pfs_send_at(int fd, const void* buffer, size_t size, int flags, PFS_SITE_) {
  return Transfer(fd, Operation::kSend, size, kNoOffset, {file, line}, [=] { return send(fd, buffer, size, flags); });
}

ssize_t pfs_recv_at(int fd, void* buffer, size_t size, int flags, PFS_SITE_) {
  return Transfer(fd, Operation::kRecv, size, kNoOffset, {file, line}, [=] { return recv(fd, buffer, size, flags); });
}

ssize_t pfs_sendto_at(int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length, PFS_SITE_) {
  return Transfer(fd, Operation::kSendto, size, kNoOffset, {file, line}, [=] { return sendto(fd, buffer, size, flags, to, length); });
}

ssize_t pfs_recvfrom_at(int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length, PFS_SITE_) {
  return Transfer(fd, Operation::kRecvfrom, size, kNoOffset, {file, line}, [=] { return recvfrom(fd, buffer, size, flags, from, length); });
}

ssize_t pfs_sendmsg_at(int fd, const msghdr* message, int flags, PFS_SITE_) {
  return Messages(
      fd, Operation::kSendmsg, {file, line}, [=] { return sendmsg(fd, message, flags); }, [](ssize_t n) { return int64_t{n}; });
}

ssize_t pfs_recvmsg_at(int fd, msghdr* message, int flags, PFS_SITE_) {
  return Messages(
      fd, Operation::kRecvmsg, {file, line}, [=] { return recvmsg(fd, message, flags); }, [](ssize_t n) { return int64_t{n}; });
}

int pfs_sendmmsg_at(int fd, mmsghdr* messages, unsigned count, int flags, PFS_SITE_) {
  return Messages(
      fd, Operation::kSendmsg, {file, line}, [=] { return sendmmsg(fd, messages, count, flags); }, BytesOf(messages));
}

int pfs_recvmmsg_at(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout, PFS_SITE_) {
  return Messages(
      fd, Operation::kRecvmsg, {file, line}, [=] { return recvmmsg(fd, messages, count, flags, timeout); }, BytesOf(messages));
}

// ---- The rest --------------------------------------------------------------------------------------------------------------------

int pfs_getsockopt_at(int fd, int level, int name, void* value, socklen_t* length, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kOpt, kNoOffset, {file, line}, [=] { return getsockopt(fd, level, name, value, length); });
}

int pfs_setsockopt_at(int fd, int level, int name, const void* value, socklen_t length, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kOpt, kNoOffset, {file, line}, [=] { return setsockopt(fd, level, name, value, length); });
}

int pfs_sockatmark_at(int fd, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kSocketStat, kNoOffset, {file, line}, [=] { return sockatmark(fd); });
}

void pfs_socket_set_thread(int fd) { perfschema::SetSocketThread(fd); }

void pfs_socket_set_state(int fd, enum pfs_socket_state state) { perfschema::SetSocketState(fd, state == PFS_SOCKET_IDLE); }

void pfs_socket_set_address(int fd, const sockaddr* address, socklen_t length) { perfschema::SetSocketAddress(fd, address, length); }

// ---- Calls that the program makes itself -----------------------------------------------------------------------------------------

int pfs_socket_is_enabled(int fd) {
  const ShmFile* const socket = perfschema::SocketOfDescriptor(fd);
  return socket != nullptr && (socket->flags.load(perfschema::kRelaxed) & perfschema::kFlagEnabled) != 0 ? 1 : 0;
}

int pfs_socket_wait_begin_at(pfs_wait_t* wait, int fd, enum pfs_socket_op op, int64_t requested_bytes, PFS_SITE_) {
  wait->instance = nullptr;
  ShmFile* const socket = perfschema::SocketOfDescriptor(fd);
  if (socket == nullptr || op < PFS_SOCKET_CREATE || op > PFS_SOCKET_SELECT) return 0;
  const Operation operation = kOperationOf[op];
  auto& call = *new (wait->opaque) FileWait;
  if (operation == Operation::kSocketClose) {
    if (!perfschema::BeginFileClose(&call, fd, file, line)) return 0;
  } else {
    const uint32_t flags = socket->flags.load(perfschema::kRelaxed);
    if ((flags & perfschema::kFlagEnabled) == 0) return 0;
    const int64_t bytes = ShowsBytes(operation) ? requested_bytes : kNoBytes;
    if (!perfschema::BeginFileOperation(&call, socket, flags, operation, bytes, file, line)) return 0;
  }
  wait->instance = reinterpret_cast<pfs_instance_t*>(call.file);
  return 1;
}

void pfs_socket_wait_end_(pfs_wait_t* wait, int64_t bytes) {
  wait->instance = nullptr;  // a second end does nothing
  perfschema::EndFileOperation(&WaitIn(wait), bytes);
}

}  // extern "C"
