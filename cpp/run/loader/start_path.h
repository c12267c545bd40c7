// run/loader/start_path.h: a path that is set at the start of each process.
#pragma once

#include <limits.h>

#include <cstddef>
#include <cstring>

namespace perfschema::run {

// A path. A short one, as nearly all are, is in a page that every process stores to (base/placement.h). Threads: constant after start.
class StartPath {
 public:
  // `of_long` is where a long one is kept, PATH_MAX bytes.
  constexpr explicit StartPath(char* of_long) : long_(of_long) {}
  const char* text() const { return is_long_ ? long_ : short_; }
  // Stores the path that read(char* to, size_t bytes) gives. It returns how many bytes it has stored, or is cut off at.
  template <typename Read>
  void Set(Read read) {
    size_t bytes = read(short_, sizeof short_ - 1);
    is_long_ = bytes >= sizeof short_ - 1;
    if (is_long_) bytes = read(long_, PATH_MAX - 1);
    (is_long_ ? long_ : short_)[bytes] = 0;
  }

 private:
  char* const long_;
  bool is_long_ = false;
  char short_[183] = "";
};

}  // namespace perfschema::run
