// record/wait.h: begin and end of a wait: the hot path. Inlined into the exported functions of capi/.
//
// No lock, allocation, system call, exception or floating point; what does not fit is counted. See docs/architecture.md, "One event".
#pragma once

#include "record/events.h"
#include "record/stripes.h"
#include "record/threads.h"

namespace perfschema {

// An event in progress, on the caller's stack. It keeps the settings that the event began with.
struct Wait {
  ThreadState* thread;
  ShmWaitRecord* record;  // nullptr = not recorded
  uint64_t start_ps;
  uint64_t begun_state;   // of the record
  uint64_t event_id;
  uint64_t outer_event_id;
  uint32_t outer_type;
  uint32_t outer_depth;
  uint32_t flags;
  uint32_t class_index;
};

// Between these two a signal handler on this thread leaves the thread's state alone.
inline void EnterProbe(ThreadState& thread) {
  thread.guard = 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
inline void LeaveProbe(ThreadState& thread) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.guard = 0;
}

constexpr TimerId TimerOf(uint32_t flags) { return static_cast<TimerId>((flags >> kFlagTimerShift) & 7); }

inline uint64_t NowPicos(uint32_t flags) {
  const TimerId timer = TimerOf(flags);
  const uint64_t ticks = ReadTimer(timer);
  return g_runtime.header->timers[static_cast<uint32_t>(timer)].Picos(ticks);
}

struct WaitDetails {  // the second line of a record
  uint64_t state_bits = 0;
  uint64_t bytes = 0;
  uint32_t flags = 0;
  uint32_t name = 0;
  uint32_t name_version = 0;
};

// False: do the operation plainly and call no End. REQUIRES: kFlagEnabled is set in `flags`.
template <bool kDetailed = false>
inline bool BeginWait(Wait& wait, uint32_t flags, uint32_t class_index, Operation operation, uint64_t object, const char* file, uint32_t line,
                      const WaitDetails& details = {}) {
  ThreadState* thread = CurrentThread();
  if (__builtin_expect(thread == nullptr, 0)) return false;
  if (__builtin_expect(thread->guard != 0, 0)) {
    CountLoss(Loss::kLockers);
    return false;
  }
  const uint32_t thread_flags = thread->shared->flags.load(kRelaxed);
  if (__builtin_expect((flags & kFlagThread) != 0 && (thread_flags & kThreadInstrumented) == 0, 0)) return false;
  EnterProbe(*thread);
  wait.thread = thread;
  wait.flags = flags;
  wait.class_index = class_index;
  ShmWaitRecord* record = nullptr;
  if (__builtin_expect((flags & kFlagCurrent) != 0, 1)) {
    const uint32_t depth = thread->wait_depth;
    if (__builtin_expect(depth >= kMaxNestedWaits, 0)) {
      if (DropAbandonedWaits(*thread, &wait)) {
        LeaveProbe(*thread);
        return BeginWait<kDetailed>(wait, flags, class_index, operation, object, file, line, details);
      }
      LeaveProbe(*thread);
      CountLoss(Loss::kLockers);
      return false;
    }
    if (__builtin_expect(thread->next_record == thread->records_end, 0) && !NextChunk(*thread)) {
      CountLoss(Loss::kEvents);
    } else {
      record = thread->next_record;
      thread->next_record = record + 1;
      const uint64_t id = ++thread->event_id;
      wait.event_id = id;
      wait.outer_event_id = thread->nesting_event_id;
      wait.outer_type = thread->nesting_type;
      wait.outer_depth = depth;
      // Release: a reader that still takes the record for its chunk's last owner's sees that the lap has changed.
      record->event_id.store(id, kRelease);
      record->object.store(object, kRelease);
      record->what.store(class_index | static_cast<uint64_t>(operation) << 16 | static_cast<uint64_t>(thread->nesting_type) << 24 |
                             static_cast<uint64_t>(thread->sources.Find(file, line)) << 32,
                         kRelease);
      record->nesting_event_id.store(thread->nesting_event_id, kRelease);
      uint64_t state = thread->lap_bits | kRecordOpen | (flags & kFlagTimed);
      if ((thread_flags & kThreadHistory) != 0) state |= flags & (kFlagHistory | kFlagHistoryLong);
      if constexpr (kDetailed) {
        state |= details.state_bits;
        record->bytes.store(details.bytes, kRelease);
        record->flags_and_name.store(details.flags | static_cast<uint64_t>(details.name) << 32, kRelease);
        record->name_version.store(details.name_version, kRelease);
      }
      wait.begun_state = state;
      thread->open_waits[depth] = record;
      thread->wait_frames[depth] = &wait;
      thread->wait_depth = depth + 1;
      thread->nesting_event_id = id;
      thread->nesting_type = kNestingWait;
    }
  }
  wait.record = record;
  if (__builtin_expect((flags & kFlagTimed) != 0, 1)) {
    wait.start_ps = NowPicos(flags);
    if (record != nullptr) record->start_ps.store(wait.start_ps, kRelease);
  }
  if (record != nullptr) record->state.store(wait.begun_state, kRelease);  // publishes the open event; pairs with Snapshot
  LeaveProbe(*thread);
  return true;
}

// The end of the event, as its callers add to it: End reads the timer first, the object's own statistics come between, Finish last.
struct EndedWait {
  bool timed;
  uint64_t wait_ps;
  uint64_t end_ps;
};

inline EndedWait EndWait(const Wait& wait) {
  EndedWait ended{(wait.flags & kFlagTimed) != 0, 0, 0};
  if (__builtin_expect(ended.timed, 1)) {
    ended.end_ps = NowPicos(wait.flags);
    // Counters of two cores may differ by a few ticks: never before the start.
    if (__builtin_expect(ended.end_ps < wait.start_ps, 0)) ended.end_ps = wait.start_ps;
    ended.wait_ps = ended.end_ps - wait.start_ps;
  }
  EnterProbe(*wait.thread);
  return ended;
}

inline void FinishWait(const Wait& wait, const EndedWait& ended, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  ThreadState& thread = *wait.thread;
  if (__builtin_expect((wait.flags & kFlagThread) != 0, 1)) {
    if (__builtin_expect(wait.class_index < thread.cell_count, 1) || GrowCells(thread, wait.class_index)) {
      ShmCell& cell = thread.cells[wait.class_index];
      CellWriter writer(cell.seq, cell.gen, Generation(ResetDomain::kThreadWaits));
      if (writer.is_stale()) ClearStat(cell.stat);
      AddToStat(cell.stat, ended.timed, ended.wait_ps);
    }
  }
  if (ShmWaitRecord* record = wait.record; __builtin_expect(record != nullptr, 1)) {
    thread.wait_depth = wait.outer_depth;
    thread.nesting_event_id = wait.outer_event_id;
    thread.nesting_type = wait.outer_type;
    // Gone if its chunk was taken away meanwhile (a child of fork(), a hold that overflowed).
    if (__builtin_expect(record->state.load(kRelaxed) == wait.begun_state, 1)) {
      record->end_ps.store(ended.end_ps, kRelease);
      record->end_info.store((thread.event_id - wait.event_id) | static_cast<uint64_t>(spins) << 32, kRelease);
      record->state.store((wait.begun_state | more_state_bits) ^ (kRecordOpen | kRecordClosed), kRelease);  // publishes the whole event
      if (__builtin_expect(record + 1 != thread.next_record, 0)) KeepChunkOf(thread, record);
    }
  }
  LeaveProbe(thread);
}

}  // namespace perfschema
