// shm/dead_segments.h: bounds the segments that dead processes have left.
//
// A process that ends by exit() removes its segment. One that is killed, or ends by _exit(), leaves it to be read, and its memory stays
// taken. So each process checks the leftovers in its folder before it makes a file: one that is killed at once leaves one file more, and
// has removed as many. A process may also die while it makes its segment: nobody can read what it leaves then, but it is removed as the
// others are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

// Says how many dead segments may stay, and with how much memory.
struct DeadLimits {
  uint64_t most, most_bytes;
  uint64_t part;  // they may take one part in this many of the file system
};

// Removes segments of dead processes of this user from a folder, given by its descriptor, the oldest first. Those within the limits stay;
// the newest always stays. If there are too many, an eighth of their limit goes besides: looking at all of them takes long, and so the next
// processes need not. Keeps files that it cannot be sure of: those of processes of other pid namespaces (`pid_namespace`: this one), those
// of other users, and files that are no segments. Threads: any; two may remove the same file.
void CollectDeadSegments(int folder, const DeadLimits& limits, uint64_t pid_namespace);
// Returns the memory of the files in a folder that are this user's and named like segments of dead processes. Allocates nothing.
uint64_t BytesOfTheDead(const char* folder);

}  // namespace perfschema
