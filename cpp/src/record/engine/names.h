// record/engine/names.h: names of objects (files), of any length up to 512 bytes, in the segment.
//
// A record of an event names the object by granule and version. A freed name is not used again at once, so that events in the histories
// keep their names; when it is used again its version differs and the event shows no name instead of a wrong one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/text.h"
#include "record/engine/runtime.h"

namespace perfschema {

// The name of an object that has several parts, such as "SCHEMA\0NAME". Each part is cut to the width that tables
// show: names that look the same are the same. Threads: immutable.
class ObjectName {
 public:
  ObjectName(std::initializer_list<std::string_view> parts) {
    for (const std::string_view& part : parts) {
      if (&part != parts.begin()) text_[bytes_++] = 0;
      bytes_ += CutText(part, kObjectNameWidth).copy(text_ + bytes_, kObjectNameWidth);
    }
  }
  std::string_view view() const { return {text_, bytes_}; }

 private:
  char text_[3 * (kObjectNameWidth + 1)];
  size_t bytes_ = 0;
};

inline constexpr uint32_t kMostNameGranules =
    (offsetof(ShmNameGranule, text) + kMaxObjectName + sizeof(ShmNameGranule) - 1) / sizeof(ShmNameGranule);

// Names that a thread has taken in advance, by their granules, and those that it has released: a name that comes once needs the cold lock
// once for many of them. The more a thread needs, the more it takes. They stay for the next thread of the slot.
// Threads: the owner, on the lock-free path (record/engine/free_lists.h) or under the cold lock.
struct NameStash {
  static constexpr uint32_t kMost = 32;
  uint8_t wanted[kMostNameGranules + 1];  // how many names of a size were taken last
  uint8_t ready_count[kMostNameGranules + 1];
  uint8_t released_count;
  uint32_t ready[kMostNameGranules + 1][kMost];
  uint32_t released[kMost];

  // Returns whether there is a name of that size, and space for one that is released.
  bool MayReplace(size_t bytes) const;
  // Does what AcquireNameWord() does. REQUIRES: MayReplace().
  uint64_t AcquireWord(std::string_view name);
  // REQUIRES: MayReplace() of any size.
  void Release(uint32_t granule);
  // Releases what has been released, and takes names of the size of one that has just been acquired. REQUIRES: cold lock.
  void Refill(size_t bytes);
  // In a forked child: the names are its own, too, if the path was closed over the fork. REQUIRES: cold lock.
  void ContinueInChild(bool was_closed);

 private:
  void ReleaseAll();
};

// Copies `name` (cut at 512 bytes). Returns the first granule of the copy, or 0 if the segment is full. REQUIRES:
// cold lock.
uint32_t AcquireName(std::string_view name);
// Does the same. Returns the granule | its version << 32, or 0.
uint64_t AcquireNameWord(std::string_view name);
// REQUIRES: cold lock.
void ReleaseName(uint32_t granule);
// REQUIRES: cold lock, a live name.
std::string_view NameText(uint32_t granule);
// Returns whether `word`, as AcquireNameWord() returned it, is the name now. Needs no lock.
bool IsNameNow(uint64_t word, std::string_view name);
// Copies the text of `word`, as AcquireNameWord() returned it. Returns how many bytes it has; 0 if it is not the name now, or they are more
// than `size`. Needs no lock.
size_t CopyNameNow(uint64_t word, char* to, size_t size);
// Returns the version that a record stores besides the granule. REQUIRES: cold lock, a live name or 0.
uint32_t NameVersion(uint32_t granule);

}  // namespace perfschema
