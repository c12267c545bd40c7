// shm/array.h: an entry of the directory of arrays: where an array is, and how much of it is in use. A part of
// layout.h, whose rules apply here.
#pragma once

#include "shm/cell.h"

namespace perfschema {

// Describes one array. It has addresses for all of its capacity, and a place in the file for as much as was ever
// needed (shm/segment.h). `used` grows when the first never-used element is taken; elements beyond are untouched zero
// bytes.
//
//   addresses   offset ........................................................ offset + capacity * stride
//   file        [ extent 0 ][ extent 1 ][      extent 2      ]  mapped            extents double; each lies anywhere in the file
//   memory      [ reserved   ]                                                    pages that may be stored to
inline constexpr uint32_t kMostExtents = 20;
struct ShmArray {
  uint64_t offset;                 // address of element 0, from the header's
  uint64_t stride;                 // bytes from one element to the next
  uint64_t capacity;               // elements
  uint64_t first_extent;           // bytes of extent 0, whole pages
  Word used;                       // elements that were ever taken: what a reader scans
  Word reserved;                   // bytes that may be stored to: from `offset` on, or the total if separate ranges are reserved
  Word free_head;                  // index of the first free element, 0 = none; links lie inside the elements
  Word mapped;                     // bytes from `offset` on that have a place in the file: release store, after the extents that it adds
  HalfWord extents[kMostExtents];  // the page of the file where each begins
};
// Returns where extent `i` of an array begins, counted from the array's offset. The next extent begins where it ends.
constexpr uint64_t ExtentBegin(uint64_t first_extent, uint32_t i) { return i == 0 ? 0 : first_extent << (i - 1); }

}  // namespace perfschema
