// run/file_names.cpp: replaces the calls on names of files: open, stat, rename ...
//
// On 64-bit systems the 64 forms are the same calls.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>

#include "run/file_calls.h"
#include "run/real.h"

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

extern "C" {
// glibc calls these instead where a program was compiled with _FORTIFY_SOURCE.
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
// A program that was linked with a glibc before 2.33 calls these.
int __xstat(int, const char*, struct stat*);
int __xstat64(int, const char*, struct stat64*);
int __lxstat(int, const char*, struct stat*);
int __lxstat64(int, const char*, struct stat64*);
int __fxstatat(int, int, const char*, struct stat*, int);
int __fxstatat64(int, int, const char*, struct stat64*, int);
}

#define PFS_MODE_ARGUMENT             \
  mode_t mode = 0;                    \
  if (HasMode(flags)) {               \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
  }

namespace {

bool HasMode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// Says that a descriptor is a new file's, of which nothing is known.
void IsFresh(int fd) {
  if (fd < 0 || IsPlain()) return;
  if (perfschema::FileOfDescriptor(fd) != nullptr) perfschema::UnbindFile(fd);
  ForgetAdopted(fd);
}

}  // namespace

#define PFS_OPEN(name, parameters, directory, ...)                                                              \
  PFS_REPLACES int name parameters {                                                                            \
    PFS_MODE_ARGUMENT                                                                                           \
    return OpenedByName(directory, path, flags, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__, mode); }); \
  }
PFS_OPEN(open, (const char* path, int flags, ...), AT_FDCWD, path, flags)
PFS_OPEN(open64, (const char* path, int flags, ...), AT_FDCWD, path, flags)
PFS_OPEN(openat, (int directory, const char* path, int flags, ...), directory, directory, path, flags)
PFS_OPEN(openat64, (int directory, const char* path, int flags, ...), directory, directory, path, flags)

// These abort if `flags` need a mode.
#define PFS_OPEN_2(name, parameters, directory, ...)               \
  PFS_REPLACES int name parameters {                               \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); }; \
    if (HasMode(flags)) return call();                             \
    return OpenedByName(directory, path, flags, PFS_CALLER, call); \
  }
PFS_OPEN_2(__open_2, (const char* path, int flags), AT_FDCWD, path, flags)
PFS_OPEN_2(__open64_2, (const char* path, int flags), AT_FDCWD, path, flags)
PFS_OPEN_2(__openat_2, (int directory, const char* path, int flags), directory, directory, path, flags)
PFS_OPEN_2(__openat64_2, (int directory, const char* path, int flags), directory, directory, path, flags)

// The functions that make a temporary file fill in its name, so the name is right when the event ends.
#define PFS_CREATES(name, parameters, path, is_temporary, ...)                                  \
  PFS_REPLACES int name parameters {                                                            \
    return Opened(Operation::kCreate, AT_FDCWD, path, capi::kNoFlags, is_temporary, PFS_CALLER, \
                  [=] { return PFS_REAL(name)(__VA_ARGS__); });                                 \
  }
PFS_CREATES(creat, (const char* path, mode_t mode), path, false, path, mode)
PFS_CREATES(creat64, (const char* path, mode_t mode), path, false, path, mode)
PFS_CREATES(mkstemp, (char* pattern), pattern, true, pattern)
PFS_CREATES(mkstemp64, (char* pattern), pattern, true, pattern)
PFS_CREATES(mkostemp, (char* pattern, int flags), pattern, true, pattern, flags)
PFS_CREATES(mkostemp64, (char* pattern, int flags), pattern, true, pattern, flags)
PFS_CREATES(mkstemps, (char* pattern, int suffix), pattern, true, pattern, suffix)
PFS_CREATES(mkstemps64, (char* pattern, int suffix), pattern, true, pattern, suffix)
PFS_CREATES(mkostemps, (char* pattern, int suffix, int flags), pattern, true, pattern, suffix, flags)
PFS_CREATES(mkostemps64, (char* pattern, int suffix, int flags), pattern, true, pattern, suffix, flags)

// Files without a name have the one that the kernel gives them, from their first use on.
#define PFS_TMPFILE(name)                                    \
  PFS_REPLACES FILE* name() {                                \
    FILE* const stream = PFS_REAL(name)();                   \
    if (stream != nullptr) IsFresh(fileno_unlocked(stream)); \
    return stream;                                           \
  }
PFS_TMPFILE(tmpfile)
PFS_TMPFILE(tmpfile64)
PFS_REPLACES int memfd_create(const char* name, unsigned flags) {
  const int fd = PFS_REAL(memfd_create)(name, flags);
  IsFresh(fd);
  return fd;
}
PFS_REPLACES int pipe(int fds[2]) {
  const int rc = PFS_REAL(pipe)(fds);
  if (rc == 0) IsFresh(fds[0]), IsFresh(fds[1]);
  return rc;
}
PFS_REPLACES int pipe2(int fds[2], int flags) {
  const int rc = PFS_REAL(pipe2)(fds, flags);
  if (rc == 0) IsFresh(fds[0]), IsFresh(fds[1]);
  return rc;
}

// Folders are opened and closed; reading one entry makes no event, as reading one character of a stream.
PFS_REPLACES DIR* opendir(const char* path) {
  DIR* folder = nullptr;
  const auto call = [&] {
    folder = PFS_REAL(opendir)(path);
    return folder != nullptr ? dirfd(folder) : -1;
  };
  (void)Opened(Operation::kOpen, AT_FDCWD, path, O_DIRECTORY, false, PFS_CALLER, call);
  return folder;
}
PFS_REPLACES int closedir(DIR* folder) {
  const auto call = [=] { return PFS_REAL(closedir)(folder); };
  if (IsPlain() || folder == nullptr) return call();
  const int fd = dirfd(folder);
  ForgetAdopted(fd);
  return capi::Close(fd, SiteAt(PFS_CALLER), call);
}

// ---- Other calls on a name ---------------------------------------------------------------------------------------------------------

namespace {

template <typename Call>
int Renamed(int from_directory, const char* from, int to_directory, const char* to, const void* caller, Call call) {
  const auto rename = [=](const char* name) {
    const auto end = [=](perfschema::NamedFileWait* wait, const char* old, int rc) { perfschema::EndFileRename(wait, old, name, rc); };
    return capi::IsNull(to) ? call() : OnName(Operation::kRename, from_directory, from, caller, call, end);
  };
  return to_directory == AT_FDCWD || IsPlain() || !perfschema::KnowsFiles() ? rename(to) : capi::WithNameBelow(to_directory, to, rename);
}

}  // namespace

#define PFS_BY_NAME(name, parameters, operation, directory, path, end, ...)                        \
  PFS_REPLACES int name parameters {                                                               \
    return OnName(                                                                                 \
        operation, directory, path, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__); }, end); \
  }
PFS_BY_NAME(stat, (const char* path, struct stat* result), Operation::kStat, AT_FDCWD, path, EndName, path, result)
PFS_BY_NAME(stat64, (const char* path, struct stat64* result), Operation::kStat, AT_FDCWD, path, EndName, path, result)
PFS_BY_NAME(lstat, (const char* path, struct stat* result), Operation::kStat, AT_FDCWD, path, EndName, path, result)
PFS_BY_NAME(lstat64, (const char* path, struct stat64* result), Operation::kStat, AT_FDCWD, path, EndName, path, result)
PFS_BY_NAME(__xstat, (int version, const char* path, struct stat* result), Operation::kStat, AT_FDCWD, path, EndName, version, path, result)
PFS_BY_NAME(__xstat64, (int version, const char* path, struct stat64* result), Operation::kStat, AT_FDCWD, path, EndName, version, path,
            result)
PFS_BY_NAME(__lxstat, (int version, const char* path, struct stat* result), Operation::kStat, AT_FDCWD, path, EndName, version, path,
            result)
PFS_BY_NAME(__lxstat64, (int version, const char* path, struct stat64* result), Operation::kStat, AT_FDCWD, path, EndName, version, path,
            result)
PFS_BY_NAME(access, (const char* path, int mode), Operation::kStat, AT_FDCWD, path, EndName, path, mode)
PFS_BY_NAME(faccessat, (int directory, const char* path, int mode, int flags), Operation::kStat, directory, path, EndName, directory, path,
            mode, flags)
PFS_BY_NAME(truncate, (const char* path, off_t length), Operation::kChsize, AT_FDCWD, path, EndName, path, length)
PFS_BY_NAME(truncate64, (const char* path, off64_t length), Operation::kChsize, AT_FDCWD, path, EndName, path, length)
PFS_BY_NAME(mkdir, (const char* path, mode_t mode), Operation::kMkdir, AT_FDCWD, path, EndName, path, mode)
PFS_BY_NAME(mkdirat, (int directory, const char* path, mode_t mode), Operation::kMkdir, directory, path, EndName, directory, path, mode)
PFS_BY_NAME(rmdir, (const char* path), Operation::kRmdir, AT_FDCWD, path, EndName, path)
PFS_BY_NAME(unlink, (const char* path), Operation::kDelete, AT_FDCWD, path, perfschema::EndFileDelete, path)
PFS_BY_NAME(remove, (const char* path), Operation::kDelete, AT_FDCWD, path, perfschema::EndFileDelete, path)
// A link is a new name.
PFS_BY_NAME(link, (const char* from, const char* to), Operation::kCreate, AT_FDCWD, to, EndName, from, to)
PFS_BY_NAME(linkat, (int from_directory, const char* from, int directory, const char* to, int flags), Operation::kCreate, directory, to,
            EndName, from_directory, from, directory, to, flags)
PFS_BY_NAME(symlink, (const char* target, const char* path), Operation::kCreate, AT_FDCWD, path, EndName, target, path)
PFS_BY_NAME(symlinkat, (const char* target, int directory, const char* path), Operation::kCreate, directory, path, EndName, target,
            directory, path)

PFS_REPLACES int unlinkat(int directory, const char* path, int flags) {
  const auto call = [=] { return PFS_REAL(unlinkat)(directory, path, flags); };
  if ((flags & AT_REMOVEDIR) != 0) return OnName(Operation::kRmdir, directory, path, PFS_CALLER, call, EndName);
  return OnName(Operation::kDelete, directory, path, PFS_CALLER, call, perfschema::EndFileDelete);
}

PFS_REPLACES int rename(const char* from, const char* to) {
  return Renamed(AT_FDCWD, from, AT_FDCWD, to, PFS_CALLER, [=] { return PFS_REAL(rename)(from, to); });
}
PFS_REPLACES int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  return Renamed(from_directory, from, to_directory, to, PFS_CALLER,
                 [=] { return PFS_REAL(renameat)(from_directory, from, to_directory, to); });
}
PFS_REPLACES int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  const auto call = [=] { return PFS_REAL(renameat2)(from_directory, from, to_directory, to, flags); };
  // Both names stay if they are exchanged.
  if ((flags & RENAME_EXCHANGE) != 0) {
    perfschema::DirectoriesMayHaveMoved();
    return OnName(Operation::kRename, from_directory, from, PFS_CALLER, call, EndName);
  }
  return Renamed(from_directory, from, to_directory, to, PFS_CALLER, call);
}

#define PFS_STAT_AT(name, parameters, ...)                                                              \
  PFS_REPLACES int name parameters {                                                                    \
    return StatByName(flags, directory, path, PFS_CALLER, [=] { return PFS_REAL(name)(__VA_ARGS__); }); \
  }
PFS_STAT_AT(fstatat, (int directory, const char* path, struct stat* result, int flags), directory, path, result, flags)
PFS_STAT_AT(fstatat64, (int directory, const char* path, struct stat64* result, int flags), directory, path, result, flags)
PFS_STAT_AT(__fxstatat, (int version, int directory, const char* path, struct stat* result, int flags), version, directory, path, result,
            flags)
PFS_STAT_AT(__fxstatat64, (int version, int directory, const char* path, struct stat64* result, int flags), version, directory, path,
            result, flags)
PFS_STAT_AT(statx, (int directory, const char* path, int flags, unsigned mask, struct statx* result), directory, path, flags, mask, result)
