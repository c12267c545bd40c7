// base/large_vector.h: a vector whose elements are not set to zero before they are stored, and that may have a million of them.
//
// Most of the time that it takes to fill much new memory goes into the first touch of each of its pages. So large blocks
// come straight from the system, at the boundaries of huge pages, with the request to use such pages as far as the block
// goes: 512 times fewer first touches. The rest of a block, behind its last whole huge page, has small ones, so that no more
// memory is taken than is used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace perfschema {

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kLargeBlock = 2 * kHugePage;

inline void* AllocateLarge(size_t bytes) {
  constexpr size_t kSmallPage = 4096;
  const size_t kept = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
  const size_t mapped = kept + kHugePage;
  void* const found = kept < bytes || mapped < kept
                          ? MAP_FAILED
                          : mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(found);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before != 0) munmap(begin, before);
  if (before != kHugePage) munmap(begin + before + kept, kHugePage - before);
  (void)madvise(begin + before, kept / kHugePage * kHugePage, MADV_HUGEPAGE);  // a system without has small pages
  return begin + before;
}

// Threads: as of a vector.
template <typename T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <typename U>
  LargeAllocator(const LargeAllocator<U>&) {}  // NOLINT(google-explicit-constructor): what an allocator must have

  T* allocate(size_t count) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kLargeBlock ? ::operator new(bytes) : AllocateLarge(bytes));
  }
  void deallocate(T* block, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kLargeBlock)
      ::operator delete(block);
    else
      munmap(block, bytes);
  }
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;  // not U(): that would be zeros
  }
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const LargeAllocator&, const LargeAllocator&) { return true; }
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace perfschema
