// base/private_memory.h: memory of this process for tables of pfs.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>

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

// Makes pages of private memory zero, and gives their memory back unless the process has locked it: the system refuses that.
inline void ClearPrivate(void* memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_DONTNEED) != 0) std::memset(memory, 0, bytes);
}

}  // namespace perfschema
