// run/protocols/prepared_texts.h: the texts of prepared statements, by the handle and the name that they were prepared under.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perfschema/pfs.h"
#include "run/loader/small_lock.h"

namespace perfschema::run {

// Threads: any. Holds the newest kMost texts; an execution of an older one has no text.
class PreparedTexts {
 public:
  // Keeps a text. One of the same handle and name is replaced.
  void Keep(const void* handle, const char* name, const char* text, size_t bytes);
  void Keep(const void* handle, const char* name, const char* text);

  // Sets the text of a statement, if it is known.
  void SetTextOf(pfs_statement_t* statement, const void* handle, const char* name);

  // Drops all texts of a handle.
  void Forget(const void* handle);

 private:
  static constexpr size_t kMost = 512;
  struct Entry {
    const void* handle;
    char name[64];  // clipped: longer names that begin alike share a text
    char* text;
    size_t bytes;
  };
  Entry* Find(const void* handle, const char* name);

  SmallLock lock_;
  Entry* entries_ = nullptr;
  size_t next_ = 0;
};

}  // namespace perfschema::run
