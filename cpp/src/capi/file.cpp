// capi/file.cpp: calls on files of which each has a body of its own; calls.cpp has the others.
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

template <typename Call>
int OpenTemporary(pfs_key_t key, const char* name, int flags, Site site, Call call) {
  return Open(key, Operation::kOpen, name, flags, true, site, call, SameDescriptor);
}

}  // namespace

extern "C" {

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

int pfs_rename_at(pfs_key_t key, const char* from, const char* to, PFS_SITE_) {
  const auto call = PFS_CALL_ON_NAME_(rename(from, to));
  if (IsNull(to)) return call();
  return OnName(key, Operation::kRename, from, {file, line}, call,
                [=](perfschema::NamedFileWait* wait, int rc) { perfschema::EndFileRename(wait, from, to, rc); });
}

off_t pfs_tell_at(int fd, PFS_SITE_) {
  return SeldomPlain(fd, Operation::kTell, kNoOffset, {file, line}, [=] { return lseek(fd, 0, SEEK_CUR); });
}

}  // extern "C"
