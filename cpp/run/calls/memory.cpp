// run/calls/memory.cpp: counts the memory of the program, by the module that allocates it.
//
// The allocator is the program's own, and its blocks stay as they are: what is known of a block is in a table by its address. Blocks that
// come from elsewhere (an allocator's further functions) are in no table and count nowhere. A block has two lines of the table with a few
// places each. If all are taken, the block is lost and counted.
#include "run/loader/memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/private_memory.h"
#include "record/engine/runtime.h"
#include "run/calls/descriptors.h"
#include "run/loader/real.h"

namespace perfschema::run {
namespace {

// Threads: the thread that has the block writes; any thread looks for a free place. `block` is claimed first and cleared last.
struct Block {
  std::atomic<uintptr_t> block;  // 0 = free
  size_t size;
  uint64_t owner;
  pfs_key_t key;
};
constexpr int kBits = 18;
constexpr size_t kPlaces = 8;  // 256 bytes
using Line = Block[kPlaces];

std::atomic<Line*> table{nullptr};

Line* Table() {
  Line* lines = table.load(std::memory_order_acquire);
  if (__builtin_expect(lines != nullptr, 1)) return lines;
  constexpr size_t kBytes = sizeof(Line) << kBits;
  void* const fresh = MapPrivate(kBytes);
  if (fresh == nullptr) return nullptr;
  if (table.compare_exchange_strong(lines, static_cast<Line*>(fresh))) return static_cast<Line*>(fresh);
  munmap(fresh, kBytes);
  return lines;
}

// Calls is_it(place) for each place that a block may have, until it returns true. Returns that place, or nullptr.
template <typename IsIt>
Block* PlaceOf(Line* lines, uintptr_t block, IsIt is_it) {
  for (const uint64_t factor : {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu}) {
    for (Block& place : lines[((block >> 4) * factor) >> (64 - kBits)]) {
      if (is_it(place.block)) return &place;
    }
  }
  return nullptr;
}

// A probe, or work under the cold lock, must not begin another one here.
bool IsBusy() { return static_cast<bool>(t_locals.in_cold_lock); }

}  // namespace
}  // namespace perfschema::run

using namespace perfschema::run;

void pfs_run_allocated(const void* pointer, size_t size, const void* caller) {
  if (IsPlain() || IsBusy()) return;
  const int error = errno;
  const auto block = reinterpret_cast<uintptr_t>(pointer);
  uint64_t owner = 0;
  const pfs_key_t key = pfs_memory_alloc(KeyOfHeap(*SiteOf(caller)), size, &owner);
  Line* const lines = key != 0 ? Table() : nullptr;
  if (lines != nullptr) {
    Block* const place = PlaceOf(lines, block, [=](std::atomic<uintptr_t>& there) {
      uintptr_t none = 0;
      return there.load(std::memory_order_relaxed) == 0 && there.compare_exchange_strong(none, block, std::memory_order_acquire);
    });
    if (place != nullptr) {
      place->size = size;
      place->owner = owner;
      place->key = key;
    } else {
      pfs_memory_free(key, size, owner);
      perfschema::CountLoss(perfschema::Loss::kLockers);
    }
  }
  errno = error;
}

size_t pfs_run_freed(const void* pointer) {
  Line* const lines = table.load(std::memory_order_acquire);
  if (lines == nullptr || pointer == nullptr || IsPlain()) return 0;
  const auto block = reinterpret_cast<uintptr_t>(pointer);
  Block* const place =
      PlaceOf(lines, block, [=](const std::atomic<uintptr_t>& there) { return there.load(std::memory_order_relaxed) == block; });
  if (place == nullptr) return 0;
  const int error = errno;
  const size_t size = place->size;
  pfs_memory_free(place->key, size, place->owner);
  place->block.store(0, std::memory_order_release);
  errno = error;
  return size;
}
