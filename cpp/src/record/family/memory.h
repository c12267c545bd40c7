// record/family/memory.h: memory blocks: how many each thread has, the watermarks, and the memory use of a session.
//
// An instrument's cell in a thread's row counts allocations and frees, blocks and bytes. The difference is in use. No
// counter is ever reset: a word of the row (kCancelledWord) holds the amount that a TRUNCATE takes off both sides.
// The truncater writes that word and the owner ignores it. So numbers of a level need no epochs: they are the sum of
// the rows, less the amount cancelled for the level.
//
// Watermarks of a row are exact. Those of an account, a user, a host and the total are watermarks of a sum that is
// not computed while the program runs. Each thread publishes a *band* to the levels above it: an interval that
// contains its use. Only when its use leaves the band does it change the band, by atomic additions:
//   sum of the tops >= sum of what is in use >= sum of the bottoms, at any time: a band is widened before the cell changes, narrowed after.
// The band has no width while the thread may publish exactly: kExactUpdates times, and once more for each
// kChangesPerUpdate changes. After that it doubles each time that the use leaves it. So HIGH of a level is never
// below the truth. The excess is at most twice the change of each thread's use since its last exact update. HIGH
// never exceeds the sum of the rows' own watermarks, so it is exact if only one thread works.
//
// A TRUNCATE begins a new interval of all watermarks: EpochsOf(kMemory).now. The gen of a cell is the interval of its
// watermarks. An owner begins the interval at its next change, from the memory in use; a reader replaces older
// watermarks in the same way. Watermarks of levels that are not truncated are saved before.
//
// A block belongs to the thread that allocated it. Operations of other threads on it count in the row of their slot
// in kGlobalCells, for the total only.
//
// Blocks and bytes of one side are one 16-byte store. Only a change that moves a watermark or leaves the band needs a
// section. A reader takes allocations, frees, and allocations again. Allocations only grow, so if both are the same
// the frees between belong to them. HIGH of a level is the larger of the value saved at the last TRUNCATE and the
// smaller of two upper bounds: the largest sum of tops, and the sum of the rows' own HIGHs.
//
// memory/performance_schema/... are not instruments of the segment: readers derive them from the directory of arrays.
#pragma once

#include "record/engine/classes.h"
#include "record/probe/nested.h"

namespace perfschema {

inline constexpr uint32_t kExactUpdates = 64, kChangesPerUpdate = 4096;

// A block keeps the key that it was counted with (0 = not counted), with kControlledKey for controlled memory, and
// its owner: a THREAD_ID (0 = none) and the process that counted it. Blocks that a forked child inherits are not its
// own.
inline constexpr uint32_t kControlledKey = 1u << 31;
inline constexpr int kProcessShift = 48;
inline constexpr uint64_t kOwnerMask = (uint64_t{1} << kProcessShift) - 1;
// The process number, shifted to its place in an owner. Threads: constant, except at fork().
extern uint64_t g_memory_process;

struct MemoryChange {
  uint64_t allocs = 0, alloc_bytes = 0, frees = 0, free_bytes = 0;
};

// Counts an allocation or a free in the common case: the cell is of the interval, and the use stays within the
// cell's slack words. Returns false, and changes nothing, otherwise. One pair needs no section: LoadNumbers
// sees whether the other pair belongs to it. REQUIRES: EnterProbe.
template <bool kIsAlloc>
PFS_ALWAYS_INLINE bool CountCommonBlock(ShmCell& cell, uint64_t size) {
  constexpr uint32_t kMine = kIsAlloc ? kAllocWord : kFreeWord, kOther = kIsAlloc ? kFreeWord : kAllocWord;
  Word* const words = CellWords(cell);
  const auto get = [&](uint32_t at) { return words[at].load(kRelaxed); };
  const auto is_beyond = [&](uint64_t changes, uint32_t i) {
    const auto used = static_cast<int64_t>(kIsAlloc ? changes - get(kOther + i) : get(kOther + i) - changes);
    return kIsAlloc ? used > static_cast<int64_t>(get(kSlackTopWord + i)) : used < static_cast<int64_t>(get(kSlackBottomWord + i));
  };
  const uint64_t count = get(kMine) + 1, bytes = get(kMine + 1) + size;
  const uint32_t now = g_runtime.header->EpochsOf(Kind::kMemory).now.load(kRelaxed);
  if (__builtin_expect(cell.gen.load(kRelaxed) != now || is_beyond(count, 0) || is_beyond(bytes, 1), 0)) return false;
  ChangePair(cell.seq, words + kMine, count, bytes);
  return true;
}

// ---- Memory of the session (semantics.md K7)

struct MemoryPeaks {
  uint64_t controlled, total;
};
inline MemoryPeaks MemoryInUse(const ThreadState& thread) {
  return {thread.shared->numbers.controlled_memory.load(kRelaxed), thread.shared->numbers.total_memory.load(kRelaxed)};
}

// These functions measure MAX_CONTROLLED_MEMORY and MAX_TOTAL_MEMORY of a statement (semantics.md I16). Its begin calls
// `outer = LowerMemoryPeaks(thread)`, its end `most = RaiseMemoryPeaks(thread, outer)`. Statements nest: the peak of
// an inner statement counts for the outer one.
// Threads: the owner thread.
inline MemoryPeaks LowerMemoryPeaks(ThreadState& thread) {
  const MemoryPeaks outer{thread.controlled_memory_peak, thread.total_memory_peak};
  const MemoryPeaks now = MemoryInUse(thread);
  thread.controlled_memory_peak = now.controlled;
  thread.total_memory_peak = now.total;
  return outer;
}
inline MemoryPeaks RaiseMemoryPeaks(ThreadState& thread, const MemoryPeaks& outer) {
  const MemoryPeaks most{thread.controlled_memory_peak, thread.total_memory_peak};
  thread.controlled_memory_peak = std::max(most.controlled, outer.controlled);
  thread.total_memory_peak = std::max(most.total, outer.total);
  return most;
}

namespace internal {
PFS_ALWAYS_INLINE void AddToSession(Word& now, uint64_t& peak, Word& most, uint64_t size) {
  const uint64_t sum = now.load(kRelaxed) + size;
  now.store(sum, kRelease);
  if (sum <= peak) return;
  peak = sum;
  if (sum > most.load(kRelaxed)) most.store(sum, kRelease);
}
PFS_ALWAYS_INLINE void TakeFromSession(Word& now, uint64_t size) {
  const uint64_t before = now.load(kRelaxed);
  now.store(before > size ? before - size : 0, kRelease);  // blocks of an earlier session may be freed
}
}  // namespace internal

PFS_ALWAYS_INLINE void AddToSession(ThreadState& thread, uint64_t size, bool controlled) {
  ThreadWords& shared = thread.shared->numbers;
  internal::AddToSession(shared.total_memory, thread.total_memory_peak, shared.max_total_memory, size);
  if (controlled) internal::AddToSession(shared.controlled_memory, thread.controlled_memory_peak, shared.max_controlled_memory, size);
}
PFS_ALWAYS_INLINE void TakeFromSession(ThreadState& thread, uint64_t size, bool controlled) {
  internal::TakeFromSession(thread.shared->numbers.total_memory, size);
  if (controlled) internal::TakeFromSession(thread.shared->numbers.controlled_memory, size);
}

// ---- Blocks

// Slow paths: count any allocation, and any free of a counted block, as described below.
[[gnu::noinline]] uint32_t AllocateSlowly(uint32_t key, uint64_t size, uint64_t* owner);
[[gnu::noinline]] void FreeSlowly(uint32_t key, uint64_t size, uint64_t owner);

// Fast path: counts the common case without a call, and handles uncounted memory (*key = 0). Returns false, and
// changes nothing, if the caller must call the slow path. A caller that ends with that call as a tail call saves no
// registers.
PFS_ALWAYS_INLINE bool AllocateFast(uint32_t* key, uint64_t size, uint64_t* owner) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, *key);
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  constexpr uint32_t kCommon = kFlagEnabled | kFlagThread;
  if (__builtin_expect((flags & kCommon) != kCommon, 0)) {
    if ((flags & kFlagEnabled) != 0) return false;
    *key = 0;
    *owner = 0;
    return true;
  }
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr, 0)) return false;
  const uint64_t outer = thread->nesting;
  if (__builtin_expect((thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0 || ThreadState::IsInside(outer) ||
                           class_index + ColumnsOf(Kind::kMemory) > thread->cell_count,
                       0)) {
    return false;
  }
  EnterProbe(*thread);
  const bool is_common = CountCommonBlock<true>(thread->cells[class_index], size);
  if (__builtin_expect(is_common, 1)) AddToSession(*thread, size, (flags & kFlagControlled) != 0);
  LeaveProbe(*thread, outer);
  if (__builtin_expect(!is_common, 0)) return false;
  *owner = g_memory_process | thread->thread_id;
  static_assert(kFlagControlled < kControlledKey && (kControlledKey % kFlagControlled) == 0);
  *key |= (flags & kFlagControlled) * (kControlledKey / kFlagControlled);
  return true;
}
PFS_ALWAYS_INLINE bool FreeFast(uint32_t key, uint64_t size, uint64_t owner) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, key & ~kControlledKey);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(class_index == 0 || thread == nullptr, 0)) return false;
  const uint64_t outer = thread->nesting;
  if (__builtin_expect(owner != (g_memory_process | thread->thread_id) || ThreadState::IsInside(outer) ||
                           class_index + ColumnsOf(Kind::kMemory) > thread->cell_count,
                       0)) {
    return false;
  }
  EnterProbe(*thread);
  const bool is_common = CountCommonBlock<false>(thread->cells[class_index], size);
  if (__builtin_expect(is_common, 1)) TakeFromSession(*thread, size, (key & kControlledKey) != 0);
  LeaveProbe(*thread, outer);
  return is_common;
}

// Counts an allocation. Returns the key and the owner to keep with the block; key 0 = not counted.
PFS_ALWAYS_INLINE uint32_t AllocateMemory(uint32_t key, uint64_t size, uint64_t* owner) {
  key &= ~kControlledKey;
  return __builtin_expect(AllocateFast(&key, size, owner), 1) ? key : AllocateSlowly(key, size, owner);
}

// Counts a free if the allocation was counted, whatever the setup says by now (semantics.md K5). `key` and `owner` are
// those of AllocateMemory().
PFS_ALWAYS_INLINE void FreeMemory(uint32_t key, uint64_t size, uint64_t owner) {
  if (__builtin_expect(!FreeFast(key, size, owner), 0)) FreeSlowly(key, size, owner);
}

// Counts a change of size: a free and an allocation. Returns the key to keep.
uint32_t ReallocateMemory(uint32_t key, uint64_t old_size, uint64_t new_size, uint64_t* owner);
// Counts that the calling thread gives a block away, or takes it (semantics.md K4). Returns the key to keep.
uint32_t ClaimMemory(uint32_t key, uint64_t size, uint64_t* owner, bool takes);

// ---- Slow path. All functions REQUIRE the cold lock.

// Prepares the thread's row for moving up: its watermarks are of the present interval, and the levels above know its
// exact use. Its session ends, and its principals keep the peak. REQUIRES: the caller owns the row, or no thread has
// it attached.
void SettleMemory(ShmThread& thread);
// Resets the private words of a row that was moved up or belongs to a new principal: nothing is cancelled, no band is
// published.
void ForgetMemory(Level level, uint32_t index);
// Resets memory in a forked child: no session uses any, and all blocks were counted in the parent.
void ForgetMemoryInChild();

// Calls use(class_index) for each memory instrument from an index on.
template <typename Use>
void ForEachMemoryClass(uint64_t from, Use use) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t at = from; at < used; ++at) {
    const ShmClass& entry = g_runtime.classes[at];
    if (entry.family == static_cast<uint32_t>(Family::kMemory) && entry.ready.load(kRelaxed) != 0) use(static_cast<uint32_t>(at));
  }
}

}  // namespace perfschema
