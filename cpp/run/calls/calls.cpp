// run/calls/calls.cpp: the replacements that capi/calls.def declares by a shape. files.cpp has those of which each has a body of its own.
//
// On 64-bit systems the 64 forms are the same calls. glibc calls the forms with _chk and _2 instead where a program was compiled with
// _FORTIFY_SOURCE. An event of a stream is a call of the program, not a system call: the stream's buffer lies between them.
#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstring>

#include "record/family/metadata.h"
#include "run/calls/file_calls.h"
#include "run/calls/host_names.h"
#include "run/calls/stream_calls.h"
#include "run/calls/wait_calls.h"

using perfschema::EndFileDelete;
using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;
using capi::EndName;
using capi::kNoBytes;
using capi::kNoOffset;
using capi::OffsetOf;

namespace {

// The event "idle", from construction to destruction: the waits are cancellation points.
class Idle {
 public:
  explicit Idle(const void* caller) {
    const SourceLine at = SourceOfScript(SourceAt(caller));
    (void)pfs_idle_begin_at(&wait_, at.file, at.line);
  }
  ~Idle() { pfs_idle_end(&wait_); }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;

 private:
  pfs_wait_t wait_;
};

template <typename Call>
[[gnu::always_inline]] inline int Idling(bool waits, const void* caller, Call call) {
  if (IsPlain()) return call();
  if (waits) {
    const Idle event(caller);
    return call();
  }
  const int found = call();
  if (found == 0) perfschema::CountEmptyPoll(static_cast<const char*>(caller), kIsCode);
  return found;
}

// Returns whether an operation on semaphores of System V may wait: not if all are V, or come back at once.
bool MayBlock(const sembuf* operations, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (operations[i].sem_op <= 0 && (operations[i].sem_flg & IPC_NOWAIT) == 0) return true;
  }
  return false;
}

int Accepted(int fd, const void* caller) {
  if (IsDecoding()) BeginConversation(fd, SiteOf(caller)->text);
  return fd;
}

bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// Bytes that the kernel takes from a file are written by the descriptor. No call of the program reads that file.
template <typename Call>
ssize_t SendFile(int fd, size_t size, const void* caller, Call call) {
  if (IsPlain()) return call();
  const ssize_t done = capi::Transfer(fd, Operation::kWrite, size, kNoOffset, KnownSite(fd, caller), call);
  if (IsDecoding() && done > 0) SawHole(fd, static_cast<size_t>(done));
  return done;
}

}  // namespace

// Only rows of this library make a function here.
#define PFS_FOR_BOTH(...) __VA_ARGS__
#define PFS_FOR_RUN(...) __VA_ARGS__
#define PFS_FOR_API(...)
#define PFS_FOR_NEW(version) PFS_FOR_RUN
#define PFS_FOR_ONLY(...)
#define CALL(who, system_call, shape, ...) PFS_FOR_##who(PFS_MAKE_##shape(__VA_ARGS__))

#define PFS_REAL_CALL(name, arguments) [=] { return PFS_REAL(name) arguments; }
#define PFS_MADE(type, name, parameters, ...) \
  PFS_REPLACES type name parameters { return __VA_ARGS__; }

#define PFS_MAKE_HAND(...)
#define PFS_MAKE_LISTEN(...)

// ---- By name ---------------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_OPEN(type, name, parameters, arguments, directory)                          \
  PFS_REPLACES type name parameters {                                                        \
    mode_t mode = 0;                                                                         \
    if (HasMode(flags)) {                                                                    \
      va_list list;                                                                          \
      va_start(list, flags);                                                                 \
      mode = va_arg(list, mode_t);                                                           \
      va_end(list);                                                                          \
    }                                                                                        \
    return OpenedByName(directory, path, flags, PFS_CALLER, PFS_REAL_CALL(name, arguments)); \
  }
// These abort if `flags` need a mode.
#define PFS_MAKE_OPEN_2(type, name, parameters, arguments, directory) \
  PFS_REPLACES type name parameters {                                 \
    const auto call = PFS_REAL_CALL(name, arguments);                 \
    if (HasMode(flags)) return call();                                \
    return OpenedByName(directory, path, flags, PFS_CALLER, call);    \
  }
#define PFS_MAKE_CREATES(type, name, parameters, arguments, path, is_temporary) \
  PFS_MADE(type, name, parameters,                                              \
           Opened(Operation::kCreate, AT_FDCWD, path, capi::kNoFlags, is_temporary, PFS_CALLER, PFS_REAL_CALL(name, arguments)))
#define PFS_MAKE_FOPEN(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, OpenedStream(path, mode, PFS_CALLER, PFS_REAL(name)))
#define PFS_MAKE_FREOPEN(type, name, parameters, arguments) PFS_MADE(type, name, parameters, Reopened(path, mode, stream, PFS_REAL(name)))
#define PFS_MAKE_NAME(type, name, parameters, arguments, operation, directory, path, end) \
  PFS_MADE(type, name, parameters, OnName(Operation::operation, directory, path, PFS_CALLER, PFS_REAL_CALL(name, arguments), end))
#define PFS_MAKE_STAT(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, StatByName(flags, directory, path, PFS_CALLER, PFS_REAL_CALL(name, arguments)))
#define PFS_MAKE_RENAME(type, name, parameters, arguments, from_directory, to_directory) \
  PFS_MADE(type, name, parameters, Renamed(from_directory, from, to_directory, to, PFS_CALLER, PFS_REAL_CALL(name, arguments)))

// ---- By descriptor ---------------------------------------------------------------------------------------------------------------------

// A call that transfers bytes, which a decoder may see.
#define PFS_TRANSFER(type, name, parameters, arguments, operation, ...)                        \
  PFS_REPLACES type name parameters {                                                          \
    const auto call = PFS_REAL_CALL(name, arguments);                                          \
    if (IsPlain()) return call();                                                              \
    const type done = __VA_ARGS__;                                                             \
    if (IsDecoding()) Saw(Operation::operation == Operation::kRead, done, PFS_LIST arguments); \
    return done;                                                                               \
  }
#define PFS_MAKE_ANYWHERE(type, name, parameters, arguments, operation, size) \
  PFS_TRANSFER(type, name, parameters, arguments, operation,                  \
               capi::TransferAnywhere(fd, Operation::operation, size, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_TRANSFER(type, name, parameters, arguments, operation, size, offset) \
  PFS_TRANSFER(type, name, parameters, arguments, operation,                          \
               capi::Transfer(fd, Operation::operation, size, offset, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_SELDOM_TRANSFER(type, name, parameters, arguments, operation, size, offset) \
  PFS_TRANSFER(type, name, parameters, arguments, operation,                                 \
               capi::SeldomTransfer(fd, Operation::operation, size, offset, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_SENDFILE(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, SendFile(fd, size, PFS_CALLER, PFS_REAL_CALL(name, arguments)))

// Another call.
#define PFS_ON_DESCRIPTOR(type, name, parameters, arguments, ...) \
  PFS_REPLACES type name parameters {                             \
    const auto call = PFS_REAL_CALL(name, arguments);             \
    if (IsPlain()) return call();                                 \
    return __VA_ARGS__;                                           \
  }
#define PFS_MAKE_CLOSE(type, name, parameters, arguments) PFS_ON_DESCRIPTOR(type, name, parameters, arguments, Closed(fd, PFS_CALLER, call))
#define PFS_MAKE_COPY(type, name, parameters, arguments, operation, size) \
  PFS_ON_DESCRIPTOR(type, name, parameters, arguments,                    \
                    capi::SeldomTransfer(fd, Operation::operation, size, kNoOffset, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_PLAIN(type, name, parameters, arguments, operation, offset) \
  PFS_ON_DESCRIPTOR(type, name, parameters, arguments, capi::Plain(fd, Operation::operation, offset, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_SELDOM_PLAIN(type, name, parameters, arguments, operation, offset) \
  PFS_ON_DESCRIPTOR(type, name, parameters, arguments, capi::SeldomPlain(fd, Operation::operation, offset, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_CHSIZE(type, name, parameters, arguments) \
  PFS_ON_DESCRIPTOR(type, name, parameters, arguments, capi::ChangeSize(fd, length, KnownSite(fd, PFS_CALLER), call))
#define PFS_MAKE_FRESH(type, name, parameters, arguments) PFS_MADE(type, name, parameters, IsFresh(PFS_REAL(name) arguments))

// ---- By stream -------------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_ITEMS(type, name, parameters, arguments, how, operation)                                             \
  PFS_MADE(type, name, parameters,                                                                                    \
           OnStream<How::how>(stream, Operation::operation, size * count, PFS_CALLER, PFS_REAL_CALL(name, arguments), \
                              [=](size_t n) { return static_cast<int64_t>(n * size); }))
#define PFS_MAKE_GETS(type, name, parameters, arguments, how)                                                                            \
  PFS_MADE(                                                                                                                              \
      type, name, parameters,                                                                                                            \
      OnStream<How::how>(stream, Operation::kRead, size > 0 ? static_cast<size_t>(size) : 0, PFS_CALLER, PFS_REAL_CALL(name, arguments), \
                         [](const char* text) { return text != nullptr ? static_cast<int64_t>(std::strlen(text)) : 0; }))
#define PFS_MAKE_GETLINE(type, name, parameters, arguments)                                                                          \
  PFS_MADE(type, name, parameters, OnStream(stream, Operation::kRead, 0, PFS_CALLER, PFS_REAL_CALL(name, arguments), [](ssize_t n) { \
             return std::max<int64_t>(n, 0);                                                                                         \
           }))
#define PFS_MAKE_PUTS(type, name, parameters, arguments, how, stream, more)                                \
  PFS_REPLACES type name parameters {                                                                      \
    const size_t size = std::strlen(text) + (more);                                                        \
    return OnStream<How::how>(stream, Operation::kWrite, size, PFS_CALLER, PFS_REAL_CALL(name, arguments), \
                              [=](int rc) { return rc != EOF ? static_cast<int64_t>(size) : kNoBytes; });  \
  }
#define PFS_MAKE_VPRINTF(type, name, parameters, arguments, stream) \
  PFS_MADE(type, name, parameters, Printed(stream, PFS_CALLER, [&] { return PFS_REAL(name) arguments; }))
#define PFS_MAKE_VSCANF(type, name, parameters, arguments, stream) \
  PFS_MADE(type, name, parameters, Scanned(stream, PFS_CALLER, [&] { return PFS_REAL(name) arguments; }))
#define PFS_OF_LIST(type, name, parameters, ...) \
  PFS_REPLACES type name parameters {            \
    va_list arguments;                           \
    va_start(arguments, format);                 \
    const type n = __VA_ARGS__;                  \
    va_end(arguments);                           \
    return n;                                    \
  }
#define PFS_MAKE_PRINTF(type, name, parameters, arguments, stream, call) \
  PFS_OF_LIST(type, name, parameters, Printed(stream, PFS_CALLER, [&] { return PFS_REAL(call) arguments; }))
#define PFS_MAKE_SCANF(type, name, parameters, arguments, stream, call) \
  PFS_OF_LIST(type, name, parameters, Scanned(stream, PFS_CALLER, [&] { return PFS_REAL(call) arguments; }))
// A stream that has made no event is not adopted for a call that moves no bytes.
#define PFS_MAKE_ON_STREAM(type, name, parameters, arguments, operation, offset)                  \
  PFS_REPLACES type name parameters {                                                             \
    const auto call = PFS_REAL_CALL(name, arguments);                                             \
    const int descriptor = DescriptorOf(stream);                                                  \
    if (IsPlain() || perfschema::FileOfDescriptor(descriptor) == nullptr) return call();          \
    return capi::SeldomPlain(descriptor, Operation::operation, offset, SiteAt(PFS_CALLER), call); \
  }

// ---- Sockets ---------------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_SOCKET(result, name, parameters, arguments)                                                           \
  PFS_REPLACES result name parameters {                                                                                \
    if (IsPlain()) return PFS_REAL(name) arguments;                                                                    \
    const Site& site = *PFS_RUN_SITE;                                                                                  \
    return pfs_##name##_at(KeyOfSocket(KindOfSocket(domain, type), site), PFS_LIST arguments, site.text, kWholePlace); \
  }
#define PFS_MAKE_ACCEPT(type, name, parameters, arguments)                                                             \
  PFS_REPLACES type name parameters {                                                                                  \
    if (IsPlain()) return PFS_REAL(name) arguments;                                                                    \
    const char* const text = KnownSite(fd, PFS_CALLER).file;                                                           \
    return Accepted(pfs_##name##_at(KeyOfSocket("accepted", *PFS_RUN_SITE), PFS_LIST arguments, text, kIsCode), text); \
  }
// A call of the C API with the same arguments.
#define PFS_SOCKET_CALL(type, name, parameters, arguments, ...) \
  PFS_REPLACES type name parameters {                           \
    if (IsPlain()) return PFS_REAL(name) arguments;             \
    const char* const text = KnownSite(fd, PFS_CALLER).file;    \
    return pfs_##name##_at(PFS_LIST arguments, text, kIsCode);  \
  }
#define PFS_MAKE_SOCKET_ADDRESS(...) PFS_SOCKET_CALL(__VA_ARGS__)
#define PFS_MAKE_SOCKET_PLAIN(...) PFS_SOCKET_CALL(__VA_ARGS__)
#define PFS_MAKE_SOCKET_OPTION(...) PFS_SOCKET_CALL(__VA_ARGS__)
#define PFS_MAKE_SOCKET_MESSAGES(...) PFS_SOCKET_CALL(__VA_ARGS__)
// One that transfers bytes. The event is made here, not by the C API: a call more costs much where the processor forgets its predictions at
// each system call.
#define PFS_MAKE_SOCKET_TRANSFER(type, name, parameters, arguments, operation, shown)                                                    \
  PFS_REPLACES type name parameters {                                                                                                    \
    const auto call = PFS_REAL_CALL(name, arguments);                                                                                    \
    if (IsPlain()) return call();                                                                                                        \
    const ssize_t done = capi::OnDescriptor(fd, Operation::operation, static_cast<int64_t>(shown), kNoOffset, KnownSite(fd, PFS_CALLER), \
                                            call, [](ssize_t n) { return int64_t{n}; });                                                 \
    if (IsDecoding() && ((flags)&MSG_PEEK) == 0) {                                                                                       \
      Saw(perfschema::kOperations[static_cast<int>(Operation::operation)].lane == perfschema::kReadLane, done, PFS_LIST arguments);      \
    }                                                                                                                                    \
    return done;                                                                                                                         \
  }
#define PFS_MAKE_IDLE(type, name, parameters, arguments, waits) \
  PFS_MADE(type, name, parameters, Idling(waits, PFS_CALLER, PFS_REAL_CALL(name, arguments)))

// ---- Other waits -----------------------------------------------------------------------------------------------------------------------

#define PFS_MAKE_WAIT(type, name, parameters, arguments, kind, waits) \
  PFS_MADE(type, name, parameters, WaitedAtPlace(Kind::kind, waits, PFS_CALLER, PFS_REAL_CALL(name, arguments)))
#define PFS_MAKE_SPAWN(type, name, parameters, arguments) \
  PFS_MADE(type, name, parameters, WaitedAtPlace(Kind::kChild, true, PFS_CALLER, PFS_REAL_CALL(name, arguments), Operation::kCreate))
#define PFS_MAKE_RESOLVE(type, name, parameters, arguments, asked) \
  PFS_MADE(type, name, parameters, Resolved(asked, PFS_CALLER, PFS_REAL_CALL(name, arguments)))
#define PFS_MAKE_FILE_LOCK(type, name, parameters, arguments, waits) \
  PFS_MADE(type, name, parameters, LockedFile(fd, waits, PFS_CALLER, PFS_REAL_CALL(name, arguments)))

#include "capi/calls.def"
