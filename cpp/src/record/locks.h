// record/locks.h: instrumented mutexes, rwlocks, prlocks, sxlocks and conditions, and such locks of the user's own.
//
// An operation that ends with the object held exclusively counts in the object's own cell, which the holder alone writes. All others (shared
// locks, failed tries, waits for conditions) count in the thread's cell of the object.
#pragma once

#include <cerrno>

#include "record/wait.h"

namespace perfschema {

// A new instance of a registered instrument. nullptr: not instrumented (bad key, no room, pfs off). Cold.
pfs_instance* CreateInstance(Family family, uint32_t key, const void* identity);
void DestroyInstance(pfs_instance* instance);
// The flag word of its instrument. Valid as long as the process.
const uint32_t* FlagsOfInstance(const pfs_instance* instance);

inline ShmInstance* AsInstance(pfs_instance* instance) { return reinterpret_cast<ShmInstance*>(instance); }

// Who has the object when its operation has ended.
enum class Hold { kNothing, kShared, kExclusive };

// The ends that are not written in the object's own cell, or must clear it first: it is not held exclusively, numbers of before a TRUNCATE,
// no cell in the thread's row.
[[gnu::noinline]] void AddLockApart(ThreadState& thread, ShmInstance& object, Hold hold, bool timed, uint64_t wait_ps, ShmCell* cell);

inline uint32_t IndexOf(const ShmInstance& object) { return static_cast<uint32_t>(&object - g_runtime.instances); }

// The cell of the object that the thread writes while it does not hold it exclusively. nullptr: no room, counted.
PFS_ALWAYS_INLINE ShmCell* SharedCell(ThreadState& thread, ShmInstance& object) {
  const uint32_t index = IndexOf(object);
  return FindCellAtHead(thread, CellKind::kInstance, index, object.version, 0, g_runtime.instance_lists[index]);
}

// ---- Letting a shared lock go ---------------------------------------------------------------------------------------------------
//
// A cell's `held` goes up when the operation ends and down when the lock is let go, in the same thread. It is no statistic: TRUNCATE leaves
// it, and setup is not asked when it goes down. A release that finds nothing held here is one of a lock that was taken while nobody looked
// (instrument or thread disabled, pfs busy in this very thread).

// Of a thread that has no cell at the head of the list: another thread's may be there.
[[gnu::noinline]] ShmCell* ReleaseSharedSlow(ShmInstance& object);

// To be called before the lock is let go. Returns the cell that has one less, for ReleaseFailed; nullptr: nothing was held here.
PFS_ALWAYS_INLINE ShmCell* ReleaseShared(ShmInstance& object) {
  ThreadState* const thread = t_locals.state;
  const uint32_t first = g_runtime.instance_lists[IndexOf(object)].head.load(kAcquire);
  ShmCell* cell = &g_runtime.cells[first];
  if (__builtin_expect(thread == nullptr || first == 0 || cell->owner.load(kRelaxed) != thread->slot || thread->inside(), 0)) {
    return ReleaseSharedSlow(object);
  }
  const uint64_t held = cell->held.load(kRelaxed);
  if (__builtin_expect(held == 0, 0)) return nullptr;
  // A signal handler that comes between the two accesses lets go what it took itself: the word is the same afterwards.
  cell->held.store(held - 1, kRelaxed);
  return cell;
}

// The lock was not let go after all.
inline void ReleaseFailed(ShmCell* cell) {
  if (cell != nullptr) cell->held.store(cell->held.load(kRelaxed) + 1, kRelaxed);
}

PFS_ALWAYS_INLINE void TakeOwnership(ShmInstance& mutex, uint64_t thread_id) {
  const uint64_t owner = mutex.owner.load(kRelaxed);
  // A recursive mutex that this thread held already: one level deeper.
  const bool again = __builtin_expect(owner != 0, 0) && (owner & kOwnerThreadMask) == thread_id;
  mutex.owner.store(again ? owner + (uint64_t{1} << 48) : thread_id, kRelaxed);
}

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginInstanceWait(Wait& wait, ShmInstance& mutex, uint32_t flags, Operation operation, const char* file, uint32_t line) {
  if (!BeginWait<kMode>(wait, flags, mutex.class_index.load(kRelaxed), operation, mutex.identity.load(kRelaxed), file, line)) return false;
  KeepUntilEnd(wait);
  return true;
}

constexpr bool IsHeld(int rc) { return __builtin_expect(rc == 0, 1) || rc == EOWNERDEAD; }
// What a result of 0 means for the caller.
constexpr Hold HoldAfter(Operation operation) {
  switch (operation) {
    case Operation::kReadLock:
    case Operation::kTryReadLock:
    case Operation::kTimedReadLock:
    case Operation::kSharedLock:
    case Operation::kTrySharedLock: return Hold::kShared;
    case Operation::kCondWait:
    case Operation::kCondTimedWait: return Hold::kNothing;
    default: return Hold::kExclusive;
  }
}

// What a probe of a pfs_mutex_t, a pfs_rwlock_t ... knows. Its beginning touches the class's line only, which is in the cache; the object's own line, which may
// not be, is on its way meanwhile.
struct LockProbe {
  ShmInstance& mutex;
  const ShmClass& entry;
  const void* identity;

  PFS_ALWAYS_INLINE LockProbe(pfs_instance* instance, const uint32_t* flags, const void* object, Operation operation)
      : mutex(*AsInstance(instance)),
        entry(*reinterpret_cast<const ShmClass*>(reinterpret_cast<const char*>(flags) - offsetof(ShmClass, flags))),
        identity(object) {
    // Readers of an rwlock must not take its line from each other.
    if (HoldAfter(operation) == Hold::kExclusive) {
      __builtin_prefetch(instance, 1);
    } else {
      __builtin_prefetch(&g_runtime.instance_lists[IndexOf(mutex)]);
    }
  }
};

PFS_ALWAYS_INLINE void AddShared(ThreadState& thread, ShmInstance& object, Hold hold, bool timed, uint64_t wait_ps) {
  ShmCell* const cell = SharedCell(thread, object);
  if (__builtin_expect(cell == nullptr, 0)) return;
  const uint32_t gen = Generation(ObjectDomain(ResetGroup::kSync));
  if (__builtin_expect(cell->gen.load(kRelaxed) != gen, 0)) {
    AddToCell(*cell, gen, timed, wait_ps);
  } else {
    AddOne(cell->seq, cell->stat, timed, wait_ps);
  }
  // A handler on this thread cannot come in between with a release of its own: the probe is inside, so that it is not counted.
  if (hold == Hold::kShared) cell->held.store(cell->held.load(kRelaxed) + 1, kRelaxed);
}

// The end of an operation that gives the caller `hold` if its result says so. (A constant where it matters: nothing of it is kept over the call.)
template <Mode kMode>
PFS_ALWAYS_INLINE void EndLockWait(const Wait& wait, ShmInstance& object, Hold hold, int rc, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  const EndedWait ended = EndWait<kMode>(wait);
  const uint64_t nesting = CloseRecord<kMode>(wait, ended, more_state_bits, spins);
  ThreadState& thread = *wait.thread;
  ShmCell* const cell = ThreadCell<kMode>(wait);
  const bool is_held = IsHeld(rc);
  if (hold == Hold::kExclusive) {
    if (is_held) TakeOwnership(object, thread.thread_id);
    if (__builtin_expect(!is_held || cell == nullptr || object.gen.load(kRelaxed) != Generation(ObjectDomain(ResetGroup::kSync)) || !IsOfEpoch(*cell), 0)) {
      AddLockApart(thread, object, is_held ? hold : Hold::kNothing, ended.timed, ended.timed ? DurationOf<kMode>(wait, ended) : 0, cell);
    } else if (ended.timed) {
      const uint64_t wait_ps = DurationOf<kMode>(wait, ended);
      AddTimed(object.seq, object.stat, wait_ps);
      AddTimed(cell->seq, cell->stat, wait_ps);
    } else {
      AddCounted(object.seq, object.stat);
      AddCounted(cell->seq, cell->stat);
    }
  } else {
    const uint64_t wait_ps = ended.timed ? DurationOf<kMode>(wait, ended) : 0;
    AddShared(thread, object, is_held ? hold : Hold::kNothing, ended.timed, wait_ps);
    AddToThreadCell(cell, ended.timed, wait_ps);
  }
  LeaveProbe(thread, nesting);
}

// The end of a wait for a condition, which may have died by now, and its slot be another object's: whoever was woken may destroy it before all
// that waited have returned. `version`: that of its life when the wait began.
[[gnu::noinline]] void EndCondWait(const Wait& wait, const ShmInstance& object, uint16_t version);

// One whole operation: begin, the real call, end. `operate()` returns its result as pthread functions do.
template <Mode kMode, typename Operate>
PFS_ALWAYS_INLINE int LockOperation(const LockProbe& probe, uint32_t flags, Operation operation, const char* file, uint32_t line, Operate operate) {
  Wait wait;
  const auto identity = reinterpret_cast<uintptr_t>(probe.identity);
  if (__builtin_expect(!BeginWait<kMode>(wait, flags, probe.entry.index, operation, identity, file, line), 0)) return operate();
  const int rc = operate();
  EndLockWait<kMode>(wait, probe.mutex, HoldAfter(operation), rc);
  return rc;
}

// Counted, not timed, not recorded: nothing need be known before the end.
inline constexpr uint32_t kCountedFlags = kFlagEnabled | kFlagThread;
constexpr bool IsCounted(uint32_t flags) { return (flags & (kCountedFlags | kFlagTimed | kFlagCurrent | kFlagDead)) == kCountedFlags; }

// False: nothing was done, the general way must be gone.
template <typename Operate>
PFS_ALWAYS_INLINE bool CountedLockOperation(const LockProbe& probe, Operation operation, Operate operate, int* result) {
  ThreadState* const thread = CurrentThread();
  if (__builtin_expect(thread == nullptr || (thread->nesting & 0xff) >= kMaxNestedWaits, 0)) return false;
  const uint32_t class_index = probe.entry.index;
  if (__builtin_expect((thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0 || class_index >= thread->cell_count, 0)) return false;
  const int rc = *result = operate();
  ShmCell& cell = thread->cells[class_index];
  ShmInstance& mutex = probe.mutex;
  const uint64_t nesting = thread->nesting;
  EnterProbe(*thread);
  const bool is_held = IsHeld(rc), is_exclusive = HoldAfter(operation) == Hold::kExclusive;
  if (is_exclusive && is_held) TakeOwnership(mutex, thread->thread_id);
  if (!is_exclusive && __builtin_expect(IsOfEpoch(cell), 1)) {
    AddShared(*thread, mutex, is_held ? HoldAfter(operation) : Hold::kNothing, false, 0);
    AddCounted(cell.seq, cell.stat);
  } else if (__builtin_expect(!is_exclusive || !is_held || mutex.gen.load(kRelaxed) != Generation(ObjectDomain(ResetGroup::kSync)) || !IsOfEpoch(cell), 0)) {
    AddLockApart(*thread, mutex, is_held ? HoldAfter(operation) : Hold::kNothing, false, 0, &cell);
  } else {
    AddCounted(mutex.seq, mutex.stat);
    AddCounted(cell.seq, cell.stat);
  }
  LeaveProbe(*thread, nesting);
  return true;
}

template <typename Operate>
[[gnu::noinline]] int AnyLockOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                        const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(instance, flag_word, object, operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return operate();
  if (int rc; IsCounted(flags) && CountedLockOperation(probe, operation, operate, &rc)) return rc;
  return LockOperation<Mode::kAny>(probe, flags, operation, file, line, operate);
}

// `flag_word`: FlagsOfInstance(instance). `object`: OBJECT_INSTANCE_BEGIN.
template <typename Operate>
PFS_ALWAYS_INLINE int TimedLockOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                          const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(instance, flag_word, object, operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return AnyLockOperation(instance, flag_word, object, operation, file, line, operate);
  return LockOperation<Mode::kAllOn>(probe, flags, operation, file, line, operate);
}

}  // namespace perfschema
