// capi/socket.cpp: functions on sockets of which each has a body of its own; calls.cpp has the others.
#include <sys/socket.h>

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

constexpr Operation kOperationOf[] = {
    Operation::kNone, Operation::kSocketCreate, Operation::kConnect,  Operation::kBind,    Operation::kSocketClose, Operation::kSend,
    Operation::kRecv, Operation::kSendto,       Operation::kRecvfrom, Operation::kSendmsg, Operation::kRecvmsg,     Operation::kSocketSeek,
    Operation::kOpt,  Operation::kSocketStat,   Operation::kShutdown, Operation::kSelect,  Operation::kListen,      Operation::kAccept};

// Returns whether the operation shows its bytes. NUMBER_OF_BYTES of all others is NULL.
constexpr bool ShowsBytes(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv || operation == Operation::kSendto ||
         operation == Operation::kRecvfrom;
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

// ---- Details that only the program knows -------------------------------------------------------------------------------------------

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
  if (socket == nullptr || op < PFS_SOCKET_CREATE || op > PFS_SOCKET_ACCEPT) return 0;
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
