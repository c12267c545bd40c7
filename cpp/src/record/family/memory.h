// record/family/memory.h: blocks of memory: who has how many, how many there were at most, and what a session uses.
//
// An instrument's cell in a thread's row counts allocations and frees, blocks and bytes; in use is the difference. Nothing is ever set back:
// what a TRUNCATE takes off both sides is a word of the row (kCancelledWord), which the truncater writes and the owner does not look at. So
// numbers of a level need no epochs: they are the sum of the rows, less what was cancelled for the level.
//
// Watermarks of a row are exact. Those of an account, a user, a host and the total are watermarks of a sum that nobody computes while the program
// runs. Each thread tells those above it a *band* that what it uses is in, and changes it, by atomic additions, only when it leaves it:
//   sum of the tops >= sum of what is in use >= sum of the bottoms, at any time: a band is widened before the cell changes, narrowed after.
// The band has no width while the thread may tell: kTellings times, and once more for each kChangesPerTelling changes. After that it doubles each
// time that it is left. So HIGH of a level is never below the truth. It is above by no more than twice what each thread's use has changed by
// since it last told exactly; and never above the sum of the rows' own watermarks, so that it is exact where one thread only is at work.
//
// A TRUNCATE begins a new interval of all watermarks (epochs[kMemory].now; gen of a cell says whose interval its watermarks are of). An owner begins
// it at its next change, from what is in use; a reader takes older ones for that. Watermarks of levels that are not truncated are kept before.
//
// A block belongs to the thread that allocated it. What another thread does with it counts in the row of that thread's slot in kGlobalCells, for
// the total only.
//
// Blocks and bytes of one side are one 16-byte store. Only what moves a watermark or leaves the band needs a section. A reader takes
// allocations, frees, and allocations again; allocations only grow, so if both are the same the frees between belong to them. HIGH of a
// level is the larger of what was kept at the last TRUNCATE and the smaller of two upper bounds: the largest sum of tops, and the sum of
// the rows' own HIGHs.
//
// memory/performance_schema/... are no instruments of the segment: readers derive them from the directory of arrays.
#pragma once

#include "record/engine/classes.h"
#include "record/probe/nested.h"

namespace perfschema {

inline constexpr uint32_t kTellings = 64, kChangesPerTelling = 4096;

// What is kept with a block: the key it was counted with (0 = it was not), with kControlledKey if it is of controlled memory; and its owner:
// THREAD_ID, 0 = nobody, and which process counted it: blocks that a forked child has from its parent are not its own.
inline constexpr uint32_t kControlledKey = 1u << 31;
inline constexpr int kProcessShift = 48;
inline constexpr uint64_t kOwnerMask = (uint64_t{1} << kProcessShift) - 1;
// Which process, where it is in an owner. Threads: constant but for fork().
extern uint64_t g_memory_process;

struct MemoryChange {
  uint64_t allocs = 0, alloc_bytes = 0, frees = 0, free_bytes = 0;
};

// An allocation or a free like nearly all: its cell is of the interval, and what is in use stays inside the cell's room. False: it is not,
// and nothing was done. Readers need no section around one pair: LoadNumbers sees whether the other one belongs to it. REQUIRES: EnterProbe.
template <bool kIsAlloc>
PFS_ALWAYS_INLINE bool CountUsualBlock(ShmCell& cell, uint64_t size) {
  constexpr uint32_t kMine = kIsAlloc ? kAllocWord : kFreeWord, kOther = kIsAlloc ? kFreeWord : kAllocWord;
  Word* const words = CellWords(cell);
  const auto get = [&](uint32_t at) { return words[at].load(kRelaxed); };
  const auto is_beyond = [&](uint64_t changes, uint32_t i) {
    const auto used = static_cast<int64_t>(kIsAlloc ? changes - get(kOther + i) : get(kOther + i) - changes);
    return kIsAlloc ? used > static_cast<int64_t>(get(kSlackTopWord + i)) : used < static_cast<int64_t>(get(kSlackBottomWord + i));
  };
  const uint64_t count = get(kMine) + 1, bytes = get(kMine + 1) + size;
  const uint32_t now = g_runtime.header->epochs[static_cast<uint32_t>(Kind::kMemory)].now.load(kRelaxed);
  if (__builtin_expect(cell.gen.load(kRelaxed) != now || is_beyond(count, 0) || is_beyond(bytes, 1), 0)) return false;
  ChangePair(cell.seq, words + kMine, count, bytes);
  return true;
}

// ---- Memory of the session (SEMANTICS K7)

struct MemoryPeaks {
  uint64_t controlled, total;
};
inline MemoryPeaks MemoryInUse(const ThreadState& thread) {
  return {thread.shared->controlled_memory.load(kRelaxed), thread.shared->total_memory.load(kRelaxed)};
}

// For MAX_CONTROLLED_MEMORY and MAX_TOTAL_MEMORY of a statement (SEMANTICS I16): at its begin `outer = LowerMemoryPeaks(thread)`, at its end
// `most = RaiseMemoryPeaks(thread, outer)`. Statements nest: the peak of an inner one counts for the outer one.
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
  now.store(before > size ? before - size : 0, kRelease);  // blocks of an earlier session may go
}
}  // namespace internal

PFS_ALWAYS_INLINE void AddToSession(ThreadState& thread, uint64_t size, bool controlled) {
  ShmThread& shared = *thread.shared;
  internal::AddToSession(shared.total_memory, thread.total_memory_peak, shared.max_total_memory, size);
  if (controlled) internal::AddToSession(shared.controlled_memory, thread.controlled_memory_peak, shared.max_controlled_memory, size);
}
PFS_ALWAYS_INLINE void TakeFromSession(ThreadState& thread, uint64_t size, bool controlled) {
  internal::TakeFromSession(thread.shared->total_memory, size);
  if (controlled) internal::TakeFromSession(thread.shared->controlled_memory, size);
}

// ---- Blocks

// Any allocation, and any free of a block that was counted, as said below.
[[gnu::noinline]] uint32_t AllocateSlowly(uint32_t key, uint64_t size, uint64_t* owner);
[[gnu::noinline]] void FreeSlowly(uint32_t key, uint64_t size, uint64_t owner);

// What is done without a call: nearly all, and what is not counted (*key = 0). False: nothing was done, and the slow one is to be called.
// Whoever has no call after these keeps no registers for one.
PFS_ALWAYS_INLINE bool AllocateUsual(uint32_t* key, uint64_t size, uint64_t* owner) {
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
                           class_index + ColumnsOf(Kind::kMemory) > thread->cell_count, 0)) {
    return false;
  }
  EnterProbe(*thread);
  const bool is_common = CountUsualBlock<true>(thread->cells[class_index], size);
  if (__builtin_expect(is_common, 1)) AddToSession(*thread, size, (flags & kFlagControlled) != 0);
  LeaveProbe(*thread, outer);
  if (__builtin_expect(!is_common, 0)) return false;
  *owner = g_memory_process | thread->thread_id;
  static_assert(kFlagControlled < kControlledKey && (kControlledKey % kFlagControlled) == 0);
  *key |= (flags & kFlagControlled) * (kControlledKey / kFlagControlled);
  return true;
}
PFS_ALWAYS_INLINE bool FreeUsual(uint32_t key, uint64_t size, uint64_t owner) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, key & ~kControlledKey);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(class_index == 0 || thread == nullptr, 0)) return false;
  const uint64_t outer = thread->nesting;
  if (__builtin_expect(owner != (g_memory_process | thread->thread_id) || ThreadState::IsInside(outer) ||
                           class_index + ColumnsOf(Kind::kMemory) > thread->cell_count, 0)) {
    return false;
  }
  EnterProbe(*thread);
  const bool is_common = CountUsualBlock<false>(thread->cells[class_index], size);
  if (__builtin_expect(is_common, 1)) TakeFromSession(*thread, size, (key & kControlledKey) != 0);
  LeaveProbe(*thread, outer);
  return is_common;
}

// An allocation. Returns the key to keep with the block, 0 = it is not counted; and the owner.
PFS_ALWAYS_INLINE uint32_t AllocateMemory(uint32_t key, uint64_t size, uint64_t* owner) {
  key &= ~kControlledKey;
  return __builtin_expect(AllocateUsual(&key, size, owner), 1) ? key : AllocateSlowly(key, size, owner);
}

// A free. It counts if the allocation did, whatever setup says by now (SEMANTICS K5). `key` and `owner` as AllocateMemory() returned them.
PFS_ALWAYS_INLINE void FreeMemory(uint32_t key, uint64_t size, uint64_t owner) {
  if (__builtin_expect(!FreeUsual(key, size, owner), 0)) FreeSlowly(key, size, owner);
}

// A block changes its size: a free and an allocation. Returns the key to keep.
uint32_t ReallocateMemory(uint32_t key, uint64_t old_size, uint64_t new_size, uint64_t* owner);
// The calling thread gives a block away, or takes it (SEMANTICS K4). Returns the key to keep.
uint32_t ClaimMemory(uint32_t key, uint64_t size, uint64_t* owner, bool takes);

// ---- Of the cold path. All REQUIRE the cold lock.

// Before the thread's row moves up: its watermarks are of the present interval, and those above know exactly what it uses; its session ends, and its
// parties keep the most that it has used. REQUIRES: called by its owner, or nobody has it attached.
void SettleMemory(ShmThread& thread);
// A row that was moved up, or is a new member's: nothing is cancelled, nothing was told.
void ForgetMemory(Level level, uint32_t index);
// In a forked child: no session uses anything, and blocks that there are were counted elsewhere.
void ForgetMemoryInChild();

// Calls use(class_index) for each memory instrument.
template <typename Use>
void ForEachMemoryClass(Use use) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t at = 1; at < used; ++at) {
    const ShmClass& entry = g_runtime.classes[at];
    if (entry.family == static_cast<uint32_t>(Family::kMemory) && entry.ready.load(kRelaxed) != 0) use(static_cast<uint32_t>(at));
  }
}

}  // namespace perfschema
