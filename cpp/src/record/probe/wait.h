// record/probe/wait.h: begins and ends a wait, whatever the settings are: the slow path. Most waits take the fast path
// (record/probe/fast_path.h).
//
// Neither path takes a lock, allocates, makes a system call, throws or computes in floating point. An event that does not fit is counted as
// lost. See docs/explanation/architecture.md, "One event".
#pragma once

#include "record/context/threads.h"
#include "record/engine/stack.h"
#include "record/probe/cells.h"
#include "record/probe/events.h"

namespace perfschema {

// A wait in progress lies on the caller's stack: what its end cannot read back from the record. The settings are those it began with.
struct Wait {
  ThreadState* thread;
  uint64_t outer;         // ThreadState::nesting before
  ShmWaitRecord* record;  // nullptr = not recorded
  uint64_t start_ticks;
  uint64_t begun_state;  // of the record
  uint32_t flags;
  uint32_t class_index;
};

// Returns the place of the stack pointer.
PFS_ALWAYS_INLINE uintptr_t StackPlace() {
#if defined(__x86_64__) && !defined(__clang__)
  register uintptr_t place asm("rsp");  // one instruction: an asm statement costs the compiler its allocation of registers
  return place;
#else
  return reinterpret_cast<uintptr_t>(StackMark());  // clang defines such a variable in operands of asm statements only
#endif
}
// Until LeaveProbe (or the next store to `nesting`) a signal handler on this thread leaves the thread's state alone.
PFS_ALWAYS_INLINE void EnterProbe(ThreadState& thread) {
  thread.nesting += StackPlace();
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// Enters the probe where the caller knows what `nesting` is.
PFS_ALWAYS_INLINE void EnterProbe(ThreadState& thread, uint64_t nesting) {
  thread.nesting = (__builtin_constant_p(nesting) && nesting == 0 ? StackPlace() : reinterpret_cast<uintptr_t>(StackMark())) + nesting;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
PFS_ALWAYS_INLINE void LeaveProbe(ThreadState& thread, uint64_t nesting) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.nesting = nesting;
}

// Returns true in a signal handler that interrupted a probe of the thread. Returns false if a longjmp has left that probe, whose frame then
// lies below `frame`: drops the probe, and counts what it did not finish as lost.
[[gnu::noinline]] bool IsInterruptedInProbe(ThreadState& thread, const void* frame);
PFS_ALWAYS_INLINE bool IsInterrupted(ThreadState& thread) {
  return __builtin_expect(thread.inside(), 0) && IsInterruptedInProbe(thread, __builtin_dwarf_cfa());
}

// Returns whether a probe may begin while a wait of the thread is open: no other probe of the thread is inside, and not too many waits are
// open. Drops waits that a longjmp left: those that began below `frame`.
[[gnu::noinline]] bool MayBeginInWait(ThreadState& thread, const void* frame);

PFS_ALWAYS_INLINE uint64_t NowTicks(uint32_t flags) {
  if (__builtin_expect((flags & kFlagSlowTimer) == 0, 1)) return ReadCycle();
  return ReadSlowTimer(static_cast<TimerId>((flags & kFlagTimerMask) >> kFlagTimerShift));
}

// Returns the same pointer, of which the compiler knows nothing. Otherwise it keeps addresses of single fields over the real call, each
// with a store and a load on the stack, where an offset costs nothing.
template <typename T>
PFS_ALWAYS_INLINE T* Launder(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// Returns where a wait lies that outlives the call that begins it. After a longjmp that place on the caller's stack tells that the wait was
// left. A wait that lies elsewhere is never taken for left.
PFS_ALWAYS_INLINE const void* PlaceOf(const Wait& wait) {
  const auto place = reinterpret_cast<uintptr_t>(&wait), stack = reinterpret_cast<uintptr_t>(StackMark());
  constexpr uintptr_t kStackBytes = 64u << 20;
  return place - stack < kStackBytes ? &wait : kNoFrame;
}
PFS_ALWAYS_INLINE void KeepUntilEnd(const Wait& wait) {
  if (wait.record != nullptr) wait.thread->open_waits[wait.outer & ThreadState::kDepthMask].frame = PlaceOf(wait);
}

// Returns whether this event, whose instrument has TIMED = 'SAMPLED', is one that its thread times. The distances between two of them are
// pseudo-random, so that no loop stays in step with them.
[[gnu::noinline]] bool IsSampleDue(ThreadState& thread);
// Returns the settings of one event of an instrument with kFlagSampled. Without that flag the event is one like others; with it, it is only
// counted.
inline uint32_t SettingsOfSample(ThreadState& thread, uint32_t flags) {
  if (IsSampleDue(thread) && (flags & kFlagTimed) != 0) return flags & ~kFlagSampled;
  return flags & ~(kFlagTimed | kFlagCurrent);
}

struct WaitDetails {  // the second place of a record
  uint64_t state_bits = 0;
  uint64_t bytes = 0;
  uint64_t flags_and_name = 0, version_and_type = 0, index_name = 0;  // as in ShmWaitDetails
  bool outlives_call = false;                                         // PlaceOf(wait) is its place
  bool has_parent = true;                                             // false: no NESTING_EVENT_ID, whatever runs (semantics.md D6)
};

constexpr uint64_t WhatOf(uint32_t class_index, Operation operation, uint64_t nesting_type, uint32_t source) {
  // A sum of disjoint bits: the processor adds three numbers in one instruction.
  return class_index + (static_cast<uint64_t>(operation) << 16) + nesting_type + (static_cast<uint64_t>(source) << 32);
}
constexpr Operation OperationIn(uint64_t what) { return static_cast<Operation>(what >> 16 & 0xff); }
// Writes the first line of a new record but for its start and its state, which publishes it.
PFS_ALWAYS_INLINE void WriteBegin(ShmRecord& record, uint64_t event_id, uint64_t object, uint64_t nesting_event_id, uint64_t what) {
  // Release: pairs with EventReader::CopyChunk. A reader that still takes the record for its chunk's last owner's sees that the lap has
  // changed.
  record.event_id.store(event_id, kRelease);
  record.end_info.store(0, kRelease);
  record.object.store(object, kRelease);
  record.nesting_event_id.store(nesting_event_id, kRelease);
  record.what.store(what, kRelease);
}

// Writes its second line. Release, as in WriteBegin: pairs with EventReader::CopyChunk.
PFS_ALWAYS_INLINE void WriteDetails(ThreadState& thread, ShmWaitRecord& record, const WaitDetails& details) {
  thread.waits_have_details = true;
  ShmWaitDetails& shared = record.details();
  shared.state.store(thread.waits.lap_bits(), kRelease);
  if ((details.state_bits & kRecordHasBytes) != 0) shared.bytes.store(details.bytes, kRelease);
  shared.flags_and_name.store(details.flags_and_name, kRelease);
  shared.version_and_type.store(details.version_and_type, kRelease);
  if (details.index_name != 0) shared.index_name.store(details.index_name, kRelease);
}

// Begins a wait. Returns false if the caller must do the operation plainly and call no End. REQUIRES: kFlagEnabled is set in `flags`.
template <bool kDetailed = false>
PFS_ALWAYS_INLINE bool BeginWait(Wait& wait, uint32_t flags, uint32_t class_index, Operation operation, uint64_t object, const char* file,
                                 uint32_t line, const WaitDetails& details = {}) {
  ThreadState* const thread = CurrentThread();
  if (__builtin_expect(thread == nullptr, 0)) return false;
  uint64_t outer = thread->nesting;
  if (__builtin_expect(outer != 0, 0)) {
    // All below the caller's frame belongs to this call: a longjmp has left a wait that began there.
    if (!MayBeginInWait(*thread, __builtin_dwarf_cfa())) return false;
    outer = thread->nesting;
  }
  const uint32_t thread_flags = thread->shared->flags.load(kRelaxed);
  if ((flags & kFlagThread) != 0 && __builtin_expect((thread_flags & kThreadInstrumented) == 0, 0)) return false;
  if (__builtin_expect((flags & kFlagSampled) != 0, 0)) flags = SettingsOfSample(*thread, flags);
  wait.thread = thread;
  wait.flags = flags;
  wait.class_index = class_index;
  wait.outer = outer;
  wait.begun_state = 0;
  ShmWaitRecord* record = nullptr;
  if ((flags & kFlagCurrent) != 0) {
    EnterProbe(*thread, outer);
    constexpr ptrdiff_t kPlaces = kDetailed ? kPlacesWithDetails : 1;
    record = static_cast<ShmWaitRecord*>(thread->waits.next);
    if (__builtin_expect(static_cast<ShmWaitRecord*>(thread->waits.end) - record < kPlaces, 0)) {
      NextWaitChunk(*thread, flags);
      record = static_cast<ShmWaitRecord*>(thread->waits.next);
    }
    thread->waits.next = record + kPlaces;
    const uint64_t depth = outer & ThreadState::kDepthMask;
    uint64_t outer_event_id = thread->parent_event_id, nesting_type = thread->parent_type;
    if (__builtin_expect(depth != 0, 0)) {
      thread->fast_bytes = 0;
      outer_event_id = thread->open_waits[depth - 1].record->event_id.load(kRelaxed);
      nesting_type = ThreadState::kInWait;
    }
    const uint64_t id = thread->TakeEventId();
    thread->open_waits[depth] = {record, kDetailed && details.outlives_call ? PlaceOf(wait) : StackMark()};
    if constexpr (kDetailed) {
      if (!details.has_parent) outer_event_id = nesting_type = 0;
    }
    WriteBegin(*record, id, object, outer_event_id, WhatOf(class_index, operation, nesting_type, thread->sources.Find(file, line)));
    uint64_t state = thread->waits.lap_bits() | kRecordOpen | (flags & ((thread_flags & kThreadViews) | kFlagTimed | kFlagTimerMask));
    if constexpr (kDetailed) {
      // An event with details is an operation of the system: long enough to bring the next record, which was last written a whole pool
      // ago, back into the cache.
      __builtin_prefetch(record + 2, 1);
      __builtin_prefetch(record + 3, 1);
      state |= details.state_bits;
      WriteDetails(*thread, *record, details);
    }
    wait.begun_state = state;
    // An event of a signal handler from here on is nested in this one.
    LeaveProbe(*thread, depth + 1);
  }
  wait.record = record;
  if ((flags & kFlagTimed) != 0) {
    wait.start_ticks = NowTicks(flags);
    if (record != nullptr) record->start_ticks.store(wait.start_ticks, kRelease);  // pairs with EventReader::CopyChunk
  }
  if (record != nullptr) record->state.store(wait.begun_state, kRelease);  // publishes the open event; pairs with EventReader::CopyChunk
  return true;
}

struct EndedWait {
  bool timed;
  uint64_t ticks;  // how long
  uint64_t end_ticks;
};

// The end of an event consists of EndWait or EndedAt, CloseRecord, the statistics, and LeaveProbe.

// Returns the times of a wait that ends at `now`. Counters of two cores may differ by a few ticks, and a suspend may set the counter back:
// no event ends before its start.
PFS_ALWAYS_INLINE EndedWait EndedAt(const Wait& wait, uint64_t now) {
  const uint64_t ticks = now - wait.start_ticks;
  const bool is_later = static_cast<int64_t>(ticks) > 0;
  return {true, is_later ? ticks : 0, is_later ? now : wait.start_ticks};
}
// Returns the times of a wait that is not timed. If TIMED = 'SAMPLED' left it out, it has a length of kUnsampledTicks, and so a duration
// (shm/unsampled.h).
constexpr uint64_t kUnsampledTicks = uint64_t{kFlagSampled} << 26;
PFS_ALWAYS_INLINE EndedWait EndedUntimed(uint32_t flags) { return {false, uint64_t{flags & kFlagSampled} << 26, 0}; }
// Returns the times of a wait that ends at `now` if it is timed.
PFS_ALWAYS_INLINE EndedWait EndedBy(const Wait& wait, uint64_t now) {
  return (wait.flags & kFlagTimed) != 0 ? EndedAt(wait, now) : EndedUntimed(wait.flags);
}
// Reads the timer, and enters the probe.
PFS_ALWAYS_INLINE EndedWait EndWait(const Wait& wait) {
  const EndedWait ended = EndedBy(wait, (wait.flags & kFlagTimed) != 0 ? NowTicks(wait.flags) : 0);
  EnterProbe(*wait.thread);
  return ended;
}

// In picoseconds.
PFS_ALWAYS_INLINE uint64_t DurationOf(const Wait& wait, const EndedWait& ended) {
  return TimerScale::Scale(ended.ticks, g_runtime.picos_per_tick[(wait.flags & kFlagTimerMask) >> kFlagTimerShift]);
}

// Returns whether an end that is a call of its own may end the wait. Returns false, and counts a loss, if another instrumentation is
// attached to the calling thread than at the begin: that one may be in use elsewhere. The event stays open.
inline bool MayEnd(const Wait& wait) {
  if (__builtin_expect(wait.thread == t_locals.state, 1) || wait.thread == AttachedThread()) return true;
  CountLoss(Loss::kLockers);
  return false;
}

// Completes and publishes the record. Returns what ThreadState::nesting becomes when the probe is left.
PFS_ALWAYS_INLINE uint64_t CloseRecord(const Wait& wait, const EndedWait& ended, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  ThreadState& thread = *wait.thread;
  ShmWaitRecord* const record = Launder(wait.record);
  uint64_t nesting = wait.outer;
  const uint64_t depth = wait.outer & ThreadState::kDepthMask;
  if (record == nullptr || __builtin_expect(record->state.load(kRelaxed) != wait.begun_state, 0)) {
    // The wait is not recorded, or its chunk was taken away meanwhile (a child of fork(), a hold that overflowed).
    if (record == nullptr || record->state.load(kRelaxed) != (wait.begun_state ^ kRecordOpen)) {
      if (thread.outside() == 0) thread.EndFastAgain();
      return thread.outside();
    }
    // The wait was taken for left: its thread went to another stack meanwhile, and came back. It ends here.
    CountLoss(Loss::kLockers, ~uint64_t{0});  // one less
    nesting = thread.outside();
  } else if (__builtin_expect(thread.wait_depth() != depth + 1 || thread.open_waits[depth].record != record, 0)) {
    nesting = NestingWithout(thread, record);
  }
  const uint64_t events_inside = thread.event_id - record->event_id.load(kRelaxed);
  const bool has_spins = (more_state_bits & kRecordHasSpins) != 0;
  const uint64_t end_info = __builtin_expect(has_spins, 0) ? EndInfoWithSpins(events_inside, spins) : events_inside;
  if (__builtin_expect(end_info != 0, 0))
    record->end_info.store(end_info, kRelease);  // pairs with EventReader::CopyChunk, as the next ones
  record->end_ticks.store(ended.end_ticks, kRelease);
  record->state.store((wait.begun_state | more_state_bits) ^ (kRecordOpen | kRecordClosed), kRelease);  // publishes the event
  // If nothing has begun since, it is in the chunk that is being written.
  if (__builtin_expect(events_inside != 0, 0)) KeepChunkOf(thread, Kind::kWait, record);
  if (nesting == 0) thread.EndFastAgain();
  return nesting;
}

// Adds `count` events that were one wait to a cell of the present generation.
PFS_ALWAYS_INLINE void AddEventsToCell(ShmCell& cell, bool timed, uint64_t wait_ps, uint64_t count = 1) {
  if (__builtin_expect(IsUnsampled(timed, wait_ps), 0)) return AddUnsampled(cell, count);
  AddEvents(cell.seq, cell.stat, timed, wait_ps, count);
}

// Returns the thread's own cell for the event's class, nullptr if it has none.
PFS_ALWAYS_INLINE ShmCell* ThreadCell(const Wait& wait) {
  if ((wait.flags & kFlagThread) == 0) return nullptr;
  ThreadState& thread = *wait.thread;
  if (__builtin_expect(wait.class_index >= thread.cell_count, 0) && !GrowCells(thread, wait.class_index + 1)) return nullptr;
  return &thread.cells[wait.class_index];
}

// Returns whether the thread's statistics belong to the present epoch.
PFS_ALWAYS_INLINE bool IsOfEpoch(const ShmCell& cell) { return LoadOwn(cell.gen) == g_runtime.header->wait_epochs.now.load(kRelaxed); }

// Moves the statistics of before a TRUNCATE up (record/context/principals.h), and starts the cell with this event.
[[gnu::noinline]] void AddToStaleThreadCell(ShmCell& cell, bool timed, uint64_t wait_ps, uint64_t count);

// Adds `count` events that were one wait, such as rows of a table.
PFS_ALWAYS_INLINE void AddToThreadCell(ShmCell* cell, bool timed, uint64_t wait_ps, uint64_t count = 1) {
  if (__builtin_expect(cell == nullptr, 0)) return;
  if (__builtin_expect(!IsOfEpoch(*cell), 0)) {
    AddToStaleThreadCell(*cell, timed, wait_ps, count);
  } else {
    AddEventsToCell(*cell, timed, wait_ps, count);
  }
}

}  // namespace perfschema
