// shm/unsampled.h: the number of events that TIMED = 'SAMPLED' did not time, in a cell.
//
// Rows of threads and cells of instances (mutexes, ...) have it in `amount`: no bytes are transferred there. Other cells have it in
// `instance` and `held`, which are one word there: the number, and a mark that no instance has.
#pragma once

#include "shm/cell.h"
#include "shm/layout.h"

namespace perfschema {

inline constexpr uint64_t kUnsampledMark = 2, kUnsampledMarkMask = 63, kOneUnsampled = 64;
static_assert(offsetof(ShmCell, instance) == 56 && offsetof(ShmCell, held) == 60);

namespace internal {
using UnsampledWord [[gnu::may_alias]] = uint64_t;
}
inline uint64_t LoadUnsampledWord(const ShmCell& cell) {
  return __atomic_load_n(reinterpret_cast<const internal::UnsampledWord*>(&cell.instance), __ATOMIC_ACQUIRE);
}
inline void StoreUnsampledWord(ShmCell& cell, uint64_t word) {
  __atomic_store_n(reinterpret_cast<internal::UnsampledWord*>(&cell.instance), word, __ATOMIC_RELEASE);
}
inline bool HasUnsampledWord(const ShmCell& cell) { return (cell.instance.load(kRelaxed) & kUnsampledMarkMask) == kUnsampledMark; }

// Returns the number. A reader calls it before it reads the statistic, and a writer counts the event first: no reader sees more of these
// events than of all.
inline uint64_t UnsampledIn(const ShmCell& cell) {
  const uint64_t word = LoadUnsampledWord(cell);
  return (word & kUnsampledMarkMask) == kUnsampledMark ? word / kOneUnsampled : cell.amount.load(kAcquire);
}
// Returns the bytes that were transferred.
inline uint64_t BytesIn(const ShmCell& cell) { return HasUnsampledWord(cell) ? cell.amount.load(kAcquire) : 0; }

// An event that is not timed has a duration of 0. If SAMPLED is why, it has another one, which nobody adds.
constexpr bool IsUnsampled(bool timed, uint64_t wait_ps) { return !timed && wait_ps != 0; }

// Adds to the number alone. REQUIRES: a CellWriter.
inline void CountUnsampled(ShmCell& cell, uint64_t count) {
  if (HasUnsampledWord(cell)) {
    StoreUnsampledWord(cell, LoadUnsampledWord(cell) + kOneUnsampled * count);
  } else {
    cell.amount.store(cell.amount.load(kRelaxed) + count, kRelease);  // pairs with UnsampledIn
  }
}
// Counts `count` such events that were one wait.
inline void AddUnsampled(ShmCell& cell, uint64_t count) {
  const CellWriter writer(cell.seq);
  cell.stat.count.store(cell.stat.count.load(kRelaxed) + count, kRelease);
  CountUnsampled(cell, count);
}
// Counts one in a cell that has the number in `amount`, without a section where that is possible.
PFS_ALWAYS_INLINE void AddUnsampledToAmount(ShmCell& cell) {
#if defined(PFS_WIDE_STAT)
  AddCounted(cell.seq, cell.stat);
  asm volatile("incq %0" : "+m"(cell.amount) : : "memory", "cc");
#else
  AddUnsampled(cell, 1);
#endif
}

// Copies the numbers of a cell, and their generation. REQUIRES: nobody reads `to`, or a CellWriter.
inline void CopyNumbers(const ShmCell& from, ShmCell& to) {
  to.gen.store(from.gen.load(kRelaxed), kRelaxed);
  StoreCountAndSum(to.stat, from.stat.count.load(kRelaxed), from.stat.sum_ps.load(kRelaxed));
  to.stat.inverted_min_ps.store(from.stat.inverted_min_ps.load(kRelaxed), kRelaxed);
  to.stat.range_ps.store(from.stat.range_ps.load(kRelaxed), kRelaxed);
  to.amount.store(from.amount.load(kRelaxed), kRelaxed);
  StoreUnsampledWord(to, LoadUnsampledWord(from));
}

}  // namespace perfschema
