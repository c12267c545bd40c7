// shm/extents.h: finds the bytes of an array in the file.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shm/layout.h"

namespace perfschema {

// A run of an array's bytes that are adjacent in the file.
struct FilePiece {
  uint64_t begin;  // from the array's offset
  uint64_t bytes;
  uint64_t in_file;
};

// Threads: immutable.
class FilePieces {
 public:
  const FilePiece* begin() const { return pieces_; }
  const FilePiece* end() const { return pieces_ + count_; }

 private:
  friend FilePieces PiecesOf(const ShmArray& array, uint64_t begin, uint64_t end);
  FilePiece pieces_[kMostExtents];
  uint32_t count_ = 0;
};

// Returns the pieces of the file that hold bytes [begin, end) of an array. REQUIRES: end <= array.mapped, loaded with
// acquire; the header may be damaged.
inline FilePieces PiecesOf(const ShmArray& array, uint64_t begin, uint64_t end) {
  constexpr uint64_t kMostAddresses = uint64_t{1} << 47;
  FilePieces found;
  const uint64_t first = array.first_extent;
  for (uint32_t i = 0; i < kMostExtents && first != 0 && first < kMostAddresses >> kMostExtents; ++i) {
    const uint64_t extent = ExtentBegin(first, i), from = std::max(extent, begin), to = std::min(ExtentBegin(first, i + 1), end);
    if (from >= to) continue;
    const uint64_t page = array.extents[i].load(std::memory_order_relaxed);
    found.pieces_[found.count_++] = {from, to - from, page * 4096 + from - extent};
  }
  return found;
}

}  // namespace perfschema
