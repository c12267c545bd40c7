// run/files.cpp: replaces the calls on files: open to close, read and write, names.
//
// Each one is the wrapper of the C API with a key that is found here. A call on a descriptor serves files and sockets.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdarg>

#include "capi/call.h"
#include "run/conversations.h"
#include "run/descriptors.h"
#include "run/real.h"

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

// glibc calls these instead where a program was compiled with _FORTIFY_SOURCE.
extern "C" {
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
}

namespace {

bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// Makes an open. `plain` and `recorded` make it; the key is looked for only if the event may be recorded.
template <typename Plain, typename Recorded>
int Opened(const char* path, const void* caller, Plain plain, Recorded recorded) {
  if (IsPlain()) return plain();
  const Site& site = *SiteOf(caller);
  const int fd = recorded(KeyOfFile(path, site), site.text);
  if (fd >= 0) ForgetAdopted(fd);
  return fd;
}

// The place of a call on a known descriptor.
capi::Site Known(int fd, const void* caller) {
  MakeKnown(fd, caller);
  return {static_cast<const char*>(caller), kIsCode};
}

int Duplicate(int from, int to, const void* caller) {
  if (to < 0 || from == to || IsPlain()) return to;
  const int error = errno;
  Duplicated(from, to, *SiteOf(caller));
  errno = error;
  return to;
}

}  // namespace

#define PFS_CALLER __builtin_return_address(0)
#define PFS_MODE_ARGUMENT             \
  mode_t mode = 0;                    \
  if (HasMode(flags)) {               \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
  }

// ---- By name ---------------------------------------------------------------------------------------------------------------------

// On 64-bit systems the 64 forms are the same calls.
#define PFS_OPEN(name)                                                                                            \
  PFS_REPLACES int name(const char* path, int flags, ...) {                                                       \
    PFS_MODE_ARGUMENT                                                                                             \
    return Opened(                                                                                                \
        path, PFS_CALLER, [=] { return PFS_REAL(name)(path, flags, mode); },                                      \
        [=](pfs_key_t key, const char* text) { return pfs_open_at(key, text, kWholePlace, path, flags, mode); }); \
  }
PFS_OPEN(open)
PFS_OPEN(open64)

#define PFS_OPENAT(name)                                                                                                       \
  PFS_REPLACES int name(int directory, const char* path, int flags, ...) {                                                     \
    PFS_MODE_ARGUMENT                                                                                                          \
    return Opened(                                                                                                             \
        path, PFS_CALLER, [=] { return PFS_REAL(name)(directory, path, flags, mode); },                                        \
        [=](pfs_key_t key, const char* text) { return pfs_openat_at(key, text, kWholePlace, directory, path, flags, mode); }); \
  }
PFS_OPENAT(openat)
PFS_OPENAT(openat64)

// These abort if `flags` need a mode.
#define PFS_OPEN_2(name)                                                                                              \
  PFS_REPLACES int name(const char* path, int flags) {                                                                \
    const auto plain = [=] { return PFS_REAL(name)(path, flags); };                                                   \
    if (HasMode(flags)) return plain();                                                                               \
    return Opened(path, PFS_CALLER, plain,                                                                            \
                  [=](pfs_key_t key, const char* text) { return pfs_open_at(key, text, kWholePlace, path, flags); }); \
  }
PFS_OPEN_2(__open_2)
PFS_OPEN_2(__open64_2)

#define PFS_OPENAT_2(name)                                                                                                         \
  PFS_REPLACES int name(int directory, const char* path, int flags) {                                                              \
    const auto plain = [=] { return PFS_REAL(name)(directory, path, flags); };                                                     \
    if (HasMode(flags)) return plain();                                                                                            \
    return Opened(path, PFS_CALLER, plain,                                                                                         \
                  [=](pfs_key_t key, const char* text) { return pfs_openat_at(key, text, kWholePlace, directory, path, flags); }); \
  }
PFS_OPENAT_2(__openat_2)
PFS_OPENAT_2(__openat64_2)

#define PFS_CREAT(name)                                                                                     \
  PFS_REPLACES int name(const char* path, mode_t mode) {                                                    \
    return Opened(                                                                                          \
        path, PFS_CALLER, [=] { return PFS_REAL(name)(path, mode); },                                       \
        [=](pfs_key_t key, const char* text) { return pfs_creat_at(key, path, mode, text, kWholePlace); }); \
  }
PFS_CREAT(creat)
PFS_CREAT(creat64)

#define PFS_MKSTEMP(name)                                                                                  \
  PFS_REPLACES int name(char* pattern) {                                                                   \
    return Opened(                                                                                         \
        pattern, PFS_CALLER, [=] { return PFS_REAL(name)(pattern); },                                      \
        [=](pfs_key_t key, const char* text) { return pfs_mkstemp_at(key, pattern, text, kWholePlace); }); \
  }
PFS_MKSTEMP(mkstemp)
PFS_MKSTEMP(mkstemp64)

// A call on a name.
#define PFS_BY_NAME(name, wrapper, parameters, path, ...)                       \
  PFS_REPLACES int name parameters {                                            \
    if (IsPlain()) return PFS_REAL(name)(__VA_ARGS__);                          \
    const Site& site = *PFS_RUN_SITE;                                           \
    return wrapper(KeyOfFile(path, site), __VA_ARGS__, site.text, kWholePlace); \
  }
PFS_BY_NAME(stat, pfs_stat_at, (const char* path, struct stat* result), path, path, result)
PFS_BY_NAME(lstat, pfs_lstat_at, (const char* path, struct stat* result), path, path, result)
PFS_BY_NAME(truncate, pfs_truncate_at, (const char* path, off_t length), path, path, length)
PFS_BY_NAME(rename, pfs_rename_at, (const char* from, const char* to), from, from, to)
PFS_BY_NAME(unlink, pfs_unlink_at, (const char* path), path, path)
PFS_BY_NAME(mkdir, pfs_mkdir_at, (const char* path, mode_t mode), path, path, mode)
PFS_BY_NAME(rmdir, pfs_rmdir_at, (const char* path), path, path)
#define PFS_STAT64(path, result) path, reinterpret_cast<struct stat*>(result)
static_assert(sizeof(struct stat) == sizeof(struct stat64));
PFS_REPLACES int stat64(const char* path, struct stat64* result) {
  if (IsPlain()) return PFS_REAL(stat64)(path, result);
  const Site& site = *PFS_RUN_SITE;
  return pfs_stat_at(KeyOfFile(path, site), PFS_STAT64(path, result), site.text, kWholePlace);
}
PFS_REPLACES int lstat64(const char* path, struct stat64* result) {
  if (IsPlain()) return PFS_REAL(lstat64)(path, result);
  const Site& site = *PFS_RUN_SITE;
  return pfs_lstat_at(KeyOfFile(path, site), PFS_STAT64(path, result), site.text, kWholePlace);
}
PFS_REPLACES int truncate64(const char* path, off64_t length) {
  if (IsPlain()) return PFS_REAL(truncate64)(path, length);
  const Site& site = *PFS_RUN_SITE;
  return pfs_truncate_at(KeyOfFile(path, site), path, length, site.text, kWholePlace);
}

PFS_REPLACES int remove(const char* path) {
  const auto plain = [=] { return PFS_REAL(remove)(path); };
  if (IsPlain()) return plain();
  const Site& site = *PFS_RUN_SITE;
  return capi::OnName(KeyOfFile(path, site), Operation::kDelete, path, {site.text, kWholePlace}, plain,
                      [=](perfschema::NamedFileWait* wait, int rc) { perfschema::EndFileDelete(wait, path, rc); });
}

// ---- By descriptor ---------------------------------------------------------------------------------------------------------------

PFS_REPLACES int close(int fd) {
  if (IsPlain()) return PFS_REAL(close)(fd);
  ForgetAdopted(fd);  // before: another thread may get the number as soon as it is free
  if (__builtin_expect(g_is_decoding, 0)) EndConversation(fd);
  return pfs_close_at(fd, static_cast<const char*>(PFS_CALLER), kIsCode);
}

// A call that transfers bytes.
#define PFS_TRANSFER(name, parameters, operation, size, offset, ...)                               \
  PFS_REPLACES ssize_t name parameters {                                                           \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                                 \
    if (IsPlain()) return call();                                                                  \
    const ssize_t done = capi::Transfer(fd, operation, size, offset, Known(fd, PFS_CALLER), call); \
    if (__builtin_expect(g_is_decoding, 0)) Saw(operation == Operation::kRead, done, __VA_ARGS__); \
    return done;                                                                                   \
  }
PFS_TRANSFER(read, (int fd, void* buffer, size_t size), Operation::kRead, size, capi::kNoOffset, fd, buffer, size)
PFS_TRANSFER(__read_chk, (int fd, void* buffer, size_t size, size_t capacity), Operation::kRead, size, capi::kNoOffset, fd, buffer, size,
             capacity)
PFS_TRANSFER(write, (int fd, const void* buffer, size_t size), Operation::kWrite, size, capi::kNoOffset, fd, buffer, size)
PFS_TRANSFER(pread, (int fd, void* buffer, size_t size, off_t at), Operation::kRead, size, at, fd, buffer, size, at)
PFS_TRANSFER(pread64, (int fd, void* buffer, size_t size, off64_t at), Operation::kRead, size, at, fd, buffer, size, at)
PFS_TRANSFER(__pread_chk, (int fd, void* buffer, size_t size, off_t at, size_t capacity), Operation::kRead, size, at, fd, buffer, size, at,
             capacity)
PFS_TRANSFER(__pread64_chk, (int fd, void* buffer, size_t size, off64_t at, size_t capacity), Operation::kRead, size, at, fd, buffer, size,
             at, capacity)
PFS_TRANSFER(pwrite, (int fd, const void* buffer, size_t size, off_t at), Operation::kWrite, size, at, fd, buffer, size, at)
PFS_TRANSFER(pwrite64, (int fd, const void* buffer, size_t size, off64_t at), Operation::kWrite, size, at, fd, buffer, size, at)
PFS_TRANSFER(readv, (int fd, const iovec* parts, int count), Operation::kRead, 0, capi::kNoOffset, fd, parts, count)
PFS_TRANSFER(writev, (int fd, const iovec* parts, int count), Operation::kWrite, 0, capi::kNoOffset, fd, parts, count)
PFS_TRANSFER(preadv, (int fd, const iovec* parts, int count, off_t at), Operation::kRead, 0, at, fd, parts, count, at)
PFS_TRANSFER(preadv64, (int fd, const iovec* parts, int count, off64_t at), Operation::kRead, 0, at, fd, parts, count, at)
PFS_TRANSFER(pwritev, (int fd, const iovec* parts, int count, off_t at), Operation::kWrite, 0, at, fd, parts, count, at)
PFS_TRANSFER(pwritev64, (int fd, const iovec* parts, int count, off64_t at), Operation::kWrite, 0, at, fd, parts, count, at)

// A call without bytes.
#define PFS_ON_DESCRIPTOR(type, name, parameters, operation, offset, ...)   \
  PFS_REPLACES type name parameters {                                       \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };          \
    if (IsPlain()) return call();                                           \
    return capi::Plain(fd, operation, offset, Known(fd, PFS_CALLER), call); \
  }
PFS_ON_DESCRIPTOR(off_t, lseek, (int fd, off_t offset, int whence), Operation::kSeek, whence == SEEK_SET ? offset : capi::kNoOffset, fd,
                  offset, whence)
PFS_ON_DESCRIPTOR(off64_t, lseek64, (int fd, off64_t offset, int whence), Operation::kSeek, whence == SEEK_SET ? offset : capi::kNoOffset,
                  fd, offset, whence)
PFS_ON_DESCRIPTOR(int, fsync, (int fd), Operation::kSync, capi::kNoOffset, fd)
PFS_ON_DESCRIPTOR(int, fdatasync, (int fd), Operation::kSync, capi::kNoOffset, fd)
PFS_ON_DESCRIPTOR(int, fstat, (int fd, struct stat* result), Operation::kStat, capi::kNoOffset, fd, result)
PFS_ON_DESCRIPTOR(int, fstat64, (int fd, struct stat64* result), Operation::kStat, capi::kNoOffset, fd, result)

PFS_REPLACES int ftruncate(int fd, off_t length) {
  if (IsPlain()) return PFS_REAL(ftruncate)(fd, length);
  const capi::Site site = Known(fd, PFS_CALLER);
  return pfs_ftruncate_at(fd, length, site.file, site.line);
}
PFS_REPLACES int ftruncate64(int fd, off64_t length) {
  if (IsPlain()) return PFS_REAL(ftruncate64)(fd, length);
  const capi::Site site = Known(fd, PFS_CALLER);
  return pfs_ftruncate_at(fd, length, site.file, site.line);
}

PFS_REPLACES int dup(int fd) { return Duplicate(fd, PFS_REAL(dup)(fd), PFS_CALLER); }
PFS_REPLACES int dup2(int fd, int to) { return Duplicate(fd, PFS_REAL(dup2)(fd, to), PFS_CALLER); }
PFS_REPLACES int dup3(int fd, int to, int flags) { return Duplicate(fd, PFS_REAL(dup3)(fd, to, flags), PFS_CALLER); }

namespace {
int Fresh(int rc, const int fds[2]) {
  if (rc != 0 || IsPlain()) return rc;
  for (int i = 0; i < 2; ++i) {
    if (perfschema::FileOfDescriptor(fds[i]) != nullptr) perfschema::UnbindFile(fds[i]);
    ForgetAdopted(fds[i]);
  }
  return rc;
}
}  // namespace
PFS_REPLACES int pipe(int fds[2]) { return Fresh(PFS_REAL(pipe)(fds), fds); }
PFS_REPLACES int pipe2(int fds[2], int flags) { return Fresh(PFS_REAL(pipe2)(fds, flags), fds); }
