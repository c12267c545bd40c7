// record/engine/names.h: names of objects (files), of any length up to 512 bytes, in the segment.
//
// A record of an event names the object by granule and version. A freed name is not used again at once, so that events in the histories
// keep their names; when it is used again its version differs and the event shows no name instead of a wrong one.
#pragma once

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
