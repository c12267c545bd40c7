// record/probe/usual_events.h: what the events have in common that are written out (lock_events.h, file_events.h): everything on, timed by the cycle counter,
// of a thread that is in no other wait. They do what the general way (record/probe/wait.h) does, with fewer instructions.
#pragma once

#include "record/probe/wait.h"

namespace perfschema {

// REQUIRES: ticks < kShortTicks, of the cycle counter. The product that TimerScale::Scale has: it fits into 64 bits.
PFS_ALWAYS_INLINE uint64_t ShortPicos(uint64_t ticks) { return (ticks * g_runtime.picos_per_tick[0]) >> TimerScale::kFractionBits; }

// The record is the thread's only open one. Its EVENT_ID. REQUIRES: inside the probe since before `record` was looked up: else a signal handler that comes
// in between takes the same one.
PFS_ALWAYS_INLINE uint64_t OpenCommon(ThreadState& thread, ShmWaitRecord* record, ptrdiff_t places) {
  thread.waits.next = record + places;
  const uint64_t event_id = thread.event_id + 1;
  thread.event_id = event_id;
  thread.open_waits[0] = record;
  return event_id;
}

// What `state` has besides. `flags`: of the class and of the thread.
PFS_ALWAYS_INLINE uint64_t CommonState(const ThreadState& thread, uint32_t flags) {
  return thread.waits.lap_bits | kRecordOpen | kFlagTimed | (flags & kThreadViews);
}

// Out of the probe, and the first reading of the timer.
PFS_ALWAYS_INLINE void StartCommon(ThreadState& thread, ShmWaitRecord& record, uint64_t state) {
  LeaveProbe(thread, 1);
  record.start_ticks.store(ReadCycle(), kRelease);
  record.state.store(state, kRelease);  // publishes the open event; pairs with Snapshot
}

// No event has begun in this one: nothing has been taken since, and its end is its own EVENT_ID.
PFS_ALWAYS_INLINE bool IsLast(const ThreadState& thread, const ShmRecord& record) { return LoadOwn(record.event_id) == thread.event_id; }

// Publishes the whole event.
PFS_ALWAYS_INLINE void CloseCommon(ShmRecord& record, uint64_t end_ticks) {
  record.end_ticks.store(end_ticks, kRelease);
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  using Plain [[gnu::may_alias]] = uint64_t;
  std::atomic_signal_fence(std::memory_order_release);
  *reinterpret_cast<Plain*>(&record.state) ^= kRecordOpen | kRecordClosed;  // one instruction; as a store it is like others
#else
  record.state.store(LoadOwn(record.state) ^ (kRecordOpen | kRecordClosed), kRelease);
#endif
}

// What the general way needs to end one that turned out unusual.
inline Wait UncommonWait(ThreadState& thread, ShmWaitRecord& record) {
  const uint64_t state = record.state.load(kRelaxed);
  // A child of fork() that a signal handler made: the event is its parent's.
  ShmWaitRecord* const its_record = (state & kRecordOpen) != 0 ? &record : nullptr;
  return {&thread, its_record, record.start_ticks.load(kRelaxed), state, 0, kAllOnFlags, static_cast<uint16_t>(record.what.load(kRelaxed))};
}
// Counters of two cores may differ by a few ticks: no event ends before its start.
inline EndedWait UncommonEnd(const Wait& wait, uint64_t end_ticks) {
  return {true, end_ticks > wait.start_ticks ? end_ticks - wait.start_ticks : 0, end_ticks > wait.start_ticks ? end_ticks : wait.start_ticks};
}

// Events without a record, in a wait or not.
enum class Unrecorded { kCounted, kTimed };
inline constexpr uint64_t kNotTimed = ~uint64_t{0};  // ticks of those that are counted only
PFS_ALWAYS_INLINE bool IsCommonThread(const ThreadState* thread) {
  return thread != nullptr && !thread->inside() && (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) != 0;
}
// The same for these. `ticks`: kNotTimed, or how long it took.
inline Wait UnrecordedWait(ThreadState& thread, uint32_t flags, uint32_t class_index) {
  return {&thread, nullptr, 0, 0, thread.nesting, flags & ~kFlagCurrent, class_index};
}
inline EndedWait UnrecordedEnd(uint64_t ticks) { return {ticks != kNotTimed, static_cast<int64_t>(ticks) < 0 ? 0 : ticks, 0}; }

}  // namespace perfschema
