// capi/call.h: one wrapped call on a file: begin, the plain call, end. calls.def says which calls use which of these.
//
// The event ends in a destructor: read(2) and the like are cancellation points, and a thread that is canceled in one unwinds through here.
// Hence nothing here is noexcept. errno passes through: Begin and End preserve it.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "perfschema/pfs.h"
#include "record/family/file_events.h"
#include "shm/cell.h"

namespace perfschema::capi {

struct Site {
  const char* file;
  uint32_t line;
};

inline constexpr int64_t kNoBytes = -1;   // requested: NUMBER_OF_BYTES has no meaning for the operation; moved: the call failed
inline constexpr int64_t kNoOffset = -1;  // the offset in the file is not known without extra work
inline constexpr int kNoFlags = 0;        // only open(2) has FLAGS

// Takes the parentheses off a list of calls.def.
#define PFS_LIST(...) __VA_ARGS__

inline int SameDescriptor(int fd) { return fd; }

// Returns where a seek leads, if that is known.
inline int64_t OffsetOf(off_t offset, int whence) { return whence == SEEK_SET ? offset : kNoOffset; }

// Returns how much a call has read that returns a text.
inline int64_t LengthOf(const char* text) { return text != nullptr ? static_cast<int64_t>(std::strlen(text)) : 0; }

// A stream belongs to the file of its descriptor. Returns the descriptor, or -1 for NULL and for streams without one, which then make the
// plain call. Preserves errno.
inline int DescriptorOf(FILE* stream) {
  if (stream == nullptr) return -1;
  const int error = errno;
  const int fd = fileno(stream);
  errno = error;
  return fd;
}

// The result of a call as a number, and back.
template <typename Result>
int64_t NumberOf(Result result) {
  if constexpr (std::is_pointer_v<Result>) {
    return reinterpret_cast<intptr_t>(result);
  } else {
    return static_cast<int64_t>(result);
  }
}
template <typename Result>
Result ResultOf(int64_t number) {
  if constexpr (std::is_pointer_v<Result>) {
    return reinterpret_cast<Result>(static_cast<intptr_t>(number));
  } else {
    return static_cast<Result>(number);
  }
}

// Makes the plain call on a name. Sanitizers must not object to a NULL that the program passes on and the system refuses with EFAULT.
#define PFS_CALL_ON_NAME_(...) \
  [=]() __attribute__((no_sanitize("nonnull-attribute"))) { return __VA_ARGS__; }

// Returns whether `path` is NULL, which the plain call refuses. The C library declares names as nonnull; the compiler must not use that
// here.
inline bool IsNull(const char* path) {
  asm("" : "+r"(path));
  return path == nullptr;
}

// Makes a call on a descriptor. `call` makes it, `bytes` computes from its result how much was transferred.
template <typename Call, typename Bytes>
PFS_ALWAYS_INLINE auto OnDescriptor(int fd, Operation operation, int64_t requested, int64_t offset, Site site, Call call, Bytes bytes) {
  return DescriptorOperation(fd, operation, requested, offset, site.file, site.line, call, bytes);
}

// The same for a call that programs seldom make: it has no body of its own, and takes 80 instructions more.
template <bool kShowsBytes, typename Call, typename Bytes>
inline auto SeldomOnDescriptor(int fd, Operation operation, int64_t requested, int64_t offset, Site site, Call call, Bytes bytes) {
  using Result = decltype(call());
  struct Typed {
    Call call;
    Bytes bytes;
  } const typed{call, bytes};
  const AnyFileCall any{
      [](const void* at) { return NumberOf(static_cast<const Typed*>(at)->call()); },
      [](const void* at, int64_t result) { return int64_t{static_cast<const Typed*>(at)->bytes(ResultOf<Result>(result))}; }, &typed};
  return ResultOf<Result>(AnyDescriptorOperation<kShowsBytes>(fd, operation, requested, offset, site.file, site.line, any));
}

// Makes a call that transfers bytes and returns how many, or -1.
template <typename Call>
PFS_ALWAYS_INLINE auto Transfer(int fd, Operation operation, size_t requested, int64_t offset, Site site, Call call) {
  return OnDescriptor(fd, operation, static_cast<int64_t>(requested), offset, site, call, [](auto n) { return static_cast<int64_t>(n); });
}
template <typename Call>
inline auto SeldomTransfer(int fd, Operation operation, size_t requested, int64_t offset, Site site, Call call) {
  return SeldomOnDescriptor<true>(fd, operation, static_cast<int64_t>(requested), offset, site, call,
                                  [](auto n) { return static_cast<int64_t>(n); });
}

// The same, for a descriptor that is a socket as often as a file.
template <typename Call>
inline __attribute__((always_inline)) auto TransferAnywhere(int fd, Operation operation, size_t requested, Site site, Call call) {
  return DescriptorOperation<true>(fd, operation, static_cast<int64_t>(requested), kNoOffset, site.file, site.line, call,
                                   [](auto n) { return static_cast<int64_t>(n); });
}

// Makes a call without bytes.
template <typename Call>
PFS_ALWAYS_INLINE auto Plain(int fd, Operation operation, int64_t offset, Site site, Call call) {
  return OnDescriptor(fd, operation, kNoBytes, offset, site, call, [](auto) { return int64_t{0}; });
}
template <typename Call>
inline auto SeldomPlain(int fd, Operation operation, int64_t offset, Site site, Call call) {
  return SeldomOnDescriptor<false>(fd, operation, kNoBytes, offset, site, call, [](auto rc) { return rc < 0 ? kNoBytes : int64_t{0}; });
}

// Makes a call that reads an option of a socket. SO_ERROR says that a connection has failed which was made without waiting: the call has
// failed then for call_sites, though not for the program.
template <typename Call>
inline int SocketOption(Operation operation, int fd, int level, int option, const void* value, const socklen_t* length, Site site,
                        Call call) {
  const int error = errno;
  int found = 0;
  const int rc = SeldomOnDescriptor<false>(fd, operation, kNoBytes, kNoOffset, site, call, [&found, level, option, value, length](int rc) {
    if (rc < 0) return kNoBytes;
    if (level == SOL_SOCKET && option == SO_ERROR && *length == sizeof found) std::memcpy(&found, value, sizeof found);
    if (found == 0) return int64_t{0};
    errno = found;  // why it has failed
    return kNoBytes;
  });
  if (found != 0) errno = error;
  return rc;
}

// Makes a call that changes the size of a file.
template <typename Call>
inline int ChangeSize(int fd, off_t length, Site site, Call call) {
  return SeldomOnDescriptor<true>(fd, Operation::kChsize, length, kNoOffset, site, call,
                                  [=](int rc) { return rc == 0 ? int64_t{length} : kNoBytes; });
}

// Makes a call that opens `path`, for an event that has begun, or without one. `descriptor` gets the new descriptor from the result, -1 if
// there is none.
template <typename Call, typename Descriptor>
inline __attribute__((always_inline)) auto OpenAs(NamedFileWait* wait, bool has_begun, const char* path, bool temporary, Call call,
                                                  Descriptor descriptor) {
  if (!has_begun) {
    const auto result = call();
    // A plain close() may have left the number bound to another file.
    if (const int fd = descriptor(result); FileOfDescriptor(fd) != nullptr) UnbindFile(fd);
    return result;
  }
  struct Ender {
    NamedFileWait* wait;
    const char* path;
    bool temporary;
    int fd = kCancelled;
    ~Ender() { EndFileOpen(wait, path, fd, temporary); }
  } ender{wait, path, temporary};
  const auto result = call();
  ender.fd = descriptor(result);
  return result;
}

// Makes a call that opens `path`. `is_readable`: IsReadable(path) has said so.
template <typename Call, typename Descriptor>
inline auto Open(pfs_key_t key, Operation operation, const char* path, int flags, bool temporary, Site site, Call call,
                 Descriptor descriptor, bool is_readable = false) {
  NamedFileWait wait;
  wait.is_readable = is_readable;
  const bool makes_name = temporary && operation == Operation::kCreate;  // mkstemp
  const bool has_begun = !IsNull(path) && BeginFileOpen(&wait, key, operation, makes_name ? nullptr : path, flags, site.file, site.line);
  return OpenAs(&wait, has_begun, path, temporary, call, descriptor);
}

// Makes a call that closes `fd`. The descriptor loses its name before: another thread may get the number as soon as it is free.
template <typename Call>
inline auto Close(int fd, Site site, Call call) {
  FileWait wait;
  if (!BeginFileClose(&wait, fd, site.file, site.line)) return call();
  struct Ender {
    FileWait* wait;
    int rc = -1;
    ~Ender() { EndFileClose(wait, rc); }
  } ender{&wait};
  const auto result = call();
  ender.rc = result;
  return result;
}

// Makes a call on a name, for an event that has begun, or without one. `end(wait, rc)` ends the event; without an event it is called only
// if the call succeeds, and gets nullptr.
template <typename Call, typename End>
inline __attribute__((always_inline)) int OnNameAs(NamedFileWait* wait, bool has_begun, Call call, End end) {
  if (!has_begun) {
    const int plain = call();
    if (plain == 0) end(nullptr, 0);
    return plain;
  }
  struct Ender {
    NamedFileWait* wait;
    End& end;
    int rc = kCancelled;
    ~Ender() { end(wait, rc); }
  } ender{wait, end};
  const int rc = call();
  ender.rc = rc;
  return rc;
}

// Makes a call on a name. `end`: as above.
template <typename Call, typename End>
inline int OnName(pfs_key_t key, Operation operation, const char* path, Site site, Call call, End end, bool is_readable = false) {
  NamedFileWait wait;
  wait.is_readable = is_readable;
  const bool has_begun = !IsNull(path) && BeginFileName(&wait, key, operation, path, site.file, site.line);
  return OnNameAs(&wait, has_begun, call, end);
}

// Ends the event of most calls on a name.
inline void EndName(NamedFileWait* wait, const char* name, int rc) {
  if (wait != nullptr) EndFileName(wait, name, rc);
}

}  // namespace perfschema::capi
