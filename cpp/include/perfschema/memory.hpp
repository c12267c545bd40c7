// perfschema/memory.hpp: containers whose memory is counted. A part of pfs.hpp, which the program includes.
//
//     std::vector<row, perfschema::allocator<row>> rows{perfschema::allocator<row>("myapp/rows")};     memory/myapp/rows
//     perfschema::memory_resource resource{"myapp/cache"};
//     std::pmr::unordered_map<int, int> cache{&resource};
//
// memory.h says how memory is counted, and for which thread.
#ifndef PERFSCHEMA_MEMORY_HPP
#define PERFSCHEMA_MEMORY_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// Registers an instrument. Flags: PFS_GLOBAL_STATISTICS, PFS_CONTROLLED.
inline pfs_key_t memory_key(std::string_view name, uint32_t flags = 0) { return detail::key_of(pfs_register_memory, name, flags); }

namespace detail {

// Allocates, or throws std::bad_alloc.
inline void* allocate(pfs_key_t key, size_t bytes, size_t alignment) {
  void* const block = alignment <= alignof(std::max_align_t) ? pfs_malloc(key, bytes) : pfs_aligned_alloc(key, alignment, bytes);
  if (block == nullptr && bytes != 0) PFS_THROW_(std::bad_alloc());
  return block;
}

}  // namespace detail

// An allocator of the standard library. Any two are equal: each frees blocks of the other, and the block knows its instrument. Copies,
// moves and swaps of containers propagate it.
template <class T>
class allocator {
 public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::true_type;

  allocator() noexcept = default;  // key 0: not counted
  explicit allocator(pfs_key_t key) noexcept : key_(key) {}
  explicit allocator(std::string_view name) : key_(memory_key(name)) {}
  explicit allocator(const char* name) : allocator(std::string_view(name)) {}
  template <class U>
  allocator(const allocator<U>& other) noexcept : key_(other.key()) {}

  T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / sizeof(T)) PFS_THROW_(std::bad_array_new_length());
    return static_cast<T*>(detail::allocate(key_, count * sizeof(T), alignof(T)));
  }
  void deallocate(T* block, size_t) noexcept { pfs_free(block); }
  pfs_key_t key() const noexcept { return key_; }

 private:
  pfs_key_t key_ = 0;
};
template <class T, class U>
bool operator==(const allocator<T>&, const allocator<U>&) noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const allocator<T>&, const allocator<U>&) noexcept {
  return false;
}

// A resource of std::pmr. Many threads may use it at a time. Any two are equal, as allocators are; without RTTI each is
// equal to itself only.
class memory_resource : public std::pmr::memory_resource {
 public:
  explicit memory_resource(pfs_key_t key) noexcept : key_(key) {}
  explicit memory_resource(std::string_view name) : key_(memory_key(name)) {}
  explicit memory_resource(const char* name) : memory_resource(std::string_view(name)) {}
  pfs_key_t key() const noexcept { return key_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override { return detail::allocate(key_, bytes == 0 ? 1 : bytes, alignment); }
  void do_deallocate(void* block, size_t, size_t) override { pfs_free(block); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#ifdef __cpp_rtti
    return dynamic_cast<const memory_resource*>(&other) != nullptr;
#else
    return this == &other;
#endif
  }

  pfs_key_t key_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_MEMORY_HPP
