// run/files.cpp: replaces the calls on descriptors, of files and sockets: read, write, fsync ... close.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdarg>

#include "run/file_calls.h"

#ifndef CLOSE_RANGE_CLOEXEC  // since glibc 2.34: a wheel is compiled with older headers
#define CLOSE_RANGE_CLOEXEC 4U
#endif

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

extern "C" {
// glibc calls these instead where a program was compiled with _FORTIFY_SOURCE.
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
int __dprintf_chk(int, int, const char*, ...);
int __vdprintf_chk(int, int, const char*, va_list);
// A program that was linked with a glibc before 2.33 calls these.
int __fxstat(int, int, struct stat*);
int __fxstat64(int, int, struct stat64*);
}

namespace {

int Duplicate(int from, int to, const void* caller) {
  if (to < 0 || from == to || IsPlain()) return to;
  const int error = errno;
  Duplicated(from, to, *SiteOf(caller));
  errno = error;
  return to;
}

}  // namespace

PFS_REPLACES int close(int fd) {
  const auto call = [=] { return PFS_REAL(close)(fd); };
  return IsPlain() ? call() : Closed(fd, PFS_CALLER, call);
}

// A call that transfers bytes. `transfer`: Transfer, or SeldomTransfer if programs seldom make it.
#define PFS_TRANSFER_BY(transfer, name, parameters, operation, size, offset, ...)                      \
  PFS_REPLACES ssize_t name parameters {                                                               \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                                     \
    if (IsPlain()) return call();                                                                      \
    const ssize_t done = capi::transfer(fd, operation, size, offset, KnownSite(fd, PFS_CALLER), call); \
    if (IsDecoding()) Saw(operation == Operation::kRead, done, __VA_ARGS__);                           \
    return done;                                                                                       \
  }
#define PFS_TRANSFER(...) PFS_TRANSFER_BY(Transfer, __VA_ARGS__)
#define PFS_SELDOM_TRANSFER(...) PFS_TRANSFER_BY(SeldomTransfer, __VA_ARGS__)
// The same where the descriptor may well be a socket's.
#define PFS_TRANSFER_ANYWHERE(name, parameters, operation, size, ...)                                  \
  PFS_REPLACES ssize_t name parameters {                                                               \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                                     \
    if (IsPlain()) return call();                                                                      \
    const ssize_t done = capi::TransferAnywhere(fd, operation, size, KnownSite(fd, PFS_CALLER), call); \
    if (IsDecoding()) Saw(operation == Operation::kRead, done, __VA_ARGS__);                           \
    return done;                                                                                       \
  }
PFS_TRANSFER_ANYWHERE(read, (int fd, void* buffer, size_t size), Operation::kRead, size, fd, buffer, size)
PFS_TRANSFER_ANYWHERE(__read_chk, (int fd, void* buffer, size_t size, size_t capacity), Operation::kRead, size, fd, buffer, size, capacity)
PFS_TRANSFER_ANYWHERE(write, (int fd, const void* buffer, size_t size), Operation::kWrite, size, fd, buffer, size)
PFS_TRANSFER(pread, (int fd, void* buffer, size_t size, off_t at), Operation::kRead, size, at, fd, buffer, size, at)
PFS_TRANSFER(pread64, (int fd, void* buffer, size_t size, off64_t at), Operation::kRead, size, at, fd, buffer, size, at)
PFS_SELDOM_TRANSFER(__pread_chk, (int fd, void* buffer, size_t size, off_t at, size_t capacity), Operation::kRead, size, at, fd, buffer,
                    size, at, capacity)
PFS_SELDOM_TRANSFER(__pread64_chk, (int fd, void* buffer, size_t size, off64_t at, size_t capacity), Operation::kRead, size, at, fd, buffer,
                    size, at, capacity)
PFS_TRANSFER(pwrite, (int fd, const void* buffer, size_t size, off_t at), Operation::kWrite, size, at, fd, buffer, size, at)
PFS_TRANSFER(pwrite64, (int fd, const void* buffer, size_t size, off64_t at), Operation::kWrite, size, at, fd, buffer, size, at)
PFS_TRANSFER_ANYWHERE(readv, (int fd, const iovec* parts, int count), Operation::kRead, 0, fd, parts, count)
PFS_TRANSFER_ANYWHERE(writev, (int fd, const iovec* parts, int count), Operation::kWrite, 0, fd, parts, count)
PFS_SELDOM_TRANSFER(preadv, (int fd, const iovec* parts, int count, off_t at), Operation::kRead, 0, at, fd, parts, count, at)
PFS_SELDOM_TRANSFER(preadv64, (int fd, const iovec* parts, int count, off64_t at), Operation::kRead, 0, at, fd, parts, count, at)
PFS_SELDOM_TRANSFER(pwritev, (int fd, const iovec* parts, int count, off_t at), Operation::kWrite, 0, at, fd, parts, count, at)
PFS_SELDOM_TRANSFER(pwritev64, (int fd, const iovec* parts, int count, off64_t at), Operation::kWrite, 0, at, fd, parts, count, at)
PFS_SELDOM_TRANSFER(preadv2, (int fd, const iovec* parts, int count, off_t at, int flags), Operation::kRead, 0, at, fd, parts, count, at,
                    flags)
PFS_SELDOM_TRANSFER(preadv64v2, (int fd, const iovec* parts, int count, off64_t at, int flags), Operation::kRead, 0, at, fd, parts, count,
                    at, flags)
PFS_SELDOM_TRANSFER(pwritev2, (int fd, const iovec* parts, int count, off_t at, int flags), Operation::kWrite, 0, at, fd, parts, count, at,
                    flags)
PFS_SELDOM_TRANSFER(pwritev64v2, (int fd, const iovec* parts, int count, off64_t at, int flags), Operation::kWrite, 0, at, fd, parts, count,
                    at, flags)

// A call without bytes. `plain`: Plain or SeldomPlain.
#define PFS_ON_DESCRIPTOR_BY(plain, type, name, parameters, operation, offset, ...) \
  PFS_REPLACES type name parameters {                                               \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                  \
    if (IsPlain()) return call();                                                   \
    return capi::plain(fd, operation, offset, KnownSite(fd, PFS_CALLER), call);     \
  }
#define PFS_ON_DESCRIPTOR(...) PFS_ON_DESCRIPTOR_BY(Plain, __VA_ARGS__)
#define PFS_SELDOM_ON_DESCRIPTOR(...) PFS_ON_DESCRIPTOR_BY(SeldomPlain, __VA_ARGS__)
PFS_ON_DESCRIPTOR(off_t, lseek, (int fd, off_t offset, int whence), Operation::kSeek, whence == SEEK_SET ? offset : capi::kNoOffset, fd,
                  offset, whence)
PFS_ON_DESCRIPTOR(off64_t, lseek64, (int fd, off64_t offset, int whence), Operation::kSeek, whence == SEEK_SET ? offset : capi::kNoOffset,
                  fd, offset, whence)
PFS_SELDOM_ON_DESCRIPTOR(int, fsync, (int fd), Operation::kSync, capi::kNoOffset, fd)
PFS_SELDOM_ON_DESCRIPTOR(int, fdatasync, (int fd), Operation::kSync, capi::kNoOffset, fd)
PFS_ON_DESCRIPTOR(int, fstat, (int fd, struct stat* result), Operation::kStat, capi::kNoOffset, fd, result)
PFS_ON_DESCRIPTOR(int, fstat64, (int fd, struct stat64* result), Operation::kStat, capi::kNoOffset, fd, result)
PFS_SELDOM_ON_DESCRIPTOR(int, __fxstat, (int version, int fd, struct stat* result), Operation::kStat, capi::kNoOffset, version, fd, result)
PFS_SELDOM_ON_DESCRIPTOR(int, __fxstat64, (int version, int fd, struct stat64* result), Operation::kStat, capi::kNoOffset, version, fd,
                         result)
PFS_SELDOM_ON_DESCRIPTOR(int, syncfs, (int fd), Operation::kSync, capi::kNoOffset, fd)
PFS_SELDOM_ON_DESCRIPTOR(int, sync_file_range, (int fd, off64_t at, off64_t size, unsigned flags), Operation::kSync, at, fd, at, size,
                         flags)
PFS_SELDOM_ON_DESCRIPTOR(int, fallocate, (int fd, int mode, off_t at, off_t size), Operation::kChsize, at, fd, mode, at, size)
PFS_SELDOM_ON_DESCRIPTOR(int, fallocate64, (int fd, int mode, off64_t at, off64_t size), Operation::kChsize, at, fd, mode, at, size)
PFS_SELDOM_ON_DESCRIPTOR(int, posix_fallocate, (int fd, off_t at, off_t size), Operation::kChsize, at, fd, at, size)
PFS_SELDOM_ON_DESCRIPTOR(int, posix_fallocate64, (int fd, off64_t at, off64_t size), Operation::kChsize, at, fd, at, size)

#define PFS_FTRUNCATE(name, offset)                            \
  PFS_REPLACES int name(int fd, offset length) {               \
    if (IsPlain()) return PFS_REAL(name)(fd, length);          \
    const capi::Site site = KnownSite(fd, PFS_CALLER);         \
    return pfs_ftruncate_at(fd, length, site.file, site.line); \
  }
PFS_FTRUNCATE(ftruncate, off_t)
PFS_FTRUNCATE(ftruncate64, off64_t)

PFS_REPLACES int dup(int fd) { return Duplicate(fd, PFS_REAL(dup)(fd), PFS_CALLER); }
PFS_REPLACES int dup2(int fd, int to) { return Duplicate(fd, PFS_REAL(dup2)(fd, to), PFS_CALLER); }
PFS_REPLACES int dup3(int fd, int to, int flags) { return Duplicate(fd, PFS_REAL(dup3)(fd, to, flags), PFS_CALLER); }

#define PFS_FCNTL(name)                                                                           \
  PFS_REPLACES int name(int fd, int command, ...) {                                               \
    va_list arguments;                                                                            \
    va_start(arguments, command);                                                                 \
    void* const argument = va_arg(arguments, void*);                                              \
    va_end(arguments);                                                                            \
    const int rc = PFS_REAL(name)(fd, command, argument);                                         \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? Duplicate(fd, rc, PFS_CALLER) : rc; \
  }
PFS_FCNTL(fcntl)
PFS_FCNTL(fcntl64)

namespace {
// Says that all descriptors of a range are free. Before the call, as for close(): if it fails, they are adopted again.
void ForgetRange(unsigned first, unsigned last) {
  for (unsigned fd = first; fd <= last && fd < perfschema::g_runtime.max_descriptors; ++fd) {
    const auto number = static_cast<int>(fd);
    if (perfschema::FileOfDescriptor(number) != nullptr) perfschema::UnbindFile(number);
    ForgetAdopted(number);
    if (IsDecoding()) EndConversation(number);
  }
}
}  // namespace
PFS_REPLACES int close_range(unsigned first, unsigned last, int flags) {
  if ((flags & CLOSE_RANGE_CLOEXEC) == 0 && !IsPlain()) ForgetRange(first, last);
  return PFS_REAL(close_range)(first, last, flags);
}
PFS_REPLACES void closefrom(int first) {
  if (!IsPlain()) ForgetRange(static_cast<unsigned>(std::max(first, 0)), ~0u);
  PFS_REAL(closefrom)(first);
}

// The kernel copies from one file to the other: `to` has the event.
namespace {
template <typename Call>
ssize_t Copied(int to, size_t size, const void* caller, Call call) {
  return IsPlain() ? call() : capi::SeldomTransfer(to, Operation::kWrite, size, capi::kNoOffset, KnownSite(to, caller), call);
}
}  // namespace
PFS_REPLACES ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t size, unsigned flags) {
  return Copied(to, size, PFS_CALLER, [=] { return PFS_REAL(copy_file_range)(from, from_at, to, to_at, size, flags); });
}
PFS_REPLACES ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, size_t size, unsigned flags) {
  return Copied(to, size, PFS_CALLER, [=] { return PFS_REAL(splice)(from, from_at, to, to_at, size, flags); });
}

namespace {
template <typename Call>
int Printed(int fd, const void* caller, Call call) {
  if (IsPlain()) return call();
  return capi::SeldomTransfer(fd, Operation::kWrite, 0, capi::kNoOffset, KnownSite(fd, caller), call);
}
}  // namespace
PFS_REPLACES int vdprintf(int fd, const char* format, va_list arguments) {
  return Printed(fd, PFS_CALLER, [&] { return PFS_REAL(vdprintf)(fd, format, arguments); });
}
PFS_REPLACES int __vdprintf_chk(int fd, int flag, const char* format, va_list arguments) {
  return Printed(fd, PFS_CALLER, [&] { return PFS_REAL(__vdprintf_chk)(fd, flag, format, arguments); });
}
PFS_REPLACES int dprintf(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = Printed(fd, PFS_CALLER, [&] { return PFS_REAL(vdprintf)(fd, format, arguments); });
  va_end(arguments);
  return n;
}
PFS_REPLACES int __dprintf_chk(int fd, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = Printed(fd, PFS_CALLER, [&] { return PFS_REAL(__vdprintf_chk)(fd, flag, format, arguments); });
  va_end(arguments);
  return n;
}
