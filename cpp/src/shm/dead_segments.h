// shm/dead_segments.h: bounds the segments that dead processes have left.
//
// A process that ends by exit() removes its segment. One that is killed, or ends by _exit(), leaves it to be read, and its memory stays
// taken. So each process that makes a segment first checks the leftovers in its folder. A process may also die while it makes its segment:
// nobody can read what it leaves then, but it is removed as the others are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "shm/layout.h"

namespace perfschema {

// Returns whether the first bytes of a file are those of a segment that is being made: all of the header but its magic.
inline bool IsUnfinished(const void* head) {
  uint64_t magic;
  uint32_t endian_mark;
  std::memcpy(&magic, head, sizeof magic);
  std::memcpy(&endian_mark, static_cast<const char*>(head) + offsetof(ShmHeader, endian_mark), sizeof endian_mark);
  return magic == 0 && endian_mark == kEndianMark;
}

// Removes segments of dead processes of this user from the folder that `segment` is in, the oldest first. At most `most` of them stay,
// with at most `most_bytes` of memory and a quarter of the file system; the newest always stays. Keeps files that it cannot be sure of:
// those of processes of other pid namespaces, those of other users, and files that are no segments. Threads: any; two may remove the same
// file.
void CollectDeadSegments(const std::string& segment, uint64_t most, uint64_t most_bytes);

}  // namespace perfschema
