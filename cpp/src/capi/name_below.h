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

// Is the name of `path` below the directory that `directory` has open. Cold: one system call. Preserves errno.
class NameBelow {
 public:
  NameBelow(int directory, const char* path) : name_(path) {
    if (IsNull(path) || directory == AT_FDCWD || !perfschema::IsReadable(path) || path[0] == '/') return;
    const int error = errno;
    char link[32];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    const ssize_t length = readlink(link, text_, sizeof text_ - 1);
    if (length > 0 && text_[0] == '/') {
      std::snprintf(text_ + length, sizeof text_ - static_cast<size_t>(length), "/%s", path);
      name_ = text_;
    }
    errno = error;
  }
  const char* get() const { return name_; }

 private:
  const char* name_;
  char text_[PATH_MAX + 256];
};

}  // namespace perfschema::capi
