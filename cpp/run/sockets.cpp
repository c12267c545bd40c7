// run/sockets.cpp: replaces the calls on sockets, and the waits for many descriptors, which are idle time.
#include <csignal>

#include "capi/call.h"
#include "run/conversations.h"
#include "run/descriptors.h"
#include "run/real.h"

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

extern "C" {
ssize_t __recv_chk(int, void*, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
int __poll_chk(pollfd*, nfds_t, int, size_t);
int __ppoll_chk(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
int epoll_pwait2(int, epoll_event*, int, const timespec*, const sigset_t*);
}

namespace {

// Returns the SOURCE of a call on a descriptor, of kIsCode.
const char* KnownAt(int fd, const void* caller) {
  MakeKnown(fd, caller);
  return static_cast<const char*>(caller);
}

// Is the event "idle", from construction to destruction: the waits are cancellation points.
class Idle {
 public:
  explicit Idle(const void* caller) { (void)pfs_idle_begin_at(&wait_, static_cast<const char*>(caller), kIsCode); }
  ~Idle() { pfs_idle_end(&wait_); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

 private:
  pfs_wait_t wait_;
};

template <typename Call>
[[gnu::always_inline]] inline int Idling(bool waits, const void* caller, Call call) {
  if (!waits || IsPlain()) return call();
  const Idle event(caller);
  return call();
}

int Accepted(int fd, const void* caller) {
  if (IsDecoding()) BeginConversation(fd, SiteOf(caller)->text);
  return fd;
}

template <typename Time>
bool Waits(const Time* timeout) {
  const Time zero = {};
  return timeout == nullptr || __builtin_memcmp(timeout, &zero, sizeof zero) != 0;
}

}  // namespace

PFS_REPLACES int socket(int domain, int type, int protocol) {
  if (IsPlain()) return PFS_REAL(socket)(domain, type, protocol);
  const Site& site = *PFS_RUN_SITE;
  return pfs_socket_at(KeyOfSocket(KindOfSocket(domain, type), site), domain, type, protocol, site.text, kWholePlace);
}

PFS_REPLACES int socketpair(int domain, int type, int protocol, int fds[2]) {
  if (IsPlain()) return PFS_REAL(socketpair)(domain, type, protocol, fds);
  const Site& site = *PFS_RUN_SITE;
  return pfs_socketpair_at(KeyOfSocket(KindOfSocket(domain, type), site), domain, type, protocol, fds, site.text, kWholePlace);
}

PFS_REPLACES int accept(int fd, sockaddr* address, socklen_t* length) {
  if (IsPlain()) return PFS_REAL(accept)(fd, address, length);
  const char* const text = KnownAt(fd, PFS_CALLER);
  return Accepted(pfs_accept_at(KeyOfSocket("accepted", *PFS_RUN_SITE), fd, address, length, text, kIsCode), text);
}

PFS_REPLACES int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  if (IsPlain()) return PFS_REAL(accept4)(fd, address, length, flags);
  const char* const text = KnownAt(fd, PFS_CALLER);
  return Accepted(pfs_accept4_at(KeyOfSocket("accepted", *PFS_RUN_SITE), fd, address, length, flags, text, kIsCode), text);
}

// From here on the socket's events are those of a "listen" socket; what it did before stays with its old kind.
PFS_REPLACES int listen(int fd, int backlog) {
  if (IsPlain()) return PFS_REAL(listen)(fd, backlog);
  const char* const text = KnownAt(fd, PFS_CALLER);
  const int rc = pfs_listen_at(fd, backlog, text, kIsCode);
  if (rc == 0) (void)pfs_socket_bind(KeyOfSocket("listen", *PFS_RUN_SITE), fd);
  return rc;
}

// A call of the C API with the same arguments.
#define PFS_SOCKET_CALL(type, name, wrapper, parameters, ...) \
  PFS_REPLACES type name parameters {                         \
    if (IsPlain()) return PFS_REAL(name)(__VA_ARGS__);        \
    const char* const text = KnownAt(fd, PFS_CALLER);         \
    return wrapper(__VA_ARGS__, text, kIsCode);               \
  }
PFS_SOCKET_CALL(int, bind, pfs_bind_at, (int fd, const sockaddr* address, socklen_t length), fd, address, length)
PFS_SOCKET_CALL(int, connect, pfs_connect_at, (int fd, const sockaddr* address, socklen_t length), fd, address, length)
PFS_SOCKET_CALL(int, shutdown, pfs_shutdown_at, (int fd, int how), fd, how)
PFS_SOCKET_CALL(int, getsockname, pfs_getsockname_at, (int fd, sockaddr* address, socklen_t* length), fd, address, length)
PFS_SOCKET_CALL(int, getpeername, pfs_getpeername_at, (int fd, sockaddr* address, socklen_t* length), fd, address, length)
PFS_SOCKET_CALL(int, getsockopt, pfs_getsockopt_at, (int fd, int level, int option, void* value, socklen_t* length), fd, level, option,
                value, length)
PFS_SOCKET_CALL(int, setsockopt, pfs_setsockopt_at, (int fd, int level, int option, const void* value, socklen_t length), fd, level, option,
                value, length)
// One that transfers bytes, `shown` of them in NUMBER_OF_BYTES. The event is made here, not by the C API: a call more costs much where the
// processor forgets its predictions at each system call.
#define PFS_SOCKET_TRANSFER(name, parameters, operation, shown, ...)                                                                  \
  PFS_REPLACES ssize_t name parameters {                                                                                              \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                                                                    \
    if (IsPlain()) return call();                                                                                                     \
    const capi::Site site = {KnownAt(fd, PFS_CALLER), kIsCode};                                                                       \
    const ssize_t done = capi::OnDescriptor(fd, operation, shown, capi::kNoOffset, site, call, [](ssize_t n) { return int64_t{n}; }); \
    if (IsDecoding() && ((flags)&MSG_PEEK) == 0) {                                                                                    \
      Saw(perfschema::kOperations[static_cast<int>(operation)].lane == perfschema::kReadLane, done, __VA_ARGS__);                     \
    }                                                                                                                                 \
    return done;                                                                                                                      \
  }
#define PFS_SHOWN static_cast<int64_t>(size)
PFS_SOCKET_TRANSFER(send, (int fd, const void* buffer, size_t size, int flags), Operation::kSend, PFS_SHOWN, fd, buffer, size, flags)
PFS_SOCKET_TRANSFER(recv, (int fd, void* buffer, size_t size, int flags), Operation::kRecv, PFS_SHOWN, fd, buffer, size, flags)
PFS_SOCKET_TRANSFER(sendto, (int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t length), Operation::kSendto,
                    PFS_SHOWN, fd, buffer, size, flags, to, length)
PFS_SOCKET_TRANSFER(recvfrom, (int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length), Operation::kRecvfrom,
                    PFS_SHOWN, fd, buffer, size, flags, from, length)
PFS_SOCKET_TRANSFER(sendmsg, (int fd, const msghdr* message, int flags), Operation::kSendmsg, capi::kNoBytes, fd, message, flags)
PFS_SOCKET_TRANSFER(recvmsg, (int fd, msghdr* message, int flags), Operation::kRecvmsg, capi::kNoBytes, fd, message, flags)
PFS_SOCKET_CALL(int, sendmmsg, pfs_sendmmsg_at, (int fd, mmsghdr* messages, unsigned count, int flags), fd, messages, count, flags)
PFS_SOCKET_CALL(int, recvmmsg, pfs_recvmmsg_at, (int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout), fd, messages,
                count, flags, timeout)

namespace {
// Bytes that the kernel takes from a file are written by the descriptor. No call of the program reads that file.
template <typename Call>
ssize_t SendFile(int fd, size_t size, const void* caller, Call call) {
  if (IsPlain()) return call();
  const ssize_t done = capi::Transfer(fd, Operation::kWrite, size, capi::kNoOffset, {KnownAt(fd, caller), kIsCode}, call);
  if (IsDecoding() && done > 0) SawHole(fd, static_cast<size_t>(done));
  return done;
}
}  // namespace
PFS_REPLACES ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  return SendFile(to, size, PFS_CALLER, [=] { return PFS_REAL(sendfile)(to, from, offset, size); });
}
PFS_REPLACES ssize_t sendfile64(int to, int from, off64_t* offset, size_t size) {
  return SendFile(to, size, PFS_CALLER, [=] { return PFS_REAL(sendfile64)(to, from, offset, size); });
}

PFS_REPLACES ssize_t __recv_chk(int fd, void* buffer, size_t size, size_t capacity, int flags) {
  const auto call = [=] { return PFS_REAL(__recv_chk)(fd, buffer, size, capacity, flags); };
  if (IsPlain()) return call();
  const ssize_t done = capi::Transfer(fd, Operation::kRecv, size, capi::kNoOffset, {KnownAt(fd, PFS_CALLER), kIsCode}, call);
  if (IsDecoding() && (flags & MSG_PEEK) == 0) Saw(true, done, fd, buffer);
  return done;
}

PFS_REPLACES ssize_t __recvfrom_chk(int fd, void* buffer, size_t size, size_t capacity, int flags, sockaddr* from, socklen_t* length) {
  const auto call = [=] { return PFS_REAL(__recvfrom_chk)(fd, buffer, size, capacity, flags, from, length); };
  if (IsPlain()) return call();
  const ssize_t done = capi::Transfer(fd, Operation::kRecvfrom, size, capi::kNoOffset, {KnownAt(fd, PFS_CALLER), kIsCode}, call);
  if (IsDecoding() && (flags & MSG_PEEK) == 0) Saw(true, done, fd, buffer);
  return done;
}

PFS_REPLACES int poll(pollfd* fds, nfds_t count, int timeout) {
  return Idling(timeout != 0, PFS_CALLER, [=] { return PFS_REAL(poll)(fds, count, timeout); });
}
PFS_REPLACES int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t capacity) {
  return Idling(timeout != 0, PFS_CALLER, [=] { return PFS_REAL(__poll_chk)(fds, count, timeout, capacity); });
}
PFS_REPLACES int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  return Idling(Waits(timeout), PFS_CALLER, [=] { return PFS_REAL(ppoll)(fds, count, timeout, mask); });
}
PFS_REPLACES int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t capacity) {
  return Idling(Waits(timeout), PFS_CALLER, [=] { return PFS_REAL(__ppoll_chk)(fds, count, timeout, mask, capacity); });
}
PFS_REPLACES int select(int count, fd_set* reads, fd_set* writes, fd_set* errors, timeval* timeout) {
  return Idling(Waits(timeout), PFS_CALLER, [=] { return PFS_REAL(select)(count, reads, writes, errors, timeout); });
}
PFS_REPLACES int pselect(int count, fd_set* reads, fd_set* writes, fd_set* errors, const timespec* timeout, const sigset_t* mask) {
  return Idling(Waits(timeout), PFS_CALLER, [=] { return PFS_REAL(pselect)(count, reads, writes, errors, timeout, mask); });
}
PFS_REPLACES int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  return Idling(timeout != 0, PFS_CALLER, [=] { return PFS_REAL(epoll_wait)(fd, events, most, timeout); });
}
PFS_REPLACES int epoll_pwait(int fd, epoll_event* events, int most, int timeout, const sigset_t* mask) {
  return Idling(timeout != 0, PFS_CALLER, [=] { return PFS_REAL(epoll_pwait)(fd, events, most, timeout, mask); });
}
PFS_REPLACES int epoll_pwait2(int fd, epoll_event* events, int most, const timespec* timeout, const sigset_t* mask) {
  return Idling(Waits(timeout), PFS_CALLER, [=] { return PFS_REAL(epoll_pwait2)(fd, events, most, timeout, mask); });
}
