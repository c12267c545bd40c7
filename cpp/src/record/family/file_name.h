// record/family/file_name.h: the name of a file, as FILE_NAME shows it.
#pragma once

#include <cstddef>
#include <string_view>

#include "shm/layout.h"

namespace perfschema {

// An absolute name, by text: the working directory in front, "//", "." and ".." taken out. It follows no link: it is the name as the
// program knows it. One that is longer than FILE_NAME may be is shortened in the middle: its beginning, "~", a hash of the whole in 16
// digits, "~", its end. Preserves errno. It takes little of the stack, which may be that of a signal handler, unless the path is long.
struct FileName {
  char text[kMaxObjectName];
  size_t bytes = 0;
  std::string_view view() const { return {text, bytes}; }

  explicit FileName(const char* path);

 private:
  void ResolveLong(const char* path);
  // `more`: the part of the path that `name` has no space for.
  void Shorten(std::string_view name, std::string_view more);
};

// Returns whether a system call could read the name: false where it would fail with EFAULT. Makes one short system call for each page that
// the name lies in, unless that is the heap of brk(2), the stack of the main thread, or a literal of the program. Preserves errno.
bool IsReadable(const char* path);
// Returns whether memory of at most a page can be read, by a short system call for each page that it lies in. Changes errno.
bool IsReadable(uintptr_t begin, size_t bytes);

}  // namespace perfschema
