// capi/calls.cpp: the functions of the C API that calls.def declares by a shape. file.cpp, stream.cpp and socket.cpp have the others.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "capi/call.h"
#include "record/family/sockets.h"

using perfschema::AddressChange;
using perfschema::EndFileDelete;
using perfschema::FileWait;
using perfschema::NamedFileWait;
using perfschema::Operation;
using perfschema::ShmFile;
using namespace perfschema::capi;

namespace {

// Makes a call that transfers whole items.
template <typename Call>
size_t Items(FILE* stream, Operation operation, size_t size, size_t count, Site site, Call call) {
  return OnDescriptor(DescriptorOf(stream), operation, static_cast<int64_t>(size * count), kNoOffset, site, call,
                      [=](size_t n) { return static_cast<int64_t>(n * size); });
}

// Makes a call on one character.
template <typename Call>
int OneByte(FILE* stream, Operation operation, Site site, Call call) {
  return OnDescriptor(DescriptorOf(stream), operation, 1, kNoOffset, site, call, [](int c) { return int64_t{c != EOF}; });
}

// Makes a call that writes a text.
template <typename Call>
PFS_ALWAYS_INLINE int Text(FILE* stream, const char* text, Site site, Call call) {
  const auto length = static_cast<int64_t>(std::strlen(text));
  return OnDescriptor(DescriptorOf(stream), Operation::kWrite, length, kNoOffset, site, call,
                      [=](int rc) { return rc != EOF ? length : kNoBytes; });
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
    int fd = perfschema::kCancelled;
    ~Ender() { perfschema::EndSocketAccept(wait, class_index, fd, peer, length); }  // also if the thread is canceled
  } ender{perfschema::BeginSocketChange(&wait, fd, Operation::kAccept, site.file, site.line) ? &wait : nullptr,
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
    AddressChange change = AddressChange::kNoChange;
    ~Ender() { perfschema::EndSocketAddress(wait, fd, change, address, length); }  // also if the thread is canceled
  } ender{perfschema::BeginSocketChange(&wait, fd, operation, site.file, site.line) ? &wait : nullptr, fd, address, length};
  const int rc = call();
  // A connection in progress has its peer already.
  const bool has_changed = rc == 0 || (operation == Operation::kConnect && (errno == EINPROGRESS || errno == EINTR));
  ender.change = has_changed ? AddressChange::kChanged : AddressChange::kFailed;
  return rc;
}

}  // namespace

// Only rows of the C API make a function here.
#define PFS_FOR_BOTH(...) __VA_ARGS__
#define PFS_FOR_API(...) __VA_ARGS__
#define PFS_FOR_RUN(...)
#define PFS_FOR_NEW(version) PFS_FOR_RUN
#define PFS_FOR_ONLY(...)
#define CALL(who, system_call, shape, ...) PFS_FOR_##who(PFS_MAKE_##shape(__VA_ARGS__))

#define PFS_MADE(type, name, parameters, ...) \
  type pfs_##name##_at(PFS_LIST parameters, PFS_SITE_) { return __VA_ARGS__; }
#define PFS_MADE_WITH_KEY(type, name, parameters, ...) \
  type pfs_##name##_at(pfs_key_t key, PFS_LIST parameters, PFS_SITE_) { return __VA_ARGS__; }
#define PFS_AT \
  { file, line }

#define PFS_MAKE_HAND(...)
#define PFS_MAKE_OPEN(...)
#define PFS_MAKE_RENAME(...)
#define PFS_MAKE_FOPEN(...)
#define PFS_MAKE_PRINTF(...)
#define PFS_MAKE_SOCKET(...)

// ---- By name ---------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_CREATES(type, name, parameters, arguments, path, is_temporary) \
  PFS_MADE_WITH_KEY(                                                            \
      type, name, parameters,                                                   \
      Open(key, Operation::kCreate, path, kNoFlags, is_temporary, PFS_AT, PFS_CALL_ON_NAME_(name arguments), SameDescriptor))
#define PFS_MAKE_NAME(type, name, parameters, arguments, operation, directory, path, end)              \
  PFS_MADE_WITH_KEY(type, name, parameters,                                                            \
                    OnName(key, Operation::operation, path, PFS_AT, PFS_CALL_ON_NAME_(name arguments), \
                           [=](NamedFileWait* wait, int rc) { end(wait, path, rc); }))

// ---- By descriptor ---------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_CLOSE(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, Close(fd, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_ANYWHERE(type, name, parameters, arguments, operation, size) \
  PFS_MADE(type, name, parameters, TransferAnywhere(fd, Operation::operation, size, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_TRANSFER(type, name, parameters, arguments, operation, size, offset) \
  PFS_MADE(type, name, parameters, Transfer(fd, Operation::operation, size, offset, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_PLAIN(type, name, parameters, arguments, operation, offset) \
  PFS_MADE(type, name, parameters, Plain(fd, Operation::operation, offset, PFS_AT, PFS_CALL_ON_NAME_(name arguments)))
#define PFS_MAKE_SELDOM_PLAIN(type, name, parameters, arguments, operation, offset) \
  PFS_MADE(type, name, parameters, SeldomPlain(fd, Operation::operation, offset, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_CHSIZE(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, ChangeSize(fd, length, PFS_AT, [=] { return name arguments; }))

// ---- By stream -------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_ITEMS(type, name, parameters, arguments, how, operation) \
  PFS_MADE(type, name, parameters, Items(stream, Operation::operation, size, count, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_GETS(type, name, parameters, arguments, how)                                                                  \
  PFS_MADE(type, name, parameters,                                                                                             \
           OnDescriptor(                                                                                                       \
               DescriptorOf(stream), Operation::kRead, size > 0 ? size : 0, kNoOffset, PFS_AT, [=] { return name arguments; }, \
               [](const char* text) { return LengthOf(text); }))
#define PFS_MAKE_CHARACTER(type, name, parameters, arguments, operation) \
  PFS_MADE(type, name, parameters, OneByte(stream, Operation::operation, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_PUTS(type, name, parameters, arguments, how, stream, more) \
  PFS_MADE(type, name, parameters, Text(stream, text, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_VPRINTF(type, name, parameters, arguments, stream) \
  PFS_MADE(type, name, parameters,                                  \
           SeldomTransfer(DescriptorOf(stream), Operation::kWrite, 0, kNoOffset, PFS_AT, [&] { return name arguments; }))
#define PFS_MAKE_ON_STREAM(type, name, parameters, arguments, operation, offset) \
  PFS_MADE(type, name, parameters, SeldomPlain(DescriptorOf(stream), Operation::operation, offset, PFS_AT, [=] { return name arguments; }))

// ---- Sockets ---------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_ACCEPT(type, name, parameters, arguments) \
  PFS_MADE_WITH_KEY(type, name, parameters,                \
                    Accept(key, fd, address, length, PFS_AT, [=](sockaddr* address, socklen_t* length) { return name arguments; }))
#define PFS_MAKE_SOCKET_ADDRESS(type, name, parameters, arguments, operation) \
  PFS_MADE(type, name, parameters, Address(fd, Operation::operation, address, length, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_SOCKET_PLAIN(type, name, parameters, arguments, operation) \
  PFS_MAKE_SELDOM_PLAIN(type, name, parameters, arguments, operation, kNoOffset)
#define PFS_MAKE_LISTEN(...) PFS_MAKE_SOCKET_PLAIN(__VA_ARGS__)
#define PFS_MAKE_SOCKET_OPTION(type, name, parameters, arguments, operation) \
  PFS_MADE(type, name, parameters, SocketOption(Operation::operation, PFS_LIST arguments, PFS_AT, [=] { return name arguments; }))
#define PFS_MAKE_SOCKET_TRANSFER(type, name, parameters, arguments, operation, shown)                                    \
  PFS_MADE(type, name, parameters,                                                                                       \
           OnDescriptor(                                                                                                 \
               fd, Operation::operation, static_cast<int64_t>(shown), kNoOffset, PFS_AT, [=] { return name arguments; }, \
               [](ssize_t n) { return int64_t{n}; }))
#define PFS_MAKE_SOCKET_MESSAGES(type, name, parameters, arguments, operation) \
  PFS_MADE(type, name, parameters,                                             \
           OnDescriptor(                                                       \
               fd, Operation::operation, kNoBytes, kNoOffset, PFS_AT, [=] { return name arguments; }, BytesOf(messages)))

extern "C" {
#include "capi/calls.def"
}
