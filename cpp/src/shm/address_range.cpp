#include "shm/address_range.h"

#include <sys/mman.h>

#include <cerrno>
#include <initializer_list>

// Symbols of ThreadSanitizer and MemorySanitizer, if the program has one. Their mmap() moves a mapping that lies outside their own
// layout.
extern "C" {
[[gnu::weak]] void __tsan_init();
[[gnu::weak]] void __msan_init();
}

namespace perfschema {
namespace {

bool HasLayoutOfItsOwn() { return __tsan_init != nullptr || __msan_init != nullptr; }

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = uint64_t{2} << 20;  // of a page table, so that a range begins one
constexpr int kPlain = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
// Says how far below the newest mapping a range ends. The first distance is out of reach of programs that map terabytes. The last suits
// processors with 39 bits of addresses.
constexpr uint64_t kDistances[] = {uint64_t{4} << 40, uint64_t{256} << 30, uint64_t{16} << 30};
constexpr int kPlacesToTry = 64;  // one below the other: a process may read many segments

enum class Occupancy { kFree, kTaken, kCannotTell };

// Returns whether all of these addresses are free. If RLIMIT_AS is too low to map them all, only the first page is tried.
Occupancy CheckAddresses(char* base, uint64_t bytes) {
  for (const uint64_t size : {bytes, kPage}) {
    void* const mapped = mmap(base, size, PROT_NONE, kPlain | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == MAP_FAILED) {
      if (errno == EEXIST || errno == EINVAL || errno == EPERM) return Occupancy::kTaken;
      continue;
    }
    munmap(mapped, size);
    return mapped == base ? Occupancy::kFree : Occupancy::kTaken;  // a kernel before 4.17 takes the address for a hint
  }
  return Occupancy::kCannotTell;
}

}  // namespace

const int AddressRange::kReadOnly = PROT_READ;

bool AddressRange::FindFree(uint64_t bytes) {
  void* const newest = mmap(nullptr, kPage, PROT_NONE, kPlain, -1, 0);
  if (newest == MAP_FAILED) return false;
  munmap(newest, kPage);
  const auto top = reinterpret_cast<uint64_t>(newest);
  for (const uint64_t distance : kDistances) {
    if (top / 2 < distance) continue;
    uint64_t end = (top - distance) / kAlignment * kAlignment;
    for (int i = 0; i < kPlacesToTry && end / 2 > bytes; ++i) {
      char* const base = reinterpret_cast<char*>((end - bytes) / kAlignment * kAlignment);
      const Occupancy found = CheckAddresses(base, bytes);
      if (found == Occupancy::kFree) {
        base_ = base;
        bytes_ = bytes;
        is_reserved_ = false;
        return true;
      }
      if (found == Occupancy::kCannotTell) return false;
      end = reinterpret_cast<uint64_t>(base) - kAlignment;
    }
  }
  errno = ENOMEM;
  return false;
}

bool AddressRange::Reserve(uint64_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_NONE, kPlain, -1, 0);
  if (mapped == MAP_FAILED) return false;
  base_ = static_cast<char*>(mapped);
  bytes_ = bytes;
  is_reserved_ = true;
  return true;
}

bool AddressRange::Find(uint64_t bytes, Prefer prefer) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (HasLayoutOfItsOwn()) return Reserve(bytes);
  return prefer == Prefer::kFree ? FindFree(bytes) || Reserve(bytes) : Reserve(bytes) || FindFree(bytes);
}

void AddressRange::Release() {
  if (is_reserved_) munmap(base_, bytes_);
  *this = {};
}

bool AddressRange::MapFile(uint64_t at, uint64_t bytes, int protection, int fd, uint64_t file_offset, Over over) {
  const int fixed = is_reserved_ || over == Over::kOwn ? MAP_FIXED : MAP_FIXED_NOREPLACE;
  const int flags = fd < 0 ? kPlain : MAP_SHARED | MAP_NORESERVE;
  void* const mapped = mmap(base_ + at, bytes, protection, flags | fixed, fd, static_cast<off_t>(file_offset));
  if (mapped == base_ + at) return true;
  if (mapped != MAP_FAILED) {
    munmap(mapped, bytes);
    errno = EEXIST;
  }
  return false;
}

bool AddressRange::MapAnonymous(uint64_t at, uint64_t bytes, Over over) { return MapFile(at, bytes, PROT_READ | PROT_WRITE, -1, 0, over); }

void AddressRange::Unmap(uint64_t at, uint64_t bytes) {
  if (!is_reserved_) {
    munmap(base_ + at, bytes);
  } else {
    mmap(base_ + at, bytes, PROT_NONE, kPlain | MAP_FIXED, -1, 0);
  }
}

}  // namespace perfschema
