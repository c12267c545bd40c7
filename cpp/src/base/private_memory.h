// base/private_memory.h: memory of this process for tables of pfs.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace perfschema {

// Leaves memory out of core dumps: they tell of the program, and holes of a table do not survive a pipe or `ulimit -c`.
inline void LeaveOutOfCores(void* memory, size_t bytes) { (void)madvise(memory, bytes, MADV_DONTDUMP); }

// Returns new memory, which is zero and takes no space until it is stored to, or nullptr.
inline void* MapPrivate(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  LeaveOutOfCores(memory, bytes);
  return memory;
}

}  // namespace perfschema
