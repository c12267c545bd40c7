// capi/file.cpp: files by name and by descriptor.
#include <cstdarg>

#include "capi/call.h"
#include "capi/name_below.h"

using perfschema::Operation;
using namespace perfschema::capi;

namespace {

// open(2) looks at its third argument only with these flags; without them there may be none.
mode_t ModeArgument(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

bool IsTemporary(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

int SameDescriptor(int fd) { return fd; }

template <typename Call>
int OpenTemporary(pfs_key_t key, const char* name, int flags, Site site, Call call) {
  return Open(key, Operation::kOpen, name, flags, true, site, call, SameDescriptor);
}

}  // namespace

extern "C" {

// ---- By name ---------------------------------------------------------------------------------------------------------------------

int pfs_open_at(pfs_key_t key, PFS_SITE_, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeArgument(flags, arguments);
  va_end(arguments);
  const auto call = PFS_CALL_ON_NAME_(open(path, flags, mode));
  if (IsTemporary(flags)) {
    return WithTemporaryName(path, [=](const char* name) { return OpenTemporary(key, name, flags, {file, line}, call); });
  }
  return Open(key, Operation::kOpen, path, flags, false, {file, line}, call, SameDescriptor);
}

int pfs_openat_at(pfs_key_t key, PFS_SITE_, int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeArgument(flags, arguments);
  va_end(arguments);
  const auto call = PFS_CALL_ON_NAME_(openat(directory, path, flags, mode));
  if (key == 0) return Open(key, Operation::kOpen, path, flags, false, {file, line}, call, SameDescriptor);
  return WithNameBelow(directory, path, [&](const char* name) {
    if (!IsTemporary(flags)) return Open(key, Operation::kOpen, name, flags, false, {file, line}, call, SameDescriptor);
    return WithTemporaryName(name, [&](const char* it) { return OpenTemporary(key, it, flags, {file, line}, call); });
  });
}

int pfs_creat_at(pfs_key_t key, const char* path, mode_t mode, PFS_SITE_) {
  return Open(key, Operation::kCreate, path, kNoFlags, false, {file, line}, PFS_CALL_ON_NAME_(creat(path, mode)), SameDescriptor);
}

// mkstemp fills in the name, so the name is right when the event ends.
int pfs_mkstemp_at(pfs_key_t key, char* pattern, PFS_SITE_) {
  return Open(key, Operation::kCreate, pattern, kNoFlags, true, {file, line}, PFS_CALL_ON_NAME_(mkstemp(pattern)), SameDescriptor);
}

int pfs_stat_at(pfs_key_t key, const char* path, struct stat* result, PFS_SITE_) {
  return OnName(key, Operation::kStat, path, {file, line}, PFS_CALL_ON_NAME_(stat(path, result)));
}

int pfs_lstat_at(pfs_key_t key, const char* path, struct stat* result, PFS_SITE_) {
  return OnName(key, Operation::kStat, path, {file, line}, PFS_CALL_ON_NAME_(lstat(path, result)));
}

int pfs_truncate_at(pfs_key_t key, const char* path, off_t length, PFS_SITE_) {
  return OnName(key, Operation::kChsize, path, {file, line}, PFS_CALL_ON_NAME_(truncate(path, length)));
}

int pfs_rename_at(pfs_key_t key, const char* from, const char* to, PFS_SITE_) {
  const auto call = PFS_CALL_ON_NAME_(rename(from, to));
  if (IsNull(to)) return call();
  return OnName(key, Operation::kRename, from, {file, line}, call,
                [=](perfschema::NamedFileWait* wait, int rc) { perfschema::EndFileRename(wait, from, to, rc); });
}

int pfs_unlink_at(pfs_key_t key, const char* path, PFS_SITE_) {
  return OnName(key, Operation::kDelete, path, {file, line}, PFS_CALL_ON_NAME_(unlink(path)),
                [=](perfschema::NamedFileWait* wait, int rc) { perfschema::EndFileDelete(wait, path, rc); });
}

int pfs_mkdir_at(pfs_key_t key, const char* path, mode_t mode, PFS_SITE_) {
  return OnName(key, Operation::kMkdir, path, {file, line}, PFS_CALL_ON_NAME_(mkdir(path, mode)));
}

int pfs_rmdir_at(pfs_key_t key, const char* path, PFS_SITE_) {
  return OnName(key, Operation::kRmdir, path, {file, line}, PFS_CALL_ON_NAME_(rmdir(path)));
}

// ---- By descriptor ---------------------------------------------------------------------------------------------------------------

int pfs_close_at(int fd, PFS_SITE_) {
  return Close(fd, {file, line}, [=] { return close(fd); });
}

ssize_t pfs_read_at(int fd, void* buffer, size_t size, PFS_SITE_) {
  return TransferAnywhere(fd, Operation::kRead, size, {file, line}, [=] { return read(fd, buffer, size); });
}

ssize_t pfs_write_at(int fd, const void* buffer, size_t size, PFS_SITE_) {
  return TransferAnywhere(fd, Operation::kWrite, size, {file, line}, [=] { return write(fd, buffer, size); });
}

ssize_t pfs_pread_at(int fd, void* buffer, size_t size, off_t offset, PFS_SITE_) {
  return Transfer(fd, Operation::kRead, size, offset, {file, line}, [=] { return pread(fd, buffer, size, offset); });
}

ssize_t pfs_pwrite_at(int fd, const void* buffer, size_t size, off_t offset, PFS_SITE_) {
  return Transfer(fd, Operation::kWrite, size, offset, {file, line}, [=] { return pwrite(fd, buffer, size, offset); });
}

// pfs reads none of the parts: where the kernel returns EFAULT it must not crash. What is requested shows as 0 until the call returns.
ssize_t pfs_readv_at(int fd, const struct iovec* parts, int count, PFS_SITE_) {
  return Transfer(fd, Operation::kRead, 0, kNoOffset, {file, line}, [=] { return readv(fd, parts, count); });
}

ssize_t pfs_writev_at(int fd, const struct iovec* parts, int count, PFS_SITE_) {
  return Transfer(fd, Operation::kWrite, 0, kNoOffset, {file, line}, [=] { return writev(fd, parts, count); });
}

off_t pfs_lseek_at(int fd, off_t offset, int whence, PFS_SITE_) {
  return Plain(fd, Operation::kSeek, whence == SEEK_SET ? offset : kNoOffset, {file, line}, [=] { return lseek(fd, offset, whence); });
}

off_t pfs_tell_at(int fd, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kTell, kNoOffset, {file, line}, [=] { return lseek(fd, 0, SEEK_CUR); });
}

int pfs_fsync_at(int fd, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kSync, kNoOffset, {file, line}, [=] { return fsync(fd); });
}

int pfs_fdatasync_at(int fd, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kSync, kNoOffset, {file, line}, [=] { return fdatasync(fd); });
}

int pfs_ftruncate_at(int fd, off_t length, PFS_SITE_) {
  return SeldomOnDescriptor<true>(
      fd, Operation::kChsize, length, kNoOffset, {file, line}, [=] { return ftruncate(fd, length); },
      [=](int rc) { return rc == 0 ? int64_t{length} : kNoBytes; });
}

int pfs_fstat_at(int fd, struct stat* result, PFS_SITE_) {
  return Plain(fd, Operation::kStat, kNoOffset, {file, line}, PFS_CALL_ON_NAME_(fstat(fd, result)));
}

}  // extern "C"
