// run/loader/arena.cpp: the memory of everything that is linked into libperfschema-run.so.
//
// A probe may run inside the program's malloc(), under the allocator's own lock: jemalloc locks a mutex there, and that mutex is
// instrumented. So this library never calls the program's allocator. The linker's --wrap sends malloc(), free() ... of all its objects
// here. Blocks have sizes of powers of two and come from one reserved range. Each size has a lock-free stack of free blocks: a fork or a
// signal at any moment leaves nothing locked.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/placement.h"
#include "base/private_memory.h"

namespace {

constexpr size_t kMostReserved = size_t{256} << 20, kLeastReserved = size_t{16} << 20;  // by what RLIMIT_AS lets us have
constexpr uint32_t kSmallest = 5, kLargest = 24;                                        // 32 bytes to 16 MiB
constexpr size_t kStep = size_t{256} << 10;  // the range becomes memory by so much at a time: mlockall() would lock all that is memory
constexpr size_t kHeader = 16;

struct alignas(kHeader) Header {
  uint32_t size_class;
  uint32_t next;  // of a free block: number of the next one
  uint64_t back;  // of an aligned block: distance to the block proper
};
static_assert(sizeof(Header) == kHeader);

std::atomic<char*> base{nullptr};   // the range; its length is in its first word
std::atomic<size_t> used{kHeader};  // block number 0 means "none"
std::atomic<size_t> usable{kStep};  // bytes of the range that are memory: the first step is from the beginning
constinit std::atomic<uint64_t> free_blocks[kLargest + 1] =
    {};  // number of the first block in units of kHeader, and a tag against reuse (ABA)

// The block of the first that asks, which is the C++ library: in each process it sets memory aside for its exceptions. So a process that
// needs nothing else does not map the range.
constexpr uint32_t kFirstClass = 17;
alignas(kHeader) constinit char first_block[size_t{1} << kFirstClass] = {};
PFS_SET_IN_EVERY_PROCESS constinit std::atomic<bool> is_first_taken{false};

char* Base() {
  char* memory = base.load(std::memory_order_acquire);
  if (memory != nullptr) return memory;
  for (size_t bytes = kMostReserved; bytes >= kLeastReserved; bytes /= 4) {
    void* const fresh = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) continue;
    if (mprotect(fresh, kStep, PROT_READ | PROT_WRITE) == 0) {
      *static_cast<size_t*>(fresh) = bytes;
      perfschema::LeaveOutOfCores(fresh, bytes);
      if (base.compare_exchange_strong(memory, static_cast<char*>(fresh))) return static_cast<char*>(fresh);
    }
    munmap(fresh, bytes);
    return memory;
  }
  return nullptr;
}

// Makes the range memory up to `end`. Returns false if the system refuses.
bool MakeUsable(char* memory, size_t end) {
  size_t before = usable.load(std::memory_order_acquire);
  if (end <= before) return true;
  const size_t after = std::min((end + kStep - 1) / kStep * kStep, *reinterpret_cast<const size_t*>(memory));
  if (mprotect(memory + before, after - before, PROT_READ | PROT_WRITE) != 0) return false;
  before = usable.load(std::memory_order_relaxed);
  // Release: pairs with the load above. Another thread may have made more of it memory.
  while (before < after && !usable.compare_exchange_weak(before, after, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return true;
}

Header* At(char* memory, uint32_t number) { return reinterpret_cast<Header*>(memory + size_t{number} * kHeader); }

Header* HeaderOf(void* block) {
  auto* header = static_cast<Header*>(block) - 1;
  return reinterpret_cast<Header*>(reinterpret_cast<char*>(header) - header->back);
}

PFS_IN_EVERY_PROCESS void* Allocate(size_t bytes) {
  if (__builtin_expect(!is_first_taken.load(std::memory_order_relaxed), 0) && bytes <= sizeof first_block - kHeader &&
      !is_first_taken.exchange(true)) {
    auto* const header = reinterpret_cast<Header*>(first_block);
    header->size_class = kFirstClass;
    return header + 1;
  }
  char* const memory = Base();
  uint32_t size_class = kSmallest;
  while (size_class <= kLargest && (size_t{1} << size_class) < bytes + kHeader) ++size_class;
  const size_t reserved = memory != nullptr ? *reinterpret_cast<const size_t*>(memory) : 0;
  if (size_class > kLargest || bytes > reserved) {
    errno = ENOMEM;
    return nullptr;
  }
  std::atomic<uint64_t>& list = free_blocks[size_class];
  uint64_t first = list.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(first) != 0) {
    Header* const header = At(memory, static_cast<uint32_t>(first));
    const uint64_t next = ((first >> 32) + 1) << 32 | __atomic_load_n(&header->next, __ATOMIC_RELAXED);
    if (list.compare_exchange_weak(first, next, std::memory_order_acq_rel)) return header + 1;
  }
  const size_t at = used.fetch_add(size_t{1} << size_class);
  if (at + (size_t{1} << size_class) > reserved) {
    used.fetch_sub(size_t{1} << size_class);
    errno = ENOMEM;
    return nullptr;
  }
  if (!MakeUsable(memory, at + (size_t{1} << size_class))) {
    errno = ENOMEM;  // the place stays unused
    return nullptr;
  }
  auto* const header = reinterpret_cast<Header*>(memory + at);
  header->size_class = size_class;
  header->back = 0;
  return header + 1;
}

void Free(void* block) {
  if (block == nullptr) return;
  Header* const header = HeaderOf(block);
  header->back = 0;
  if (reinterpret_cast<char*>(header) == first_block) return;  // outside the range
  const auto number = static_cast<uint32_t>((reinterpret_cast<char*>(header) - base.load(std::memory_order_relaxed)) / kHeader);
  std::atomic<uint64_t>& list = free_blocks[header->size_class];
  uint64_t first = list.load(std::memory_order_relaxed);
  uint64_t mine;
  do {
    __atomic_store_n(&header->next, static_cast<uint32_t>(first), __ATOMIC_RELAXED);
    mine = ((first >> 32) + 1) << 32 | number;
  } while (!list.compare_exchange_weak(first, mine, std::memory_order_acq_rel));
}

void* AllocateAligned(size_t alignment, size_t bytes) {
  if (alignment <= kHeader) return Allocate(bytes);
  char* const block = static_cast<char*>(Allocate(bytes + alignment));
  if (block == nullptr) return nullptr;
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(block) + alignment - 1) & ~(alignment - 1);
  const size_t back = aligned - reinterpret_cast<uintptr_t>(block);
  if (back != 0) reinterpret_cast<Header*>(aligned)[-1].back = back;
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

#define PFS_HIDDEN extern "C" __attribute__((visibility("hidden")))

PFS_HIDDEN PFS_IN_EVERY_PROCESS void* __wrap_malloc(size_t bytes) { return Allocate(bytes); }

PFS_HIDDEN void __wrap_free(void* block) { Free(block); }

PFS_HIDDEN void* __wrap_calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const block = Allocate(all);
  return block != nullptr ? std::memset(block, 0, all) : nullptr;
}

PFS_HIDDEN void* __wrap_realloc(void* old, size_t bytes) {
  void* const block = Allocate(bytes);
  if (old == nullptr || block == nullptr) return block;
  const Header* const header = HeaderOf(old);
  const size_t capacity = (reinterpret_cast<const char*>(header) + (size_t{1} << header->size_class)) - static_cast<char*>(old);
  std::memcpy(block, old, capacity < bytes ? capacity : bytes);
  Free(old);
  return block;
}

PFS_HIDDEN int __wrap_posix_memalign(void** block, size_t alignment, size_t bytes) {
  const int error = errno;
  *block = AllocateAligned(alignment, bytes);
  errno = error;
  return *block != nullptr ? 0 : ENOMEM;
}

PFS_HIDDEN void* __wrap_aligned_alloc(size_t alignment, size_t bytes) { return AllocateAligned(alignment, bytes); }
PFS_HIDDEN void* __wrap_memalign(size_t alignment, size_t bytes) { return AllocateAligned(alignment, bytes); }
