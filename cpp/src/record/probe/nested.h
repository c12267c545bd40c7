// record/probe/nested.h: begin and end of stages, statements and transactions, their records, and the sums that they
// count in.
//
// Threads: the owner thread, inside a probe (NestedProbe), except where said.
//
// Transactions, statements, stages and waits take their EVENT_ID from one counter of the thread. The parent of an
// event is known when it begins, from private memory: the open waits, the stage, a stack of statements, the
// transaction.
//
//   a new          is nested in
//   wait           the innermost open wait, else the stage, else the innermost statement
//   stage          the innermost statement
//   statement      the statement around it; the active transaction if that is newer
//   transaction    the innermost statement
//
// The stack of statements never follows a pointer to the caller's memory. An end finds its place by serial number and takes its
// statement out; statements that began inside it go on, each with a buffer of its own for its texts. If a statement's memory was given
// back, or taken by another one, pfs drops the statement and counts it in locker_lost. A statement beyond max_statement_stack counts but
// is not recorded. The end of a stage and the start of the next share a reading of the timer.
#pragma once

#include <algorithm>
#include <iterator>

#include "record/context/principals.h"
#include "record/probe/events.h"
#include "record/probe/wait.h"
#include "shm/shapes.h"

namespace perfschema {

// Guards the thread's events against its signal handlers during its scope. It converts to false in a handler that
// interrupted another guard; the handler's event is lost.
class NestedProbe {
 public:
  explicit NestedProbe(ThreadState& thread) : thread_(thread), entered_(!IsInterrupted(thread)) {
    entered_ ? EnterProbe(thread) : CountLoss(Loss::kLockers);
  }
  ~NestedProbe() {
    if (entered_) LeaveProbe(thread_, thread_.outside());
  }
  NestedProbe(const NestedProbe&) = delete;
  NestedProbe& operator=(const NestedProbe&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  ThreadState& thread_;
  const bool entered_;
};

// Returns the flag word of an instrument, or 0 if its events are not instrumented in this thread. Read at each event.
inline uint32_t FlagsInThread(const ThreadState& thread, uint32_t class_index) {
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return 0;
  const bool is_silent = (flags & kFlagThread) != 0 && (thread.shared->flags.load(kRelaxed) & kThreadInstrumented) == 0;
  return is_silent ? 0 : flags;
}

struct Nesting {
  uint64_t event_id = 0;  // 0 = none
  uint32_t type = 0;      // kNesting...
};

// Returns the innermost running statement that is recorded.
inline Nesting RunningStatement(const ThreadState& thread) {
  for (uint32_t i = thread.statement_depth; i-- > 0;) {
    if (thread.statements[i].event_id != 0) return {thread.statements[i].event_id, kNestingStatement};
  }
  return {};
}

// Sets the parent of future waits: the running stage, else the innermost statement (semantics.md D1).
inline void SetParentOfWaits(ThreadState& thread) {
  const Nesting parent = thread.stage.event_id != 0 ? Nesting{thread.stage.event_id, kNestingStage} : RunningStatement(thread);
  thread.parent_event_id = parent.event_id;
  thread.parent_type = uint64_t{parent.type} << ThreadState::kNestingTypeShift;
}

struct BegunRecord {
  ShmRecord* record = nullptr;  // nullptr = not recorded
  uint64_t begun_state = 0;
  uint64_t event_id = 0;
};

// Takes a record and writes its first line. Readers do not see it before ShowRecord(). `detail`: the bits of `what`
// from bit 16 on.
template <Kind kKind>
inline BegunRecord BeginRecord(ThreadState& thread, uint32_t class_index, uint32_t flags, Nesting nesting, uint32_t source,
                               uint64_t state_bits = 0, uint32_t detail = 0) {
  if ((flags & (kFlagCurrent | kFlagThread)) != (kFlagCurrent | kFlagThread)) return {};
  RecordCursor& cursor = thread.CursorOf(kKind);
  if (__builtin_expect(cursor.next >= cursor.end, 0) && !NextChunk(thread, kKind, flags)) return {};
  ShmRecord* const record = cursor.next;
  cursor.next = reinterpret_cast<ShmRecord*>(reinterpret_cast<char*>(record) + g_runtime.pool(kKind).record_bytes);
  const uint64_t id = thread.TakeEventId();
  if (thread.wait_depth() != 0) thread.fast_bytes = 0;
  thread.shared->event_id.store(id, kRelease);  // pairs with NewestEventIds
  record->event_id.store(id, kRelease);
  record->end_info.store(0, kRelease);
  record->object.store(0, kRelease);
  record->nesting_event_id.store(nesting.event_id, kRelease);
  record->what.store(class_index | uint64_t{detail} << 16 | uint64_t{nesting.type} << 24 | uint64_t{source} << 32, kRelease);
  const uint32_t views = flags & (thread.shared->flags.load(kRelaxed) & kThreadViews);
  const uint64_t state = cursor.lap_bits() | kRecordOpen | views | (flags & (kFlagTimed | kFlagTimerMask)) | state_bits;
  return {record, state, id};
}

// Publishes the open event. REQUIRES: its other words are written.
inline void ShowRecord(const BegunRecord& begun, uint64_t start_ticks) {
  if (begun.record == nullptr) return;
  begun.record->start_ticks.store(start_ticks, kRelease);
  begun.record->state.store(begun.begun_state, kRelease);  // pairs with EventReader::CopyRecord
}

// Returns false if the record no longer belongs to this event: its chunk was taken away (a child of fork(), a hold
// that overflowed).
inline bool StillHas(const ShmRecord* record, uint64_t begun_state) {
  return record != nullptr && record->state.load(kRelaxed) == begun_state;
}

// Completes and publishes the event. REQUIRES: StillHas().
template <Kind kKind>
inline void EndRecord(ThreadState& thread, ShmRecord* record, uint64_t begun_state, uint64_t end_ticks, uint64_t more_state_bits = 0) {
  record->end_info.store(thread.event_id - record->event_id.load(kRelaxed), kRelease);
  record->end_ticks.store(end_ticks, kRelease);
  record->state.store((begun_state | more_state_bits) ^ (kRecordOpen | kRecordClosed), kRelease);
  // The last record that was taken is in the chunk that is being written.
  const char* const behind = reinterpret_cast<const char*>(record) + g_runtime.pool(kKind).record_bytes;
  if (reinterpret_cast<const char*>(thread.CursorOf(kKind).next) != behind) KeepChunkOf(thread, kKind, record);
}

// Completes and publishes an event of another thread. Returns false if the owner has lost the record. REQUIRES: cold lock, so that the
// owner does not end meanwhile; and the owner holds the chunk.
inline bool EndRecordOf(const ThreadState& owner, ShmRecord* record, uint64_t begun_state, uint64_t end_ticks) {
  if (!StillHas(record, begun_state)) return false;
  const uint64_t newest = __atomic_load_n(&owner.event_id, __ATOMIC_RELAXED);  // the owner may be in a wait
  record->end_info.store(newest - record->event_id.load(kRelaxed), kRelease);
  record->end_ticks.store(end_ticks, kRelease);
  uint64_t expected = begun_state;
  return record->state.compare_exchange_strong(expected, begun_state ^ (kRecordOpen | kRecordClosed), kRelease, kRelaxed);
}

// Returns the record of a statement or transaction of another thread; nullptr: it is no longer the event's, or the owner has ended or does
// not hold its chunk. REQUIRES: cold lock.
template <typename Event>
auto RowOfAnother(const Event& event) -> decltype(event.record) {
  const bool has_owner = event.serial > event.thread->first_serial;
  return has_owner && StillHas(event.record, event.begun_state) ? event.record : nullptr;
}

// Returns whether another thread has ended the event. Pairs with EndRecordOf.
inline bool WasEnded(const ShmRecord* record, uint64_t begun_state) {
  return record != nullptr && (record->state.load(kAcquire) ^ begun_state) == (kRecordOpen | kRecordClosed);
}

// Returns whether another thread has ended a statement of the calling thread.
inline bool HasEnded(const ThreadState& thread, const OpenStatement& open) {
  if (StillHas(open.record, open.begun_state) || open.serial == 0) return false;  // 0: of the parent of a task
  return WasEnded(open.record, open.begun_state) ||
         std::any_of(thread.ended, std::end(thread.ended), [&](const Word& serial) { return serial.load(kRelaxed) == open.serial; });
}

// Hides an event from all views if its record will never be completed.
inline void DropRecord(ShmRecord* record, uint64_t begun_state) {
  if (StillHas(record, begun_state)) record->state.store(begun_state & ~kRecordOpen, kRelease);
}

struct Measured {
  bool timed;
  uint64_t end_ticks;
  uint64_t wait_ps;
};
inline Measured MeasuredUntil(uint32_t flags, uint64_t start_ticks, uint64_t end_ticks) {
  if ((flags & kFlagTimed) == 0) return {false, 0, 0};
  if (static_cast<int64_t>(end_ticks - start_ticks) < 0) end_ticks = start_ticks;  // as in EndedAt
  return {true, end_ticks,
          TimerScale::Scale(end_ticks - start_ticks, g_runtime.picos_per_tick[(flags & kFlagTimerMask) >> kFlagTimerShift])};
}
inline uint64_t TicksOf(uint32_t flags) { return (flags & kFlagTimed) != 0 ? NowTicks(flags) : 0; }

// Moves up or drops numbers from before a TRUNCATE; then the cell is of the present epoch. Returns false in a signal
// handler that interrupted pfs. Cold; preserves errno.
[[gnu::noinline]] bool BeginEpochOfCell(ThreadState& thread, Kind kind, ShmCell& cell, bool is_global);

// Calls add(cell) with the thread's cell of the instrument. Without threads (thread_instrumentation is off) the cell
// is that of the thread's slot, which belongs to the total only.
template <Kind kKind, typename Add>
PFS_ALWAYS_INLINE void AddToSums(ThreadState& thread, uint32_t class_index, uint32_t flags, Add add) {
  const bool is_global = (flags & kFlagThread) == 0;
  const uint32_t end = class_index + ColumnsOf(kKind);
  ShmCell* cell;
  if (__builtin_expect(!is_global, 1)) {
    if (__builtin_expect(end > thread.cell_count, 0) && !GrowCells(thread, end)) return;
    cell = &thread.cells[class_index];
  } else {
    if (end > thread.global_cell_count && !GrowGlobalCells(thread, end)) return;
    cell = &thread.global_cells[class_index];
  }
  const ShmEpochs& epochs = g_runtime.header->EpochsOf(kKind);
  if (__builtin_expect(cell->gen.load(kRelaxed) != epochs.now.load(kRelaxed), 0) && !BeginEpochOfCell(thread, kKind, *cell, is_global))
    return;
  const CellWriter writer(cell->seq);
  add(*cell);
}

}  // namespace perfschema
