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
void AddFailedLock(const Wait& wait, ShmInstance& mutex, const EndedWait& ended);

inline bool BeginMutexWait(Wait* wait, pfs_instance* instance, Operation operation, const char* file, uint32_t line) {
  const ShmInstance& mutex = *AsMutex(instance);
  const uint32_t flags = mutex.flags.load(kRelaxed);
  if (__builtin_expect((flags & kFlagEnabled) == 0, 0)) return false;
  return BeginWait(*wait, flags, mutex.class_index.load(kRelaxed), operation, mutex.identity.load(kRelaxed), file, line);
}

// rc is the result of the lock call: 0 or EOWNERDEAD = held.
inline void EndMutexWait(Wait* wait, pfs_instance* instance, int rc, uint32_t spins, bool has_spins) {
  ShmInstance& mutex = *AsMutex(instance);
  const EndedWait ended = EndWait(*wait);
  if (__builtin_expect(rc == 0 || rc == EOWNERDEAD, 1)) {
    CellWriter writer(mutex.seq, mutex.gen, Generation(ResetDomain::kMutexInstances));
    if (writer.is_stale()) ClearStat(mutex.stat);
    AddToStat(mutex.stat, ended.timed, ended.wait_ps);
    const uint64_t owner = mutex.owner.load(kRelaxed);
    const uint64_t self = wait->thread->thread_id & kOwnerThreadMask;
    // A recursive mutex that this thread held already: one level deeper.
    const bool again = __builtin_expect(owner != 0 && (owner & kOwnerThreadMask) == self, 0);
    mutex.owner.store(again ? owner + (uint64_t{1} << 48) : self, kRelaxed);
  } else {
    AddFailedLock(*wait, mutex, ended);
  }
  FinishWait(*wait, ended, has_spins ? kRecordHasSpins : 0, spins);
}

}  // namespace perfschema
