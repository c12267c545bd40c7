#include "record/family/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>

#include "record/engine/classes.h"
#include "record/engine/names.h"

namespace perfschema {
namespace {

// The text of a socket's address: "IP:PORT", or a path.
struct SocketName {
  char text[INET6_ADDRSTRLEN + sizeof(sockaddr_un) + 8];
  size_t bytes = 0;  // 0: none
  bool is_local = false;
  bool has_port = false;

  std::string_view view() const { return {text, bytes}; }
  // Returns false if the system must be asked. It chooses where the program requests port 0 or no path.
  bool is_whole() const { return bytes > 0 && (is_local || has_port); }

  SocketName() = default;
  SocketName(const sockaddr* address, socklen_t length) {
    sockaddr_storage copy{};  // aligned, and as long as any
    const size_t given = std::min<size_t>(length, sizeof copy);
    if (address == nullptr || given < sizeof(sa_family_t)) return;
    std::memcpy(&copy, address, given);
    switch (copy.ss_family) {
      case AF_INET: {
        const auto& inet = reinterpret_cast<const sockaddr_in&>(copy);
        if (given >= sizeof inet) SetInternet(AF_INET, &inet.sin_addr, inet.sin_port, inet.sin_addr.s_addr == INADDR_ANY);
        break;
      }
      case AF_INET6: {
        const auto& inet = reinterpret_cast<const sockaddr_in6&>(copy);
        // An old program's structure ends before the scope.
        if (given < offsetof(sockaddr_in6, sin6_scope_id)) break;
        SetInternet(AF_INET6, &inet.sin6_addr, inet.sin6_port, IN6_IS_ADDR_UNSPECIFIED(&inet.sin6_addr));
        break;
      }
      case AF_UNIX:
        is_local = true;
        SetPath(reinterpret_cast<const sockaddr_un&>(copy).sun_path, given - offsetof(sockaddr_un, sun_path));
        break;
      default:
        break;
    }
  }

 private:
  // `is_any`: with port 0 this is the address of a socket that was never bound.
  void SetInternet(int family, const void* ip, in_port_t port, bool is_any) {
    has_port = port != 0;
    if (is_any && !has_port) return;
    if (family == AF_INET) {
      PutQuad(static_cast<const uint8_t*>(ip));
    } else {
      if (inet_ntop(family, ip, text, INET6_ADDRSTRLEN) == nullptr) return;
      bytes = std::strlen(text);
    }
    text[bytes++] = ':';
    PutNumber(ntohs(port));
  }

  // inet_ntop() prints with sprintf(): most of the cost of a short connection.
  void PutQuad(const uint8_t* quad) {
    for (int i = 0; i < 4; ++i) {
      if (i > 0) text[bytes++] = '.';
      PutNumber(quad[i]);
    }
  }
  void PutNumber(unsigned number) { bytes = static_cast<size_t>(std::to_chars(text + bytes, std::end(text), number).ptr - text); }

  void SetPath(const char* path, size_t capacity) {
    if (capacity == 0) return;
    if (path[0] != '\0') {
      bytes = strnlen(path, capacity);
      std::memcpy(text, path, bytes);
      return;
    }
    // An abstract name may hold any bytes.
    bytes = capacity;
    for (size_t i = 0; i < capacity; ++i) text[i] = path[i] != '\0' ? path[i] : '@';
  }
};

// Reads the address of the peer, else the socket's own; `name` stays as it is if the system has neither. Returns
// false if the descriptor is no socket.
bool AskSystem(int fd, SocketName* name) {
  for (const auto ask : {getpeername, getsockname}) {
    sockaddr_storage address;
    socklen_t length = sizeof address;
    if (ask(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      if (errno == EBADF || errno == ENOTSOCK) return false;
      continue;
    }
    *name = SocketName(reinterpret_cast<const sockaddr*>(&address), std::min<socklen_t>(length, sizeof address));
    if (name->bytes > 0) break;
  }
  return true;
}

// ---- All functions REQUIRE the cold lock.

void SetAddress(ShmFile& socket, const SocketName& name) {
  const uint32_t before = NameOf(socket.name.load(kRelaxed));
  SetFileName(socket, name.view());
  ReleaseName(before);  // after: a reader of the old number finds another version, or the old text
  if (name.is_local) {
    socket.state.fetch_or(kSocketIsLocal, kRelaxed);
  } else {
    socket.state.fetch_and(~kSocketIsLocal, kRelaxed);
  }
}

// Makes a socket for a descriptor. REQUIRES: a class.
ShmFile* Follow(uint32_t class_index, int fd, const SocketName& name) {
  if (static_cast<uint32_t>(fd) >= g_runtime.max_descriptors) {
    CountLoss(Loss::kFileHandles);
    return nullptr;
  }
  ForgetDescriptor(fd);  // closed unnoticed: the descriptor is another socket's now
  ShmFile* socket = AllocateFileSlot(class_index);
  if (socket == nullptr) {
    CountLoss(Loss::kSocketInstances);
    return nullptr;
  }
  SetFileName(*socket, name.view());
  socket->hash.store(static_cast<uint32_t>(fd), kRelaxed);
  PublishFile(*socket, class_index, kFileTemporary | (name.is_local ? kSocketIsLocal : 0));
  GiveDescriptor(fd, *socket);
  return socket;
}

// Does the same for a call that makes sockets. Class 0: the socket is not followed; the descriptor may have been
// another's that was closed unnoticed. Takes the cold lock itself.
ShmFile* FollowIfWanted(uint32_t class_index, int fd, const SocketName& name) {
  if (class_index == 0 && FileOfDescriptor(fd) == nullptr) return nullptr;
  const ColdLock lock;
  if (!lock) {
    CountLoss(Loss::kFileHandles);
    return nullptr;
  }
  if (class_index != 0) return Follow(class_index, fd, name);
  ForgetDescriptor(fd);
  return nullptr;
}

// Ends a call without an event, or prepares the end of one with an event. `change` may change the socket of the
// event. `has_failed`: errno says why.
template <typename Change>
void EndChange(FileWait* call, bool has_failed, Change change) {
  const int error = errno;
  if (call == nullptr) {
    change(nullptr);
  } else {
    const EndedWait ended = EndWait(call->wait);
    uint64_t more = 0;
    if (has_failed) CountFailedWait(call->wait, call->operation, ended, error);
    change(&more);
    FinishFileWait(*call, call->operation, ended, 0, more, [] {});
  }
  errno = error;
}

}  // namespace

uint32_t ClassOfSocketKey(uint32_t key) { return key != 0 && EnsureStarted() ? ClassOfKey(Family::kSocket, key) : 0; }

bool BeginSocketMake(FileWait* call, uint32_t class_index, const char* source_file, uint32_t line) {
  return class_index != 0 && BeginOnClass(call, class_index, Operation::kSocketCreate, {}, source_file, line);
}

void EndSocketMake(FileWait* call, uint32_t class_index, const int* fds, uint32_t count, bool is_local) {
  std::optional<NoSignals> once;  // instead of twice: the first event of a socket makes a cell
  EndChange(call, count == 0, [&](uint64_t* more) {
    SocketName none;
    none.is_local = is_local;
    if (class_index != 0) once.emplace();
    ShmFile* first = nullptr;
    for (uint32_t i = 0; i < count; ++i) {
      ShmFile* made = FollowIfWanted(class_index, fds[i], none);
      if (i == 0) first = made;
    }
    if (call == nullptr || first == nullptr) return;
    call->file = first;
    call->version = first->version.load(kRelaxed);
    NameRecord(*call, first, more);
  });
}

bool BeginSocketChange(FileWait* call, int fd, Operation operation, const char* source_file, uint32_t line) {
  ShmFile* socket = FileOfDescriptor(fd);
  if (socket == nullptr) return false;
  const uint32_t flags = socket->flags.load(kRelaxed);
  constexpr uint32_t kWanted = kFlagEnabled | kFlagSocket;
  return (flags & kWanted) == kWanted && BeginFileWait(call, socket, flags, operation, -1, -1, source_file, line);
}

void EndSocketAddress(FileWait* call, int fd, AddressChange change, const sockaddr* address, socklen_t length) {
  EndChange(call, change == AddressChange::kFailed, [&](uint64_t* more) {
    if (change != AddressChange::kChanged || SocketOfDescriptor(fd) == nullptr) return;
    SocketName name(address, length);
    if (!name.is_whole()) AskSystem(fd, &name);
    if (ColdLock lock; lock) {
      // With an event: the event's object, if it still exists; the descriptor may be another's by now.
      ShmFile* socket = call == nullptr ? SocketOfDescriptor(fd) : HasObject(*call, call->operation) ? call->file : nullptr;
      if (socket == nullptr) return;
      SetAddress(*socket, name);
      if (call != nullptr) NameRecord(*call, socket, more);
    }
  });
}

void EndSocketAccept(FileWait* call, uint32_t class_index, int fd, const sockaddr* peer, socklen_t length) {
  EndChange(call, fd == kFailed, [&](uint64_t*) {
    if (fd < 0) return;
    SocketName name(peer, length);
    if (class_index != 0 && !name.is_whole()) AskSystem(fd, &name);
    FollowIfWanted(class_index, fd, name);
  });
}

SocketBinding BindSocket(uint32_t class_index, int fd) {
  const int error = errno;
  SocketName name;
  SocketBinding done = SocketBinding::kNotASocket;
  if (AskSystem(fd, &name)) {
    done = SocketBinding::kFull;
    if (ColdLock lock; lock && Follow(class_index, fd, name) != nullptr) done = SocketBinding::kDone;
  }
  errno = error;
  return done;
}

void SetSocketAddress(int fd, const sockaddr* address, socklen_t length) {
  if (SocketOfDescriptor(fd) != nullptr) EndSocketAddress(nullptr, fd, AddressChange::kChanged, address, length);
}

void SetSocketThread(int fd) {
  ShmFile* socket = SocketOfDescriptor(fd);
  if (socket != nullptr) socket->thread_id.store(CurrentThreadId(), kRelaxed);
}

void SetSocketState(int fd, bool is_idle) {
  ShmFile* socket = SocketOfDescriptor(fd);
  if (socket == nullptr || (IsStillForked() && !EnsureStarted())) return;  // the socket is the parent's yet
  if (is_idle) {
    socket->state.fetch_or(kSocketIdle, kRelaxed);
  } else {
    socket->state.fetch_and(~kSocketIdle, kRelaxed);
  }
}

}  // namespace perfschema
