// record/family/locks.h: instrumented mutexes, rwlocks, prlocks, sxlocks and conditions, and such locks of the user's own.
//
// An operation that ends with the object held exclusively counts in the object's own cell, which the holder alone writes. All others
// (shared locks, failed tries, waits for conditions) count in the thread's cell of the object. So do the events that TIMED = 'SAMPLED' only
// counts: the object's own line is full.
//
// A read lock counts in the reader's own cell. `held` of that cell goes up when the lock is taken and down when the same thread releases
// it, and READ_LOCKED_BY_COUNT is the sum over the cells: exact, with no line that readers share. A thread remembers the cells that it
// used last (shared_cells), so a release is a few loads. A condition may be destroyed before all woken threads have returned: its waits
// remember its version, as those on sockets do.
#pragma once

#include <cerrno>

#include "record/engine/classes.h"
#include "record/engine/free_lists.h"
#include "record/probe/call_sites.h"
#include "record/probe/wait.h"

namespace perfschema {

// Makes an instance of a registered instrument. Returns nullptr if the key is bad, the array is full, or pfs is off. Slow path.
pfs_instance* CreateInstance(Family family, uint32_t key, const void* identity);
void DestroyInstance(pfs_instance* instance);
// The slow paths of CreateObject() and DestroyObject().
[[gnu::noinline, gnu::cold]] pfs_instance* CreateSlowly(Family family, uint32_t class_index, const void* identity);
[[gnu::noinline, gnu::cold]] void DestroySlowly(ShmInstance& object);

inline ShmInstance* AsInstance(pfs_instance* instance) { return reinterpret_cast<ShmInstance*>(instance); }

// The same for a pfs_mutex_t, a pfs_rwlock_t or a pfs_cond_t, in place: some programs make one for each operation.
template <typename Object>
PFS_ALWAYS_INLINE void CreateObject(Family family, uint32_t key, Object* object) {
  const uint32_t class_index = ClassOfKey(family, key);
  pfs_instance* instance = nullptr;
  if (__builtin_expect(class_index != 0, 1)) {
    instance = reinterpret_cast<pfs_instance*>(MakeFromFreeSlot(class_index, object));
    if (__builtin_expect(instance == nullptr, 0)) instance = CreateSlowly(family, class_index, object);
  }
  object->instance = instance;
  object->flags = instance == nullptr ? nullptr : reinterpret_cast<const uint32_t*>(&g_runtime.classes[class_index].flags);
}
// Returns `rc`, why there is no object.
template <typename Object>
[[gnu::noinline, gnu::cold]] int NoObject(Object* object, int rc) {
  object->instance = nullptr;
  object->flags = nullptr;
  return rc;
}
template <typename Object>
PFS_ALWAYS_INLINE void DestroyObject(Object* object) {
  ShmInstance* const instance = AsInstance(object->instance);
  if (instance == nullptr) return;
  if (__builtin_expect(!KeepFreeSlot(*instance), 0)) DestroySlowly(*instance);
  object->instance = nullptr;
  object->flags = nullptr;
}

// Who has the object when its operation has ended.
enum class Hold { kNothing, kShared, kExclusive };

// Counts a long wait (kLongWait), and an event that the object's own cell does not count, or that must clear it first: the object is not
// held exclusively, the statistics are of before a TRUNCATE, TIMED = 'SAMPLED' did not time the event, or the thread's row has no cell.
[[gnu::noinline]] void AddLockApart(const Wait& wait, ShmInstance& object, Hold hold, bool timed, uint64_t wait_ps, ShmCell* cell);

inline uint32_t IndexOf(const ShmInstance& object) { return static_cast<uint32_t>(&object - g_runtime.instances); }

// Returns whether the thread writes this cell of the object while it does not hold the object exclusively. Then it stays so while the
// object lives.
PFS_ALWAYS_INLINE bool IsSharedCell(const ShmCell& cell, const ThreadState& thread, const ShmInstance& object) {
  return __builtin_expect(cell.instance.load(kRelaxed) == InstanceMark(&object) && cell.owner.load(kRelaxed) == thread.slot, 1);
}

// Returns where the thread remembers that cell: it is another one if the thread has used another object since.
PFS_ALWAYS_INLINE ShmCell*& SharedCellOf(ThreadState& thread, const ShmInstance& object) {
  return thread.shared_cells[reinterpret_cast<uintptr_t>(&object) / sizeof(ShmInstance) % ThreadState::kSharedCells];
}

// Finds that cell, and remembers it. Returns nullptr if the array is full, and counts that.
[[gnu::noinline]] ShmCell* FindSharedCell(ThreadState& thread, ShmInstance& object);

// ---- Letting a shared lock go ---------------------------------------------------------------------------------------------------
//
// A cell's `held` goes up when the operation ends and down when the lock is let go, in the same thread. It is no statistic: TRUNCATE leaves
// it, and setup is not asked when it goes down. A release that finds nothing held here is one of a lock that was taken while nobody looked
// (instrument or thread disabled, pfs busy in this very thread).

[[gnu::noinline]] int ReleaseSharedSlow(ShmInstance& object);

// Does what ReleaseShared() does if the thread remembers the cell, and counts the lock there. Else returns false, and does nothing.
PFS_ALWAYS_INLINE bool ReleaseSharedFast(ShmInstance& object) {
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr || thread->inside(), 0)) return false;
  ShmCell& cell = *SharedCellOf(*thread, object);
  if (__builtin_expect(!IsSharedCell(cell, *thread, object), 0)) return false;
  const uint32_t held = cell.held.load(kRelaxed);
  if (__builtin_expect(held == 0, 0)) return false;
  // A signal handler that comes between the two accesses lets go what it took itself: the word is the same afterwards.
  cell.held.store(held - 1, kRelaxed);
  return true;
}

// Counts that the lock is let go. Called before that. Returns 1 if the lock had been counted: UndoRelease() if it could not be let go after
// all.
PFS_ALWAYS_INLINE int ReleaseShared(ShmInstance& object) { return ReleaseSharedFast(object) ? 1 : ReleaseSharedSlow(object); }
void UndoRelease(ShmInstance& object);

PFS_ALWAYS_INLINE void TakeOwnership(ShmInstance& mutex, uint64_t thread_id) {
  const uint64_t owner = mutex.owner.load(kRelaxed);
  // A recursive mutex that this thread held already: one level deeper.
  const bool again = __builtin_expect(owner != 0, 0) && (owner & kOwnerThreadMask) == thread_id;
  mutex.owner.store(again ? owner + (uint64_t{1} << 48) : thread_id, kRelaxed);
}

PFS_ALWAYS_INLINE bool BeginInstanceWait(Wait& wait, ShmInstance& mutex, uint32_t flags, Operation operation, const char* file,
                                         uint32_t line) {
  if (!BeginWait(wait, flags, mutex.class_index.load(kRelaxed), operation, mutex.identity.load(kRelaxed), file, line)) return false;
  KeepUntilEnd(wait);
  return true;
}

constexpr bool IsHeld(int rc) { return __builtin_expect(rc == 0, 1) || rc == EOWNERDEAD; }
// A lock that others have, too, knows of no owner that died.
constexpr bool IsHeld(int rc, Hold wanted) { return wanted == Hold::kShared ? __builtin_expect(rc == 0, 1) != 0 : IsHeld(rc); }
// What a result of 0 means for the caller.
constexpr Hold HoldAfter(Operation operation) {
  switch (operation) {
    case Operation::kReadLock:
    case Operation::kTryReadLock:
    case Operation::kTimedReadLock:
    case Operation::kSharedLock:
    case Operation::kTrySharedLock:
      return Hold::kShared;
    case Operation::kCondWait:
    case Operation::kCondTimedWait:
      return Hold::kNothing;
    default:
      return Hold::kExclusive;
  }
}

// Does it return without waiting?
constexpr bool IsTry(Operation operation) {
  return operation == Operation::kTryLock || operation == Operation::kTryReadLock || operation == Operation::kTryWriteLock;
}

// A probe of a pfs_mutex_t, a pfs_rwlock_t ... begins with the class's line only, which is in the cache. The object's own line, which may
// not be, is on its way meanwhile.
struct LockProbe {
  ShmInstance& instance;
  const ShmClass& entry;

  PFS_ALWAYS_INLINE LockProbe(pfs_instance* object, const uint32_t* flags, Operation operation)
      : instance(*AsInstance(object)),
        entry(*reinterpret_cast<const ShmClass*>(reinterpret_cast<const char*>(flags) - offsetof(ShmClass, flags))) {
    // Readers of an rwlock, who do not store to its line, must not take it from each other.
    if (HoldAfter(operation) == Hold::kExclusive) {
      __builtin_prefetch(object, 1);
    } else {
      __builtin_prefetch(object, 0);
    }
  }
};

// An operation that gives the caller the object exclusively counts in the object's own cell, a shared one in the thread's.
struct LockStat {
  HalfWord& seq;
  HalfWord& gen;
  ShmStat& stat;

  PFS_ALWAYS_INLINE static LockStat Of(ThreadState& thread, ShmInstance& object, Hold wanted) {
    ShmCell& shared = *SharedCellOf(thread, object);
    return wanted == Hold::kExclusive ? LockStat{object.seq, object.gen, object.stat} : LockStat{shared.seq, shared.gen, shared.stat};
  }
  // Returns whether this is the object's statistic, since the last TRUNCATE.
  PFS_ALWAYS_INLINE bool AreReady(ThreadState& thread, ShmInstance& object, Hold wanted) const {
    return (wanted == Hold::kExclusive || (wanted == Hold::kShared && IsSharedCell(*SharedCellOf(thread, object), thread, object))) &&
           LoadOwn(gen) == Generation(ObjectDomain(ResetGroup::kSync));
  }
};

// Counts that the thread has taken a lock which others may have, too. REQUIRES: inside the probe: a handler on this thread that comes in
// between is not counted when it lets go.
PFS_ALWAYS_INLINE void AddHeld(ShmCell& cell) { cell.held.store(cell.held.load(kRelaxed) + 1, kRelaxed); }

// Ends an operation that gives the caller `wanted` if its result says so, from the timer on.
PFS_ALWAYS_INLINE void FinishLockWait(const Wait& wait, const EndedWait& ended, ShmInstance& object, Hold wanted, int rc,
                                      uint64_t more_state_bits = 0, uint32_t spins = 0) {
  const uint64_t nesting = CloseRecord(wait, ended, more_state_bits, spins);
  ThreadState& thread = *wait.thread;
  const uint64_t wait_ps = DurationOf(wait, ended);
  ShmCell* const cell = ThreadCell(wait);
  const LockStat stat = LockStat::Of(thread, object, wanted);
  const bool is_held = IsHeld(rc, wanted);
  if (wanted == Hold::kExclusive && is_held) TakeOwnership(object, thread.thread_id);
  if (__builtin_expect(is_held && stat.AreReady(thread, object, wanted) && cell != nullptr && IsOfEpoch(*cell) && wait_ps < kLongWait, 1)) {
    if (wanted == Hold::kShared) AddHeld(*SharedCellOf(thread, object));
    AddOne(stat.seq, stat.stat, ended.timed, wait_ps);
    AddOne(cell->seq, cell->stat, ended.timed, wait_ps);
  } else {
    AddLockApart(wait, object, is_held ? wanted : Hold::kNothing, ended.timed, wait_ps, cell);
  }
  LeaveProbe(thread, nesting);
}
PFS_ALWAYS_INLINE void EndLockWait(const Wait& wait, ShmInstance& object, Hold wanted, int rc, uint64_t more_state_bits = 0,
                                   uint32_t spins = 0) {
  FinishLockWait(wait, EndWait(wait), object, wanted, rc, more_state_bits, spins);
}

// Ends a wait for a condition. The condition may have died by now, and its slot be another object's: a thread that was woken may destroy it
// before all that waited have returned. `version`: its generation when the wait began.
[[gnu::noinline]] void EndCondWait(const Wait& wait, const ShmInstance& object, uint32_t version);

}  // namespace perfschema
