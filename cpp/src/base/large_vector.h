// base/large_vector.h: a vector that may have a million elements, which are not zeroed before they are stored.
//
// Most of the time to fill much new memory goes into the first touch of each page. So large blocks come directly from the system, aligned
// to huge pages, with a request to use such pages as far as the block goes: 512 times fewer first touches. The rest of a block, behind
// its last whole huge page, has small pages, so that it takes no more memory than it uses.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
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
  (void)madvise(begin + before, kept / kHugePage * kHugePage, MADV_HUGEPAGE);  // a system without huge pages has small ones
  return begin + before;
}

// Is one large block for many vectors that are too small for a block each. It exists as long as any of them.
// Threads: external lock while vectors take their memory.
class LargeRegion {
 public:
  explicit LargeRegion(size_t bytes) : begin_(static_cast<char*>(AllocateLarge(bytes))), bytes_(bytes) {}
  ~LargeRegion() { munmap(begin_, bytes_); }
  LargeRegion(const LargeRegion&) = delete;
  LargeRegion& operator=(const LargeRegion&) = delete;
  // Takes memory, or returns nullptr if there is no space.
  void* Take(size_t bytes) {
    const size_t begin = (taken_ + kAlignment - 1) / kAlignment * kAlignment;
    if (begin > bytes_ || bytes > bytes_ - begin) return nullptr;
    taken_ = begin + bytes;
    return begin_ + begin;
  }
  bool Has(const void* block) const { return block >= begin_ && block < begin_ + bytes_; }
  static constexpr size_t kAlignment = 64;

 private:
  char* const begin_;
  const size_t bytes_;
  size_t taken_ = 0;
};

// Threads: as for a vector.
template <typename T>
struct LargeAllocator {
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  std::shared_ptr<LargeRegion> region;  // of the first blocks; nullptr = none

  LargeAllocator() = default;
  explicit LargeAllocator(std::shared_ptr<LargeRegion> from) : region(std::move(from)) {}
  template <typename U>
  LargeAllocator(const LargeAllocator<U>& other)
      : region(other.region) {}  // NOLINT(google-explicit-constructor): what an allocator must have

  T* allocate(size_t count) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = count * sizeof(T);
    if (void* const block = region == nullptr ? nullptr : region->Take(bytes); block != nullptr) return static_cast<T*>(block);
    return static_cast<T*>(bytes < kLargeBlock ? ::operator new(bytes) : AllocateLarge(bytes));
  }
  void deallocate(T* block, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (region != nullptr && region->Has(block)) return;
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
  friend bool operator==(const LargeAllocator& a, const LargeAllocator& b) { return a.region == b.region; }
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace perfschema
