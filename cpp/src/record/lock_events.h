// record/lock_events.h: the two events of locks that nearly all are, written out: everything on, and counted only.
//
// What an event costs beyond the two timer reads is its instructions, and not what they wait for: a processor has room for some 300 of them behind
// a read of the timer. So here is what the general way (record/wait.h) does for a thread that is in no other wait, with as few as can be. Whatever is
// not as usual is a call in the place of the last one, so that few values are kept over the operation:
//   before the operation: the general way does all of it;
//   after it:             FinishUnusualLock.
#pragma once

#include "record/locks.h"

namespace perfschema {

// The general way.
template <typename Operate>
[[gnu::noinline]] int AnyLockOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                       const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(instance, flag_word, object, operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  return (flags & kFlagEnabled) == 0 ? operate() : LockOperation<Mode::kAny>(probe, flags, operation, file, line, operate);
}

// From the second reading of the timer on.
[[gnu::noinline]] int FinishUnusualLock(ThreadState& thread, ShmWaitRecord& record, ShmInstance& object, Hold wanted, int rc, uint64_t end_ticks);
[[gnu::noinline]] int FinishUnusualCount(ThreadState& thread, uint32_t class_index, ShmInstance& object, Hold wanted, int rc);

// Who holds it exclusively is known, and it was nobody: a recursive lock that this thread had already is not usual.
PFS_ALWAYS_INLINE bool IsFirstHold(const ShmInstance& object, Hold wanted) { return wanted != Hold::kExclusive || LoadOwn(object.owner) == 0; }
PFS_ALWAYS_INLINE void TakeFirstHold(ThreadState& thread, ShmInstance& object, Hold wanted) {
  if (wanted == Hold::kExclusive) {
    object.owner.store(thread.thread_id, kRelaxed);
  } else {
    AddHeld(*thread.shared_cell);
  }
}
PFS_ALWAYS_INLINE bool IsUsualEnd(ThreadState& thread, uint32_t class_index, const Numbers& numbers, ShmInstance& object, Hold wanted, int rc) {
  return rc == 0 && class_index < thread.cell_count && numbers.AreReady(thread, object, wanted) && IsOfEpoch(thread.cells[class_index]) &&
         IsFirstHold(object, wanted);
}

// Counted, not timed, not recorded.
template <typename Operate>
[[gnu::noinline]] int CountedLockOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                           const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(instance, flag_word, object, operation);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(!IsCounted(probe.entry.flags.load(kRelaxed)) || thread == nullptr || thread->inside() ||
                           (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0, 0)) {
    return AnyLockOperation(instance, flag_word, object, operation, file, line, operate);
  }
  const int rc = operate();
  const uint32_t class_index = probe.entry.index;
  const Hold wanted = HoldAfter(operation);
  const Numbers numbers = Numbers::Of(*thread, probe.mutex, wanted);
  if (__builtin_expect(!IsUsualEnd(*thread, class_index, numbers, probe.mutex, wanted, rc), 0)) {
    return FinishUnusualCount(*thread, class_index, probe.mutex, wanted, rc);
  }
  const uint64_t nesting = thread->nesting;
  EnterProbe(*thread);
  TakeFirstHold(*thread, probe.mutex, wanted);
  ShmCell& cell = thread->cells[class_index];
  AddCounted(numbers.seq, numbers.stat);
  AddCounted(cell.seq, cell.stat);
  LeaveProbe(*thread, nesting);
  return rc;
}

// `flag_word`: FlagsOfInstance(instance). `object`: OBJECT_INSTANCE_BEGIN.
template <typename Operate>
PFS_ALWAYS_INLINE int TimedLockOperation(pfs_instance* instance, const uint32_t* flag_word, const void* object, Operation operation,
                                         const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(instance, flag_word, object, operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return CountedLockOperation(instance, flag_word, object, operation, file, line, operate);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr || thread->nesting != 0, 0)) {
    return AnyLockOperation(instance, flag_word, object, operation, file, line, operate);
  }
  const uint32_t thread_flags = thread->shared->flags.load(kRelaxed);
  ShmWaitRecord* const record = static_cast<ShmWaitRecord*>(thread->waits.next);
  const SourceCache::Entry& source = thread->sources.PlaceOf(file, line);
  if (__builtin_expect((thread_flags & kThreadInstrumented) == 0 || record == thread->waits.end || !SourceCache::IsOf(source, file, line), 0)) {
    return AnyLockOperation(instance, flag_word, object, operation, file, line, operate);
  }

  EnterProbe(*thread, 0);
  thread->waits.next = record + 1;
  const uint64_t event_id = thread->event_id + 1;
  thread->event_id = event_id;
  thread->open_waits[0] = record;
  WriteBegin(*record, event_id, reinterpret_cast<uintptr_t>(object), thread->parent_event_id,
             WhatOf(probe.entry.index, operation, thread->parent_type, source.source));
  const uint64_t state = thread->waits.lap_bits | kRecordOpen | kFlagTimed | (flags & thread_flags & kThreadViews);
  LeaveProbe(*thread, 1);
  record->start_ticks.store(ReadCycle(), kRelease);
  record->state.store(state, kRelease);  // publishes the open event; pairs with Snapshot

  const int rc = operate();

  const uint64_t end_ticks = ReadCycle(), ticks = end_ticks - LoadOwn(record->start_ticks);
  EnterProbe(*thread, 1);
  const Hold wanted = HoldAfter(operation);
  // From the record and not from the object, whose line may still be on its way: over scattered mutexes that is 5 % of the floor.
  const auto class_index = static_cast<uint16_t>(LoadOwn(record->what));
  const Numbers numbers = Numbers::Of(*thread, probe.mutex, wanted);
  // No event has begun in this one: nothing has been taken since, and its end is its own EVENT_ID.
  const bool is_last = LoadOwn(record->event_id) == thread->event_id;
  if (__builtin_expect(!is_last || ticks >= kShortTicks || !IsUsualEnd(*thread, class_index, numbers, probe.mutex, wanted, rc), 0)) {
    return FinishUnusualLock(*thread, *record, probe.mutex, wanted, rc, end_ticks);
  }
  record->end_ticks.store(end_ticks, kRelease);
  record->state.store(LoadOwn(record->state) ^ (kRecordOpen | kRecordClosed), kRelease);  // publishes the whole event
  TakeFirstHold(*thread, probe.mutex, wanted);
  ShmCell& cell = thread->cells[class_index];
  AddTimedToBoth(numbers.seq, numbers.stat, cell.seq, cell.stat, (ticks * g_runtime.picos_per_tick[0]) >> TimerScale::kFractionBits);
  LeaveProbe(*thread, 0);
  return rc;
}

}  // namespace perfschema
