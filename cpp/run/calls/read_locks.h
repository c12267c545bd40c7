// run/calls/read_locks.h: read locks that their thread has taken before, by their tag alone.
//
// OpenSSL takes a read lock for each name that it looks up, a million times while a program loads its certificates, and they are some few
// locks. A thread remembers the last ones (KnownRead in record/context/threads.h): where such a lock counts, and what setup said of its
// instrument. So a lock and its release follow no tag and find no cell. An entry may be of a lock that is gone, and is checked:
//
//   the tag's word                  of the lock as it is now: a new lock at an old address has no tag (run/calls/tags.h)
//   the instance's address          as with each tag
//   the cell's instance and owner   the object lives since the cell was made, and the cell is still this slot's
//   the value of the flag word      setup has not changed
//
// Both generations, and whether the statistics have a wait of zero, are asked as for each event (record/probe/fast_path.h).
//
// Threads: owner thread. Handlers: an entry changes inside a probe only. Who uses it, and does not compare what is loaded from it with
// the instance, is inside one, too.
#pragma once

#include "record/family/lock_events.h"
#include "run/calls/tags.h"

namespace perfschema::run {

// Statistics that are not counted by one instruction need more than this path has. ThreadSanitizer needs more for all of them.
inline constexpr bool kKnowsReads = kCountsAtOnce;

// Loads a word that other threads may store to, where any value of it will do. The load is plain, so the compiler folds it into the
// comparison.
template <typename T>
PFS_ALWAYS_INLINE T Peek(const std::atomic<T>& word) {
  return LoadOwn(word);
}

PFS_ALWAYS_INLINE KnownRead& PlaceOfRead(ThreadState& thread, uint64_t word) { return thread.reads[word % ThreadState::kReads]; }

PFS_ALWAYS_INLINE bool IsOfRead(const KnownRead& read, uint64_t word, const pthread_rwlock_t* rw) {
  return __builtin_expect(read.word == word && Peek(read.instance->identity) == reinterpret_cast<uintptr_t>(rw), 1);
}

PFS_ALWAYS_INLINE bool HasCellOfRead(const KnownRead& read, const ShmInstance* instance) {
  return __builtin_expect(Peek(read.cell->instance) == InstanceMark(instance) && Peek(read.cell->owner) == read.slot, 1);
}

// Returns whether a lock of the entry counts if it need not be waited for: setup is as it was, and the thread's events count.
PFS_ALWAYS_INLINE bool MayCountRead(const KnownRead& read, const ThreadState& thread) {
  return __builtin_expect(Peek(*read.flags) == read.settings && (Peek(thread.shared->flags) & kThreadInstrumented) != 0, 1);
}

// Counts a read lock that was free, as CountUnrecorded() does. Returns false, and does nothing, in an uncommon case. REQUIRES: inside the
// probe.
PFS_ALWAYS_INLINE bool CountKnownRead(const KnownRead& read) {
  ShmCell& cell = *read.cell;
  ShmCell& own = *read.own;
  if (__builtin_expect(!HasCellOfRead(read, read.instance) || LoadOwn(cell.gen) != Generation(ObjectDomain(ResetGroup::kSync)) ||
                           !IsOfEpoch(own) || !HasWaitOfZero(cell.stat) || !HasWaitOfZero(own.stat),
                       0)) {
    return false;
  }
  CountUp(cell.held);
  AddCounted(cell.seq, cell.stat);
  AddCounted(own.seq, own.stat);
  return true;
}

// Does what ReleaseShared() does if the thread knows the lock, and counts it. Else returns false, and does nothing.
PFS_ALWAYS_INLINE bool ReleaseKnownRead(const pthread_rwlock_t* rw) {
  if (!kKnowsReads) return false;
  ThreadState* const thread = FreeThread();
  if (thread == nullptr) return false;
  const uint64_t word = TagWord(rw).load();
  const KnownRead& read = PlaceOfRead(*thread, word);
  if (!IsOfRead(read, word, rw)) return false;
  const ShmInstance* const instance = read.instance;
  ShmCell& cell = *read.cell;
  if (__builtin_expect(!HasCellOfRead(read, instance) || Peek(instance->owner) != 0 || LoadOwn(cell.held) == 0, 0)) return false;
  CountDown(cell.held);
  return true;
}

// Remembers a lock that the thread has just counted. `flags`: those of its instrument, which are IsContended().
inline void NoteRead(ThreadState& thread, const pthread_rwlock_t* rw, ShmInstance& instance, const HalfWord& flags, uint32_t settings) {
  if (!kKnowsReads) return;
  const uint32_t class_index = instance.class_index.load(std::memory_order_relaxed);
  ShmCell* const cell = SharedCellOf(thread, instance);
  if (!IsSharedCell(*cell, thread, instance) || class_index >= thread.cell_count) return;
  const uint64_t word = TagWord(rw).load();
  KnownRead& read = PlaceOfRead(thread, word);
  const uint64_t nesting = thread.nesting;
  EnterProbe(thread);
  ChangeEntry(read.instance, &no_instance, &instance, [&] {
    read.word = word;
    read.thread = &thread;
    read.cell = cell;
    read.own = &thread.cells[class_index];
    read.flags = &flags;
    read.settings = settings;
    read.slot = thread.slot;
  });
  LeaveProbe(thread, nesting);
}

}  // namespace perfschema::run
