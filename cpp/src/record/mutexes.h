// record/mutexes.h: instrumented mutexes and locks of the user's own.
#pragma once

#include <cerrno>

#include "record/wait.h"

namespace perfschema {

// A new instance of a registered mutex. nullptr: not instrumented (bad key, no room, pfs off). Cold.
pfs_instance* CreateMutex(uint32_t key, const void* identity);
void DestroyMutex(pfs_instance* instance);
// The flag word of its instrument. Valid as long as the process.
const uint32_t* FlagsOfMutex(const pfs_instance* instance);

inline ShmInstance* AsMutex(pfs_instance* instance) { return reinterpret_cast<ShmInstance*>(instance); }

// The rare ends: the lock is not held (nobody else's cell is ours, so a stripe takes the event), numbers of before a TRUNCATE, no cell.
[[gnu::noinline]] void AddLockApart(ThreadState& thread, ShmInstance& mutex, bool is_held, bool timed, uint64_t wait_ps, ShmCell* cell);

PFS_ALWAYS_INLINE void TakeOwnership(ShmInstance& mutex, uint64_t thread_id) {
  const uint64_t owner = mutex.owner.load(kRelaxed);
  // A recursive mutex that this thread held already: one level deeper.
  const bool again = __builtin_expect(owner != 0, 0) && (owner & kOwnerThreadMask) == thread_id;
  mutex.owner.store(again ? owner + (uint64_t{1} << 48) : thread_id, kRelaxed);
}

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginMutexWait(Wait& wait, ShmInstance& mutex, uint32_t flags, Operation operation, const char* file, uint32_t line) {
  if (!BeginWait<kMode>(wait, flags, mutex.class_index.load(kRelaxed), operation, mutex.identity.load(kRelaxed), file, line)) return false;
  // The wait outlives this call: what a longjmp leaves behind is its place on the caller's stack. One that lies elsewhere is never taken for left.
  const auto place = reinterpret_cast<uintptr_t>(&wait), stack = reinterpret_cast<uintptr_t>(StackMark());
  constexpr uintptr_t kStackBytes = 64u << 20, kNever = ~uintptr_t{0};
  if (wait.record != nullptr) {
    wait.thread->wait_frames[wait.outer & ThreadState::kDepthMask] = reinterpret_cast<const void*>(place - stack < kStackBytes ? place : kNever);
  }
  return true;
}

// What a probe of a pfs_mutex_t knows. Its beginning touches the class's line only, which is in the cache; the object's own line, which may
// not be, is on its way meanwhile.
struct MutexProbe {
  ShmInstance& mutex;
  const ShmClass& entry;
  const void* identity;

  MutexProbe(pfs_instance* instance, const uint32_t* flags, const void* object)
      : mutex(*AsMutex(instance)),
        entry(*reinterpret_cast<const ShmClass*>(reinterpret_cast<const char*>(flags) - offsetof(ShmClass, flags))),
        identity(object) {
    __builtin_prefetch(instance, 1);
  }
};

// rc is the result of the lock call: 0 or EOWNERDEAD = held.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndMutexWait(const Wait& wait, ShmInstance& mutex, int rc, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  const EndedWait ended = EndWait<kMode>(wait);
  const uint64_t nesting = CloseRecord<kMode>(wait, ended, more_state_bits, spins);
  ThreadState& thread = *wait.thread;
  ShmCell* const cell = ThreadCell<kMode>(wait);
  const bool is_held = __builtin_expect(rc == 0, 1) || rc == EOWNERDEAD;
  if (is_held) TakeOwnership(mutex, thread.thread_id);
  if (__builtin_expect(!is_held || cell == nullptr || mutex.gen.load(kRelaxed) != Generation(ResetDomain::kMutexInstances) ||
                           cell->gen.load(kRelaxed) != Generation(ResetDomain::kThreadWaits),
                       0)) {
    AddLockApart(thread, mutex, is_held, ended.timed, DurationOf<kMode>(wait, ended), cell);
  } else {
    if (ended.timed) {
      const uint64_t wait_ps = DurationOf<kMode>(wait, ended);
      AddTimed(mutex.seq, mutex.stat, wait_ps);
      AddTimed(cell->seq, cell->stat, wait_ps);
    } else {
      AddCounted(mutex.seq, mutex.stat);
      AddCounted(cell->seq, cell->stat);
    }
  }
  LeaveProbe(thread, nesting);
}

// One whole operation: begin, the real call, end. `operate()` returns its result as pthread functions do.
template <Mode kMode, typename Operate>
PFS_ALWAYS_INLINE int MutexOperation(const MutexProbe& probe, uint32_t flags, Operation operation, const char* file, uint32_t line, Operate operate) {
  Wait wait;
  const auto identity = reinterpret_cast<uintptr_t>(probe.identity);
  if (__builtin_expect(!BeginWait<kMode>(wait, flags, probe.entry.index, operation, identity, file, line), 0)) return operate();
  const int rc = operate();
  EndMutexWait<kMode>(wait, probe.mutex, rc);
  return rc;
}

// Counted, not timed, not recorded: nothing need be known before the end.
inline constexpr uint32_t kCountedFlags = kFlagEnabled | kFlagThread;
constexpr bool IsCounted(uint32_t flags) { return (flags & (kCountedFlags | kFlagTimed | kFlagCurrent | kFlagDead)) == kCountedFlags; }

// False: nothing was done, the general way must be gone.
template <typename Operate>
PFS_ALWAYS_INLINE bool CountedMutexOperation(const MutexProbe& probe, Operate operate, int* result) {
  ThreadState* const thread = CurrentThread();
  if (__builtin_expect(thread == nullptr || (thread->nesting & 0xff) >= kMaxNestedWaits, 0)) return false;
  const uint32_t class_index = probe.entry.index;
  if (__builtin_expect((thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0 || class_index >= thread->cell_count, 0)) return false;
  const int rc = *result = operate();
  ShmCell& cell = thread->cells[class_index];
  ShmInstance& mutex = probe.mutex;
  const uint64_t nesting = thread->nesting;
  EnterProbe(*thread);
  const bool is_held = __builtin_expect(rc == 0, 1) || rc == EOWNERDEAD;
  if (is_held) TakeOwnership(mutex, thread->thread_id);
  if (__builtin_expect(!is_held || mutex.gen.load(kRelaxed) != Generation(ResetDomain::kMutexInstances) ||
                           cell.gen.load(kRelaxed) != Generation(ResetDomain::kThreadWaits),
                       0)) {
    AddLockApart(*thread, mutex, is_held, false, 0, &cell);
  } else {
    AddCounted(mutex.seq, mutex.stat);
    AddCounted(cell.seq, cell.stat);
  }
  LeaveProbe(*thread, nesting);
  return true;
}

template <typename Operate>
[[gnu::noinline]] int AnyMutexOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                        const char* file, uint32_t line, Operate operate) {
  const MutexProbe probe(instance, flag_word, object);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return operate();
  if (int rc; IsCounted(flags) && CountedMutexOperation(probe, operate, &rc)) return rc;
  return MutexOperation<Mode::kAny>(probe, flags, operation, file, line, operate);
}

// `flag_word`: FlagsOfMutex(instance). `object`: OBJECT_INSTANCE_BEGIN.
template <typename Operate>
PFS_ALWAYS_INLINE int TimedMutexOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                          const char* file, uint32_t line, Operate operate) {
  const MutexProbe probe(instance, flag_word, object);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return AnyMutexOperation(instance, flag_word, object, operation, file, line, operate);
  return MutexOperation<Mode::kAllOn>(probe, flags, operation, file, line, operate);
}

}  // namespace perfschema
