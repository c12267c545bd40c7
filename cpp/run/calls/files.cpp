// run/calls/files.cpp: replacements of calls on files and sockets of which each has a body of its own; calls.cpp has the others.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>

#include "run/calls/stream_calls.h"

#ifndef CLOSE_RANGE_CLOEXEC  // since glibc 2.34: a wheel is compiled with older headers
#define CLOSE_RANGE_CLOEXEC 4U
#endif

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;
using capi::EndName;

// ---- Descriptors -----------------------------------------------------------------------------------------------------------------------

namespace {

int Duplicate(int from, int to, const void* caller) {
  if (to < 0 || from == to || IsPlain()) return to;
  const int error = errno;
  Duplicated(from, to, *SiteOf(caller));
  errno = error;
  return to;
}

}  // namespace

PFS_REPLACES int dup(int fd) { return Duplicate(fd, PFS_REAL(dup)(fd), PFS_CALLER); }
PFS_REPLACES int dup2(int fd, int to) { return Duplicate(fd, PFS_REAL(dup2)(fd, to), PFS_CALLER); }
PFS_REPLACES int dup3(int fd, int to, int flags) { return Duplicate(fd, PFS_REAL(dup3)(fd, to, flags), PFS_CALLER); }

#define PFS_FCNTL(name)                                                                                      \
  PFS_REPLACES int name(int fd, int command, ...) {                                                          \
    va_list arguments;                                                                                       \
    va_start(arguments, command);                                                                            \
    void* const argument = va_arg(arguments, void*);                                                         \
    va_end(arguments);                                                                                       \
    const bool waits = command == F_SETLKW || command == F_OFD_SETLKW;                                       \
    const int rc = LockedFile(fd, waits, PFS_CALLER, [=] { return PFS_REAL(name)(fd, command, argument); }); \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? Duplicate(fd, rc, PFS_CALLER) : rc;            \
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

#define PFS_TMPFILE(name)                                    \
  PFS_REPLACES FILE* name() {                                \
    FILE* const stream = PFS_REAL(name)();                   \
    if (stream != nullptr) IsFresh(fileno_unlocked(stream)); \
    return stream;                                           \
  }
PFS_TMPFILE(tmpfile)
PFS_TMPFILE(tmpfile64)
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

PFS_REPLACES int fclose(FILE* stream) {
  if (IsPlain()) return PFS_REAL(fclose)(stream);
  if (const int fd = DescriptorOf(stream); fd >= 0) ForgetAdopted(fd);
  return pfs_fclose_at(stream, static_cast<const char*>(PFS_CALLER), kIsCode);
}

// From here on the socket's events are those of a "listen" socket; what it did before stays with its old kind.
PFS_REPLACES int listen(int fd, int backlog) {
  if (IsPlain()) return PFS_REAL(listen)(fd, backlog);
  const char* const text = KnownSite(fd, PFS_CALLER).file;
  const int rc = pfs_listen_at(fd, backlog, text, kIsCode);
  if (rc == 0) (void)pfs_socket_bind(KeyOfSocket("listen", *PFS_RUN_SITE), fd);
  return rc;
}

// ---- Names -----------------------------------------------------------------------------------------------------------------------------

PFS_REPLACES int unlinkat(int directory, const char* path, int flags) {
  const auto call = [=] { return PFS_REAL(unlinkat)(directory, path, flags); };
  if ((flags & AT_REMOVEDIR) != 0) return OnName(Operation::kRmdir, directory, path, PFS_CALLER, call, EndName);
  return OnName(Operation::kDelete, directory, path, PFS_CALLER, call, perfschema::EndFileDelete);
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
