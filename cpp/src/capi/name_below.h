// capi/name_below.h: names of files that are relative to an open directory, as openat(2) takes them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "capi/call.h"
#include "record/family/file_name.h"

namespace perfschema::capi {

// Is the name of `path` below the directory that `directory` has open, if it has less than `kBytes` bytes. Cold: one system call.
// Preserves errno.
template <size_t kBytes>
class NameBelow {
 public:
  NameBelow(int directory, const char* path) : name_(path) {
    if (IsNull(path) || directory == AT_FDCWD || !perfschema::IsReadable(path) || path[0] == '/') return;
    const int error = errno;
    char link[32];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, text_, sizeof text_);
    if (length > 0 && text_[0] == '/') {
      const auto bytes = static_cast<size_t>(length);
      const int more = bytes < sizeof text_ ? std::snprintf(text_ + bytes, sizeof text_ - bytes, "/%s", path) : 0;
      is_whole_ = more > 0 && bytes + static_cast<size_t>(more) < sizeof text_;
      text_[sizeof text_ - 1] = 0;
      name_ = text_;
    }
    errno = error;
  }
  const char* get() const { return name_; }
  bool is_whole() const { return is_whole_; }

 private:
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
