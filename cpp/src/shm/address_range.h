// shm/address_range.h: addresses for a segment at its full size, of which only what is used is mapped.
//
// An array must not move, and may grow to its capacity. Reserving the addresses of all capacities would take gigabytes of RLIMIT_AS away from the
// program, and every tool that walks mappings would walk ours. So the room is a place far below the mappings of the program, where the kernel puts
// nothing by itself: it takes the highest gap that fits, and the gap between the program's mappings and the room fits everything but the largest
// requests, which go below the room. Pages are mapped with MAP_FIXED_NOREPLACE. If another mapping is there after all, the array cannot grow, and what does
// not fit is counted as lost: nothing is ever overwritten.
//
// Where no such place is found (valgrind, ThreadSanitizer, old kernels), the room is reserved without access (PROT_NONE).
#pragma once

#include <cstddef>
#include <cstdint>

namespace perfschema {

// Threads: external lock.
class AddressRange {
 public:
  // Prefer::kFree looks for free addresses first, Prefer::kReserved reserves them first, and falls back to the other.
  enum class Prefer { kFree, kReserved };
  // Finds `bytes` of addresses, whole pages. False, and errno: there are none.
  bool Find(uint64_t bytes, Prefer prefer);
  // Forgets the room. REQUIRES: the caller has unmapped what it mapped.
  void Release();

  char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  // The room was reserved: some tool looks at all mappings of the program, or the kernel is old.
  bool is_reserved() const { return is_reserved_; }

  // Maps [at, at + bytes) of the room. Over::kNothing: nothing of it is mapped yet. Over::kOwn: all of it is the caller's and gives way at one stroke.
  // False, and errno: no addresses or no memory; nothing has changed.
  enum class Over { kNothing, kOwn };
  bool MapFile(uint64_t at, uint64_t bytes, int protection, int fd, uint64_t file_offset, Over over = Over::kNothing);
  bool MapAnonymous(uint64_t at, uint64_t bytes, Over over = Over::kNothing);
  // The same of zeros that can only be read, over what the caller has mapped there.
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
