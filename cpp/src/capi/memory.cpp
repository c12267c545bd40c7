// capi/memory.cpp: malloc and its relatives; a header before each block keeps what was counted.
#include "record/family/memory.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "capi/guarded.h"
#include "perfschema/pfs.h"

namespace {

using perfschema::AllocateMemory;
using perfschema::FreeMemory;

// The header of 32 bytes before a block.
struct BlockHead {
  uint64_t size;   // as requested
  uint64_t owner;  // see record/family/memory.h
  pfs_key_t key;
  uint32_t units;  // the allocation begins this many times 16 bytes before the block
  uint64_t mark;   // kMark ^ address of the block: a block without it is not ours
};
constexpr uint64_t kMark = 0x9d3f5b1ac7e86240u;
constexpr size_t kHeadBytes = sizeof(BlockHead), kUnit = 16;
static_assert(kHeadBytes == 32);

BlockHead& HeadOf(void* block) { return *reinterpret_cast<BlockHead*>(static_cast<char*>(block) - kHeadBytes); }

[[noreturn, gnu::noinline, gnu::cold]] void RefuseBlock() {
  constexpr char kText[] = "pfs_free(), pfs_realloc() or pfs_claim(): not a block of pfs_malloc(), or freed already\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
  std::abort();
}

// REQUIRES: a block, not NULL.
PFS_ALWAYS_INLINE BlockHead& CheckedHead(void* block) {
  BlockHead& head = HeadOf(block);
  if (__builtin_expect(head.mark != (kMark ^ reinterpret_cast<uintptr_t>(block)), 0)) RefuseBlock();
  return head;
}

// The functions below are called last, so that their callers keep no registers for them.
[[gnu::noinline]] void* BeginSlowly(void* block, pfs_key_t key, size_t size) {
  BlockHead& head = HeadOf(block);
  head.key = perfschema::AllocateSlowly(key, size, &head.owner);
  return block;
}
[[gnu::noinline]] void FreeBlockSlowly(void* block, void* memory) {
  const BlockHead& head = HeadOf(block);
  perfschema::FreeSlowly(head.key, head.size, head.owner);
  std::free(memory);
}

// Makes a block that begins `pad` bytes into new memory, and counts it.
PFS_ALWAYS_INLINE void* Begin(void* memory, size_t pad, pfs_key_t key, size_t size) {
  if (__builtin_expect(memory == nullptr, 0)) return nullptr;
  char* const block = static_cast<char*>(memory) + pad;
  BlockHead& head = HeadOf(block);
  head.size = size;
  head.units = static_cast<uint32_t>(pad / kUnit);
  head.mark = kMark ^ reinterpret_cast<uintptr_t>(block);
  key &= ~perfschema::kControlledKey;
  if (__builtin_expect(!perfschema::AllocateFast(&key, size, &head.owner), 0)) return BeginSlowly(block, key, size);
  head.key = key;
  return block;
}

// Adds the size of the header; returns a size that no system can allocate if that overflows.
PFS_ALWAYS_INLINE size_t WithHead(size_t size, size_t pad = kHeadBytes) {
  return __builtin_expect(size > std::numeric_limits<size_t>::max() - pad, 0) ? std::numeric_limits<size_t>::max() : size + pad;
}

}  // namespace

extern "C" {

int pfs_register_memory(const char* component, pfs_memory_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(perfschema::Family::kMemory, component, info, count);
}

void* pfs_malloc(pfs_key_t key, size_t size) { return Begin(std::malloc(WithHead(size)), kHeadBytes, key, size); }

void* pfs_calloc(pfs_key_t key, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = std::numeric_limits<size_t>::max();
  return Begin(std::calloc(1, WithHead(bytes)), kHeadBytes, key, bytes);
}

void* pfs_aligned_alloc(pfs_key_t key, size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > size_t{1} << 32) {
    errno = EINVAL;
    return nullptr;
  }
  if (alignment <= kUnit) return pfs_malloc(key, size);
  const size_t pad = alignment > kHeadBytes ? alignment : kHeadBytes;
  void* memory = nullptr;
  if (const int error = posix_memalign(&memory, alignment, WithHead(size, pad)); error != 0) {
    errno = error;
    return nullptr;
  }
  return Begin(memory, pad, key, size);
}

char* pfs_strdup(pfs_key_t key, const char* text) {
  const size_t size = std::strlen(text) + 1;
  void* const copy = pfs_malloc(key, size);
  return copy == nullptr ? nullptr : static_cast<char*>(std::memcpy(copy, text, size));
}

void pfs_free(void* block) {
  if (block == nullptr) return;
  BlockHead& head = CheckedHead(block);
  __atomic_store_n(&head.mark, 0, __ATOMIC_RELAXED);  // a plain store would be removed, as the compiler knows that free() follows
  void* const memory = static_cast<char*>(block) - size_t{head.units} * kUnit;
  if (head.key != 0 && __builtin_expect(!perfschema::FreeFast(head.key, head.size, head.owner), 0)) return FreeBlockSlowly(block, memory);
  std::free(memory);
}

void* pfs_realloc(pfs_key_t key, void* block, size_t size) {
  if (block == nullptr) return pfs_malloc(key, size);
  if (size == 0) {
    pfs_free(block);
    return nullptr;
  }
  const BlockHead before = CheckedHead(block);
  if (before.units != kHeadBytes / kUnit) {  // aligned: the plain call would not find its start
    void* const moved = pfs_malloc(key, size);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, block, before.size < size ? before.size : size);
    pfs_free(block);
    return moved;
  }
  HeadOf(block).mark = 0;
  void* const memory = std::realloc(&HeadOf(block), WithHead(size));
  if (memory == nullptr) {
    HeadOf(block).mark = before.mark;
    return nullptr;
  }
  block = static_cast<char*>(memory) + kHeadBytes;
  BlockHead& head = HeadOf(block);
  head.size = size;
  head.mark = kMark ^ reinterpret_cast<uintptr_t>(block);
  if ((before.key & ~perfschema::kControlledKey) == key && key != 0) {
    head.key = perfschema::ReallocateMemory(before.key, before.size, size, &head.owner);
  } else {
    if (before.key != 0) FreeMemory(before.key, before.size, before.owner);
    head.key = AllocateMemory(key, size, &head.owner);
  }
  return block;
}

void pfs_claim(void* block, int takes) {
  if (block == nullptr) return;
  BlockHead& head = CheckedHead(block);
  head.key = pfs_memory_claim(head.key, head.size, &head.owner, takes);
}

pfs_key_t pfs_memory_alloc(pfs_key_t key, size_t size, uint64_t* owner) { return AllocateMemory(key, size, owner); }

pfs_key_t pfs_memory_realloc(pfs_key_t key, size_t old_size, size_t new_size, uint64_t* owner) {
  return key == 0 ? 0 : perfschema::ReallocateMemory(key, old_size, new_size, owner);
}

pfs_key_t pfs_memory_claim(pfs_key_t key, size_t size, uint64_t* owner, int takes) {
  return key == 0 ? 0 : perfschema::ClaimMemory(key, size, owner, takes != 0);
}

void pfs_memory_free(pfs_key_t key, size_t size, uint64_t owner) {
  if (key != 0) FreeMemory(key, size, owner);
}

}  // extern "C"
