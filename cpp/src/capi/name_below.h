// capi/name_below.h: names of files that are relative to an open directory, as openat(2) takes them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "capi/call.h"
#include "record/family/file_name.h"
#include "record/family/files.h"

namespace perfschema::capi {

// The name of `path` below the directory that `directory` has open, if it has less than `kBytes` bytes. If pfs does not know the
// directory, it asks the system. Preserves errno.
template <size_t kBytes>
class NameBelow {
 public:
  NameBelow(int directory, const char* path) : name_(path) {
    if (IsNull(path) || directory == AT_FDCWD || !perfschema::IsReadable(path) || path[0] == '/') return;
    size_t bytes = CopyNameOfDirectory(directory, text_, sizeof text_);
    if (bytes == 0) bytes = NameInKernel(directory);
    if (bytes == 0 || text_[0] != '/') return;
    const size_t more = 1 + std::strlen(path);
    is_whole_ = bytes + more < sizeof text_;
    name_ = text_;
    if (!is_whole_) return;
    text_[bytes] = '/';
    std::memcpy(text_ + bytes + 1, path, more);
  }
  const char* get() const { return name_; }
  bool is_whole() const { return is_whole_; }

 private:
  size_t NameInKernel(int directory) {
    const int error = errno;
    char link[32];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, text_, sizeof text_);
    errno = error;
    return length > 0 ? static_cast<size_t>(length) : 0;
  }

  const char* name_;
  bool is_whole_ = true;
  char text_[kBytes];
};

template <typename Call>
[[gnu::noinline]] auto WithLongNameBelow(int directory, const char* path, Call call) {
  const NameBelow<PATH_MAX + 256> name(directory, path);
  return call(name.get());
}

// Calls call(name) with the name of a path that is relative to a directory. Most names take little of the stack.
template <typename Call>
[[gnu::noinline]] auto WithNameBelow(int directory, const char* path, Call call) {
  const NameBelow<512> name(directory, path);
  return name.is_whole() ? call(name.get()) : WithLongNameBelow(directory, path, call);
}

// Calls call(name) with the name of a file that is made without one (O_TMPFILE): "(temporary)" in its folder. Else it would bear the name
// of the folder.
template <typename Call>
[[gnu::noinline]] auto WithTemporaryName(const char* folder, Call call) {
  char name[512];
  const int bytes = !IsNull(folder) && perfschema::IsReadable(folder) ? std::snprintf(name, sizeof name, "%s/(temporary)", folder) : 0;
  return call(bytes > 0 && static_cast<size_t>(bytes) < sizeof name ? name : folder);
}

}  // namespace perfschema::capi
