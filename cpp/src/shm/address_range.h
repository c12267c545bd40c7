// shm/address_range.h: addresses for a segment at its full size; only pages in use are mapped.
//
// An array must not move, and may grow to its capacity. Reserving the addresses of all capacities would take gigabytes of RLIMIT_AS away
// from the program, and every tool that walks mappings would walk ours. So the range lies far below the mappings of the program, where
// the kernel places nothing by itself. The kernel takes the highest gap that fits. The gap between the program's mappings and the range
// fits all but the largest requests, which go below the range. Pages are mapped with MAP_FIXED_NOREPLACE. If another mapping is there
// after all, the array cannot grow, and records that do not fit are counted as lost: nothing is ever overwritten.
//
// If no such place is found (valgrind, ThreadSanitizer, old kernels), the range is reserved without access (PROT_NONE).
#pragma once

#include <cstddef>
#include <cstdint>

namespace perfschema {

// Threads: external lock.
class AddressRange {
 public:
  // Prefer::kFree first searches free addresses; Prefer::kReserved first reserves them. Each falls back to the other.
  enum class Prefer { kFree, kReserved };
  // Finds `bytes` of addresses, whole pages. Returns false, with errno, if there are none.
  bool Find(uint64_t bytes, Prefer prefer);
  // Forgets the range. REQUIRES: the caller has unmapped its mappings there.
  void Release();

  char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  // Returns whether the range is reserved: a tool checks all mappings of the program, or the kernel is old.
  bool is_reserved() const { return is_reserved_; }

  // Maps [at, at + bytes) of the range. Over::kNothing: none of it is mapped yet. Over::kOwn: all of it is the caller's, and is replaced
  // atomically. Returns false, with errno, if addresses or memory are missing; nothing has changed then.
  enum class Over { kNothing, kOwn };
  bool MapFile(uint64_t at, uint64_t bytes, int protection, int fd, uint64_t file_offset, Over over = Over::kNothing);
  bool MapAnonymous(uint64_t at, uint64_t bytes, Over over = Over::kNothing);
  // Maps read-only zeros over the caller's mapping there.
  bool MapZeros(uint64_t at, uint64_t bytes) { return MapFile(at, bytes, kReadOnly, -1, 0, Over::kOwn); }
  // Unmaps [at, at + bytes).
  void Unmap(uint64_t at, uint64_t bytes);

 private:
  static const int kReadOnly;
  bool FindFree(uint64_t bytes);
  bool Reserve(uint64_t bytes);

  char* base_ = nullptr;
  uint64_t bytes_ = 0;
  bool is_reserved_ = false;
};

}  // namespace perfschema
