// record/mutexes.h: instrumented mutexes and locks of the user's own.
#pragma once

#include <cerrno>

#include "record/wait.h"

namespace perfschema {

// A new instance of a registered mutex. nullptr: not instrumented (bad key, no room, pfs off). Cold.
pfs_instance* CreateMutex(uint32_t key, const void* identity);
void DestroyMutex(pfs_instance* instance);

inline ShmInstance* AsMutex(pfs_instance* instance) { return reinterpret_cast<ShmInstance*>(instance); }

// A wait that did not end with the lock held: nobody else's cell is ours, so a stripe takes it. Cold.
[[gnu::noinline]] void AddFailedLock(ThreadState& thread, ShmInstance& mutex, bool timed, uint64_t wait_ps);

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginMutexWait(Wait& wait, ShmInstance& mutex, uint32_t flags, Operation operation, const char* file, uint32_t line) {
  return BeginWait<kMode>(wait, flags, mutex.class_index.load(kRelaxed), operation, mutex.identity.load(kRelaxed), file, line);
}

// rc is the result of the lock call: 0 or EOWNERDEAD = held.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndMutexWait(const Wait& wait, ShmInstance& mutex, int rc, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  const EndedWait ended = EndWait<kMode>(wait);
  CloseRecord<kMode>(wait, ended, more_state_bits, spins);
  ShmCell* const cell = ThreadCell<kMode>(wait);
  if (__builtin_expect(rc != 0 && rc != EOWNERDEAD, 0)) {
    AddFailedLock(*wait.thread, mutex, ended.timed, ended.wait_ps);
    AddToThread<kMode>(wait, ended);
    LeaveProbe(*wait.thread, wait.outer);
    return;
  }
  const uint64_t owner = mutex.owner.load(kRelaxed);
  const uint64_t self = wait.thread->thread_id;
  // A recursive mutex that this thread held already: one level deeper.
  const bool again = __builtin_expect(owner != 0, 0) && (owner & kOwnerThreadMask) == self;
  mutex.owner.store(again ? owner + (uint64_t{1} << 48) : self, kRelaxed);
  if (__builtin_expect(cell != nullptr, 1)) {
    // Both cells at once: the counts first, they need not wait for the duration.
    CellWriter object_writer(mutex.seq, mutex.gen, Generation(ResetDomain::kMutexInstances));
    CellWriter thread_writer(cell->seq, cell->gen, Generation(ResetDomain::kThreadWaits));
    if (object_writer.is_stale()) ClearStat(mutex.stat);
    if (thread_writer.is_stale()) ClearStat(cell->stat);
    AddCount(mutex.stat);
    AddCount(cell->stat);
    if (ended.timed) {
      AddDuration(mutex.stat, ended.wait_ps);
      AddDuration(cell->stat, ended.wait_ps);
    }
  } else {
    CellWriter writer(mutex.seq, mutex.gen, Generation(ResetDomain::kMutexInstances));
    if (writer.is_stale()) ClearStat(mutex.stat);
    AddToStat(mutex.stat, ended.timed, ended.wait_ps);
  }
  LeaveProbe(*wait.thread, wait.outer);
}

// One whole operation: begin, the real call, end. `operate()` returns its result as pthread functions do.
template <Mode kMode, typename Operate>
PFS_ALWAYS_INLINE int MutexOperation(ShmInstance& mutex, uint32_t flags, Operation operation, const char* file, uint32_t line, Operate operate) {
  Wait wait;
  if (__builtin_expect(!BeginMutexWait<kMode>(wait, mutex, flags, operation, file, line), 0)) return operate();
  const int rc = operate();
  EndMutexWait<kMode>(wait, mutex, rc);
  return rc;
}

template <typename Operate>
[[gnu::noinline]] int AnyMutexOperation(ShmInstance& mutex, uint32_t flags, Operation operation, const char* file, uint32_t line, Operate operate) {
  if ((flags & kFlagEnabled) == 0) return operate();
  return MutexOperation<Mode::kAny>(mutex, flags, operation, file, line, operate);
}

template <typename Operate>
PFS_ALWAYS_INLINE int TimedMutexOperation(pfs_instance* instance, Operation operation, const char* file, uint32_t line, Operate operate) {
  ShmInstance& mutex = *AsMutex(instance);
  const uint32_t flags = mutex.flags.load(kRelaxed);
  if (__builtin_expect(IsAllOn(flags), 1)) return MutexOperation<Mode::kAllOn>(mutex, flags, operation, file, line, operate);
  return AnyMutexOperation(mutex, flags, operation, file, line, operate);
}

}  // namespace perfschema
