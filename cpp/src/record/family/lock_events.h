// record/family/lock_events.h: the events of locks that nearly all are, written out: everything on; not recorded; counted only; looked at only where
// there is somebody to wait for (TIMED = 'CONTENDED').
//
// What an event costs beyond the two timer reads is its instructions, and not what they wait for: a processor has room for some 300 of them behind
// a read of the timer. So here is what the general way (record/probe/wait.h) does for a thread that is in no other wait, with as few as can be. Whatever is
// not as usual is a call in the place of the last one, so that few values are kept over the operation:
//   before the operation: the general way does all of it;
//   after it:             Finish....
#pragma once

#include "record/family/locks.h"
#include "record/probe/usual_events.h"

namespace perfschema {

// The operation of a lock that a probe is around. Both return what pthread functions do; attempt() is the same without waiting. `object` is the
// pfs_mutex_t, pfs_rwlock_t ...: its instance, its flag word and its address are what a probe is called with.
template <typename Object, int (*kOperate)(Object*), int (*kAttempt)(Object*)>
struct LockCall {
  Object* object;
  PFS_ALWAYS_INLINE int operator()() const { return kOperate(object); }
  PFS_ALWAYS_INLINE int attempt() const { return kAttempt(object); }
};

PFS_ALWAYS_INLINE uint32_t FlagsIn(const uint32_t* flag_word) { return __atomic_load_n(flag_word, __ATOMIC_RELAXED); }

// The general way.
template <typename Operate>
[[gnu::noinline]] int AnyLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(operate.object->instance, operate.object->flags, operate.object, operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  return (flags & kFlagEnabled) == 0 ? operate() : LockOperation(probe, flags, operation, file, line, operate);
}

// The same from inside the probe, where no other wait is open.
template <typename Operate>
[[gnu::noinline]] int LeaveForAnyLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  LeaveProbe(*t_locals.state, 0);
  return AnyLockOperation(operation, file, line, operate);
}

// From the second reading of the timer on.
[[gnu::noinline]] int FinishUncommonLock(ThreadState& thread, ShmWaitRecord& record, ShmInstance& object, Hold wanted, int rc, uint64_t end_ticks);
// An event that ended as usual, in the last record of its chunk: the next chunk. 0: the operation's result.
[[gnu::noinline]] int FinishLockAndChunk(ThreadState& thread);
[[gnu::noinline]] int FinishUnrecordedLock(ThreadState& thread, uint32_t class_index, ShmInstance& object, Hold wanted, int rc, uint64_t ticks);

// Who holds it exclusively is known, and it was nobody: a recursive lock that this thread had already is not usual.
PFS_ALWAYS_INLINE bool IsFirstHold(const ShmInstance& object, Hold wanted) { return wanted != Hold::kExclusive || LoadOwn(object.owner) == 0; }
PFS_ALWAYS_INLINE void TakeFirstHold(ThreadState& thread, ShmInstance& object, Hold wanted) {
  if (wanted == Hold::kExclusive) {
    object.owner.store(thread.thread_id, kRelaxed);
  } else {
    AddHeld(*thread.shared_cell);
  }
}
PFS_ALWAYS_INLINE bool IsCommonEnd(ThreadState& thread, uint32_t class_index, const LockStat& numbers, ShmInstance& object, Hold wanted, int rc) {
  return rc == 0 && class_index < thread.cell_count && numbers.AreReady(thread, object, wanted) && IsOfEpoch(thread.cells[class_index]) &&
         IsFirstHold(object, wanted);
}

// REQUIRES: IsCommonEnd().
template <Unrecorded kWay>
PFS_ALWAYS_INLINE void AddUnrecorded(ThreadState& thread, uint32_t class_index, const LockStat& numbers, ShmInstance& object, Hold wanted,
                                     uint64_t wait_ps = 0) {
  // A signal handler of this thread cannot have the lock that we hold, and adds to the thread's cell before or after us.
  constexpr bool kMayBeInterrupted = kCountsAtOnce && kWay == Unrecorded::kCounted;
  const uint64_t nesting = thread.nesting;
  const bool must_enter = !kMayBeInterrupted || wanted != Hold::kExclusive;
  if (must_enter) EnterProbe(thread);
  TakeFirstHold(thread, object, wanted);
  ShmCell& cell = thread.cells[class_index];
  if constexpr (kWay == Unrecorded::kTimed) {
    AddCommon(numbers.seq, numbers.stat, wait_ps);
    AddCommon(cell.seq, cell.stat, wait_ps);
  } else {
    AddCounted(numbers.seq, numbers.stat);
    AddCounted(cell.seq, cell.stat);
  }
  if (must_enter) LeaveProbe(thread, nesting);
}

template <Unrecorded kWay, typename Operate>
[[gnu::noinline]] int UnrecordedLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(operate.object->instance, operate.object->flags, operate.object, operation);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(!IsCommonThread(thread), 0)) {
    return AnyLockOperation(operation, file, line, operate);
  }
  const Hold wanted = HoldAfter(operation);
  const uint64_t start_ticks = kWay == Unrecorded::kTimed ? ReadCycle() : 0;
  const int rc = operate();
  const uint64_t ticks = kWay == Unrecorded::kTimed ? ReadCycle() - start_ticks : 0, wait_ps = ShortPicos(ticks);
  const uint32_t class_index = probe.entry.index;
  const LockStat numbers = LockStat::Of(*thread, probe.mutex, wanted);
  if (__builtin_expect(ticks >= kShortTicks || !IsCommonEnd(*thread, class_index, numbers, probe.mutex, wanted, rc) ||
                           (kWay == Unrecorded::kTimed && WidensEither(numbers.stat, thread->cells[class_index].stat, wait_ps)),
                       0)) {
    return FinishUnrecordedLock(*thread, class_index, probe.mutex, wanted, rc, kWay == Unrecorded::kCounted ? kNotTimed : ticks);
  }
  AddUnrecorded<kWay>(*thread, class_index, numbers, probe.mutex, wanted, wait_ps);
  return rc;
}

// TIMED = 'CONTENDED': the operation is tried, and if that is enough it is a wait of zero; what must wait is an event like others.
constexpr bool IsContended(uint32_t flags) {
  return (flags & (kFlagContended | kFlagEnabled | kFlagThread | kFlagDead)) == (kFlagContended | kFlagEnabled | kFlagThread);
}
[[gnu::noinline]] int FinishFreeLock(ThreadState& thread, uint32_t flags, uint32_t class_index, ShmInstance& object, Hold wanted, int rc);

// What is not as usual: a thread's first event, one that comes into a probe, or is nobody's; no thread_instrumentation.
template <typename Operate>
[[gnu::noinline]] int AnyTriedLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  ShmInstance& object = *AsInstance(operate.object->instance);
  const uint32_t flags = FlagsIn(operate.object->flags);
  // Asked for once: a thread that there is no room for is counted each time.
  ThreadState* const thread = (flags & kFlagEnabled) != 0 ? CurrentThread() : nullptr;
  if (thread == nullptr) return operate();
  const bool is_instrumented = (flags & kFlagThread) == 0 || (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) != 0;
  if (is_instrumented && !thread->inside()) {
    const Hold wanted = HoldAfter(operation);
    const int rc = operate.attempt();
    if (IsHeld(rc, wanted) || IsTry(operation)) return FinishFreeLock(*thread, flags, object.class_index.load(kRelaxed), object, wanted, rc);
  }
  return AnyLockOperation(operation, file, line, operate);
}

template <typename Operate>
[[gnu::noinline]] int TriedLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  const LockProbe probe(operate.object->instance, operate.object->flags, operate.object, operation);
  ShmInstance& object = probe.mutex;
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(!IsCommonThread(thread), 0)) {
    return AnyTriedLockOperation(operation, file, line, operate);
  }
  const Hold wanted = HoldAfter(operation);
  const int rc = operate.attempt();
  if (__builtin_expect(!IsHeld(rc, wanted) && !IsTry(operation), 0)) return AnyLockOperation(operation, file, line, operate);
  const uint32_t class_index = object.class_index.load(kRelaxed);
  const LockStat numbers = LockStat::Of(*thread, object, wanted);
  const auto is_one_of_many = [&] { return HasWaitOfZero(numbers.stat) && HasWaitOfZero(thread->cells[class_index].stat); };
  if (__builtin_expect(!IsCommonEnd(*thread, class_index, numbers, object, wanted, rc) || !is_one_of_many(), 0)) {
    return FinishFreeLock(*thread, kAllOnFlags, class_index, object, wanted, rc);
  }
  AddUnrecorded<Unrecorded::kCounted>(*thread, class_index, numbers, object, wanted);  // a count more is a wait of zero more
  return rc;
}

// Which way it goes. Keeps nothing itself, and every way reads again what it needs: a register that is saved on the way is a store that the locked
// instruction of the operation waits for.
template <typename Operate>
[[gnu::noinline]] int OtherLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  const uint32_t flags = FlagsIn(operate.object->flags);
  if (IsCounted(flags)) return UnrecordedLockOperation<Unrecorded::kCounted>(operation, file, line, operate);
  if (IsContended(flags)) return TriedLockOperation(operation, file, line, operate);
  if (IsTimedOnly(flags)) return UnrecordedLockOperation<Unrecorded::kTimed>(operation, file, line, operate);
  if ((flags & kFlagContended) != 0) return AnyTriedLockOperation(operation, file, line, operate);
  return AnyLockOperation(operation, file, line, operate);
}

template <typename Operate>
PFS_ALWAYS_INLINE int TimedLockOperation(Operation operation, const char* file, uint32_t line, Operate operate) {
  const uint32_t flags = FlagsIn(operate.object->flags);
  if (__builtin_expect(!IsAllOn(flags), 0)) return OtherLockOperation(operation, file, line, operate);
  // New pointers for the compiler: what is kept over the operation is saved from here on, and not before the branch above.
  const auto* const object = operate.object;
  const LockProbe probe(Launder(object->instance), object->flags, object, operation);
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr || thread->nesting != 0, 0)) {
    return AnyLockOperation(operation, file, line, operate);
  }
  static_assert(kThreadInstrumented == kFlagEnabled);
  EnterProbe(*thread, 0);
  const uint32_t both_flags = flags & thread->shared->flags.load(kRelaxed);
  ShmWaitRecord* const record = static_cast<ShmWaitRecord*>(thread->waits.next);
  const SourceCache::Entry& source = thread->sources.PlaceOf(file, line);
  if (__builtin_expect((both_flags & kThreadInstrumented) == 0 || record == thread->waits.end || !SourceCache::IsOf(source, file, line), 0)) {
    return LeaveForAnyLockOperation(operation, file, line, operate);
  }

  const uint64_t event_id = OpenCommon(*thread, record, 1);
  WriteBegin(*record, event_id, reinterpret_cast<uintptr_t>(object), thread->parent_event_id,
             WhatOf(probe.entry.index, operation, thread->parent_type, source.source));
  StartCommon(*thread, *record, CommonState(*thread, both_flags));

  const int rc = operate();

  const uint64_t end_ticks = ReadCycle(), ticks = end_ticks - LoadOwn(record->start_ticks);
  EnterProbe(*thread);
  const Hold wanted = HoldAfter(operation);
  // From the record and not from the object, whose line may still be on its way: over scattered mutexes that is 5 % of the floor.
  const auto class_index = static_cast<uint16_t>(LoadOwn(record->what));
  const LockStat numbers = LockStat::Of(*thread, probe.mutex, wanted);
  ShmCell& cell = thread->cells[class_index];
  const uint64_t wait_ps = ShortPicos(ticks);
  if (__builtin_expect(!IsLast(*thread, *record) || ticks >= kShortTicks || !IsCommonEnd(*thread, class_index, numbers, probe.mutex, wanted, rc) ||
                           WidensEither(numbers.stat, cell.stat, wait_ps),
                       0)) {
    return FinishUncommonLock(*thread, *record, probe.mutex, wanted, rc, end_ticks);
  }
  CloseCommon(*record, end_ticks);
  TakeFirstHold(*thread, probe.mutex, wanted);
  AddCommon(numbers.seq, numbers.stat, wait_ps);
  AddCommon(cell.seq, cell.stat, wait_ps);
  // Here and not before the next event: nothing need be kept over it.
  if (__builtin_expect(Launder(record) + 1 == thread->waits.end, 0)) return FinishLockAndChunk(*thread);
  LeaveProbe(*thread, 0);
  return rc;
}

}  // namespace perfschema
