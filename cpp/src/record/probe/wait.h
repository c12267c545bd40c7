// record/probe/wait.h: begin and end of a wait: the hot path. Inlined into the exported functions of capi/.
//
// No lock, allocation, system call, exception or floating point; what does not fit is counted. See docs/architecture.md, "One event".
#pragma once

#include "record/probe/events.h"
#include "record/probe/cells.h"
#include "record/engine/stack.h"
#include "record/context/threads.h"

namespace perfschema {

// An event in progress, on the caller's stack: what its end cannot read back from the record. The settings are those it began with.
struct Wait {
  ThreadState* thread;
  ShmWaitRecord* record;  // nullptr = not recorded
  uint64_t start_ticks;   // Mode::kAny; else the record has it
  uint64_t begun_state;   // of the record
  uint64_t outer;         // ThreadState::nesting before
  uint32_t flags;
  uint32_t class_index;
};

// Most events find everything on and timed by the cycle counter: for them the hot path is compiled once more, without the questions. And where
// there are two calls to an event, once more for events that are timed by it and not recorded.
enum class Mode { kAny, kAllOn, kTimed };
inline constexpr uint32_t kAllOnFlags = kFlagEnabled | kFlagTimed | kFlagThread | kFlagCurrent;
// `kind`: kFlagSocket if it is a socket that is asked for. One comparison finds whatever is not as usual.
constexpr bool IsAllOn(uint32_t flags, uint32_t kind = 0) {
  return (flags & (kAllOnFlags | kFlagSlowTimer | kFlagDead | kFlagSocket | kFlagContended)) == (kAllOnFlags | kind);
}
constexpr bool IsTimedOnly(uint32_t flags) {
  return (flags & (kAllOnFlags | kFlagSlowTimer | kFlagDead | kFlagContended)) == (kAllOnFlags & ~kFlagCurrent);
}
// Counted, not timed, not recorded: nothing need be known before the end.
inline constexpr uint32_t kCountedFlags = kFlagEnabled | kFlagThread;
constexpr bool IsCounted(uint32_t flags) { return (flags & (kCountedFlags | kFlagTimed | kFlagCurrent | kFlagDead)) == kCountedFlags; }
// A multiplier of the cycle counter is at most 2^38 (1 GHz and faster) where Mode::kAllOn is used: setup gives slower ones kFlagSlowTimer.
inline constexpr uint64_t kShortTicks = uint64_t{1} << 25;
template <Mode kMode>
constexpr bool Has(uint32_t flags, uint32_t flag) {
  if (kMode == Mode::kTimed) return flag != kFlagCurrent;
  return kMode == Mode::kAllOn || (flags & flag) != 0;
}

// Until LeaveProbe (or the next store to `nesting`) a signal handler on this thread leaves the thread's state alone.
PFS_ALWAYS_INLINE void EnterProbe(ThreadState& thread) {
#if defined(__x86_64__)
  register uintptr_t place asm("rsp");  // one instruction: an asm statement costs the compiler its allocation of registers
  thread.nesting += place;
#else
  thread.nesting += reinterpret_cast<uintptr_t>(StackMark());
#endif
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// The same where it is known what `nesting` is.
PFS_ALWAYS_INLINE void EnterProbe(ThreadState& thread, uint64_t nesting) {
#if defined(__x86_64__)
  if (__builtin_constant_p(nesting) && nesting == 0) {
    register uintptr_t place asm("rsp");
    thread.nesting = place;
  } else {
    thread.nesting = reinterpret_cast<uintptr_t>(StackMark()) + nesting;
  }
#else
  thread.nesting = reinterpret_cast<uintptr_t>(StackMark()) + nesting;
#endif
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
PFS_ALWAYS_INLINE void LeaveProbe(ThreadState& thread, uint64_t nesting) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.nesting = nesting;
}

// A probe of the thread is inside, and this is a signal handler that interrupted it. False as well once a longjmp has left the probe, whose frame then
// lies below `frame`: it is given up, and what it did not finish is counted as lost.
[[gnu::noinline]] bool IsInterruptedInProbe(ThreadState& thread, const void* frame);
PFS_ALWAYS_INLINE bool IsInterrupted(ThreadState& thread) {
  return __builtin_expect(thread.inside(), 0) && IsInterruptedInProbe(thread, __builtin_dwarf_cfa());
}

// May a probe begin while a wait of the thread is open? Not if a probe of this thread is inside already, or if too many waits are open. Drops waits
// that a longjmp left: those that began below `frame`.
[[gnu::noinline]] bool MayBeginInWait(ThreadState& thread, const void* frame);

template <Mode kMode>
PFS_ALWAYS_INLINE uint64_t NowTicks(uint32_t flags) {
  if (kMode != Mode::kAny || __builtin_expect((flags & kFlagSlowTimer) == 0, 1)) return ReadCycle();
  return ReadSlowTimer(static_cast<TimerId>((flags & kFlagTimerMask) >> kFlagTimerShift));
}

// The same pointer, of which the compiler knows nothing: it would keep addresses of single fields over the real call, each with a store and a
// load on the stack, where an offset costs nothing.
template <typename T>
PFS_ALWAYS_INLINE T* Launder(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// A wait that outlives the call that begins it: what a longjmp leaves behind is its place on the caller's stack. One that lies elsewhere is
// never taken for left.
PFS_ALWAYS_INLINE const void* PlaceOf(const Wait& wait) {
  const auto place = reinterpret_cast<uintptr_t>(&wait), stack = reinterpret_cast<uintptr_t>(StackMark());
  constexpr uintptr_t kStackBytes = 64u << 20;
  return place - stack < kStackBytes ? &wait : kNoFrame;
}
PFS_ALWAYS_INLINE void KeepUntilEnd(const Wait& wait) {
  if (wait.record != nullptr) wait.thread->wait_frames[wait.outer & ThreadState::kDepthMask] = PlaceOf(wait);
}

struct WaitDetails {  // the second place of a record
  uint64_t state_bits = 0;
  uint64_t bytes = 0;
  uint32_t flags = 0;
  uint32_t name = 0;
  uint32_t name_version = 0;
  ObjectType type = ObjectType::kNone;  // OBJECT_TYPE, if it is not the family's
  uint64_t index_name = 0;              // granule << 32 | its version
  bool outlives_call = false;           // PlaceOf(wait) is its place
  bool has_parent = true;               // false: no NESTING_EVENT_ID, whatever runs (SEMANTICS D6)
};

constexpr uint64_t WhatOf(uint32_t class_index, Operation operation, uint64_t nesting_type, uint32_t source) {
  return class_index | static_cast<uint64_t>(operation) << 16 | nesting_type | static_cast<uint64_t>(source) << 32;
}
// The first line of a new record but for its start and its state, which publishes it.
PFS_ALWAYS_INLINE void WriteBegin(ShmRecord& record, uint64_t event_id, uint64_t object, uint64_t nesting_event_id, uint64_t what) {
  // Release: a reader that still takes the record for its chunk's last owner's sees that the lap has changed.
  record.event_id.store(event_id, kRelease);
  record.end_info.store(0, kRelease);
  record.object.store(object, kRelease);
  record.nesting_event_id.store(nesting_event_id, kRelease);
  record.what.store(what, kRelease);
}

// Its second line.
PFS_ALWAYS_INLINE void WriteDetails(ThreadState& thread, ShmWaitRecord& record, const WaitDetails& details) {
  thread.waits_have_details = true;
  ShmWaitDetails& shared = record.details();
  shared.state.store(thread.waits.lap_bits, kRelease);
  if ((details.state_bits & kRecordHasBytes) != 0) shared.bytes.store(details.bytes, kRelease);
  shared.flags_and_name.store(details.flags | static_cast<uint64_t>(details.name) << 32, kRelease);
  shared.version_and_type.store(details.name_version | static_cast<uint64_t>(details.type) << 32, kRelease);
  if (details.index_name != 0) shared.index_name.store(details.index_name, kRelease);
}

// False: do the operation plainly and call no End. REQUIRES: kFlagEnabled is set in `flags`, and IsAllOn(flags) if the mode says so.
template <Mode kMode, bool kDetailed = false>
PFS_ALWAYS_INLINE bool BeginWait(Wait& wait, uint32_t flags, uint32_t class_index, Operation operation, uint64_t object, const char* file,
                                 uint32_t line, const WaitDetails& details = {}) {
  ThreadState* const thread = CurrentThread();
  if (__builtin_expect(thread == nullptr, 0)) return false;
  uint64_t outer = thread->nesting;
  if (__builtin_expect(outer != 0, 0)) {
    // All below the frame of whoever called is this call's: a wait that began there was left by a longjmp.
    if (!MayBeginInWait(*thread, __builtin_dwarf_cfa())) return false;
    outer = thread->nesting;
  }
  const uint32_t thread_flags = thread->shared->flags.load(kRelaxed);
  if (Has<kMode>(flags, kFlagThread) && __builtin_expect((thread_flags & kThreadInstrumented) == 0, 0)) return false;
  wait.thread = thread;
  wait.flags = flags;
  wait.class_index = class_index;
  wait.outer = outer;
  if constexpr (kMode == Mode::kAny) wait.begun_state = 0;
  ShmWaitRecord* record = nullptr;
  if (Has<kMode>(flags, kFlagCurrent)) {
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
      outer_event_id = thread->open_waits[depth - 1]->event_id.load(kRelaxed);
      nesting_type = ThreadState::kInWait;
    }
    const uint64_t id = thread->event_id + 1;
    thread->event_id = id;
    thread->open_waits[depth] = record;
    if constexpr (kMode == Mode::kAny || kDetailed) {  // nobody jumps out of a plain lock call
      thread->wait_frames[depth] = kDetailed && details.outlives_call ? PlaceOf(wait) : StackMark();
    }
    if constexpr (kDetailed) {
      if (!details.has_parent) outer_event_id = nesting_type = 0;
    }
    WriteBegin(*record, id, object, outer_event_id, WhatOf(class_index, operation, nesting_type, thread->sources.Find(file, line)));
    uint64_t state = thread->waits.lap_bits | kRecordOpen | (flags & (thread_flags & kThreadViews));
    state |= kMode == Mode::kAllOn ? kFlagTimed : flags & (kFlagTimed | kFlagTimerMask);
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
  if (Has<kMode>(flags, kFlagTimed)) {
    const uint64_t start = NowTicks<kMode>(flags);
    if constexpr (kMode != Mode::kAllOn) wait.start_ticks = start;
    if (kMode == Mode::kAllOn || record != nullptr) record->start_ticks.store(start, kRelease);
  }
  if (kMode == Mode::kAllOn || record != nullptr) record->state.store(wait.begun_state, kRelease);  // publishes the open event; pairs with Snapshot
  return true;
}

// The end of an event. Its order is that of latency: the locked instruction of the unlock that follows waits until all stores before it
// have gone to the cache, and they go one by one in program order. So what needs no duration is stored first, while the duration is on its way.
//   EndWait (timer), CloseRecord, counts, Duration, sums, LeaveProbe.
struct EndedWait {
  bool timed;
  uint64_t ticks;      // how long
  uint64_t end_ticks;
};

template <Mode kMode>
PFS_ALWAYS_INLINE EndedWait EndWait(const Wait& wait) {
  EndedWait ended{Has<kMode>(wait.flags, kFlagTimed), 0, 0};
  if (ended.timed) {
    // Read back from the record: keeping it in the Wait is one more store that the lock operation must wait for.
    const uint64_t start = kMode == Mode::kAllOn ? wait.record->start_ticks.load(kRelaxed) : wait.start_ticks;
    ended.end_ticks = NowTicks<kMode>(wait.flags);
    ended.ticks = ended.end_ticks - start;
    // Counters of two cores may differ by a few ticks: never before the start. (Such a difference is a huge unsigned one.)
    if (__builtin_expect(ended.ticks >= kShortTicks, 0) && ended.end_ticks < start) {
      ended.end_ticks = start;
      ended.ticks = 0;
    }
  }
  EnterProbe(*wait.thread);
  return ended;
}

// In picoseconds.
template <Mode kMode>
PFS_ALWAYS_INLINE uint64_t DurationOf(const Wait& wait, const EndedWait& ended) {
  uint64_t ticks = ended.ticks;
  if constexpr (kMode == Mode::kAny) {
    return TimerScale::Scale(ticks, g_runtime.picos_per_tick[(wait.flags & kFlagTimerMask) >> kFlagTimerShift]);
  } else {
    asm volatile("" : "+r"(ticks));  // not before the stores above
    const uint64_t multiplier = g_runtime.picos_per_tick[0];
    if (__builtin_expect(ticks >= kShortTicks, 0)) return TimerScale::Scale(ticks, multiplier);
    return (ticks * multiplier) >> TimerScale::kFractionBits;  // the same product: it fits into 64 bits
  }
}

// For an end that is a call of its own. False, and counted as lost: another instrumentation is attached to the calling thread than at the
// begin, and that one may be in use elsewhere. The event stays open.
inline bool MayEnd(const Wait& wait) {
  if (__builtin_expect(wait.thread == t_locals.state, 1) || wait.thread == AttachedThread()) return true;
  CountLoss(Loss::kLockers);
  return false;
}

// Completes and publishes the record. Returns what ThreadState::nesting becomes when the probe is left.
template <Mode kMode, bool kDetailed = false>
PFS_ALWAYS_INLINE uint64_t CloseRecord(const Wait& wait, const EndedWait& ended, uint64_t more_state_bits = 0, uint32_t spins = 0) {
  ThreadState& thread = *wait.thread;
  if constexpr (kMode == Mode::kTimed) return thread.outside();
  ShmWaitRecord* const record = Launder(wait.record);
  uint64_t nesting = wait.outer;
  if constexpr (kMode == Mode::kAny || kDetailed) {
    const uint64_t depth = wait.outer & ThreadState::kDepthMask;
    if (record == nullptr || __builtin_expect(record->state.load(kRelaxed) != wait.begun_state, 0)) {
      // Not recorded, or gone: its chunk was taken away meanwhile (a child of fork(), a hold that overflowed).
      if (record == nullptr || record->state.load(kRelaxed) != (wait.begun_state ^ kRecordOpen)) return thread.outside();
      // It was taken for left: its thread went to another stack meanwhile, and came back. Here is its end.
      CountLoss(Loss::kLockers, ~uint64_t{0});  // one less
      nesting = thread.outside();
    } else if (kMode == Mode::kAny && __builtin_expect(thread.wait_depth() != depth + 1 || thread.open_waits[depth] != record, 0)) nesting = NestingWithout(thread, record);
  }
  const uint64_t events_inside = thread.event_id - record->event_id.load(kRelaxed);
  uint64_t end_info = events_inside;
  if constexpr (kMode == Mode::kAny) {
    if (__builtin_expect((more_state_bits & kRecordHasSpins) != 0, 0)) end_info = EndInfoWithSpins(events_inside, spins);
  }
  if (__builtin_expect(end_info != 0, 0)) record->end_info.store(end_info, kRelease);
  record->end_ticks.store(ended.end_ticks, kRelease);
  // Read back, too, where nothing else needs it: a register that is kept over the real call is a store before it.
  const uint64_t begun_state = kMode == Mode::kAny || kDetailed ? wait.begun_state : record->state.load(kRelaxed);
  record->state.store((begun_state | more_state_bits) ^ (kRecordOpen | kRecordClosed), kRelease);  // publishes the whole event
  // If nothing has begun since, it is in the chunk that is being written.
  if (__builtin_expect(events_inside != 0, 0)) KeepChunkOf(thread, Kind::kWait, record);
  return nesting;
}

// The thread's own cell for the event's class, nullptr if it has none.
template <Mode kMode>
PFS_ALWAYS_INLINE ShmCell* ThreadCell(const Wait& wait, uint32_t class_index) {
  if (!Has<kMode>(wait.flags, kFlagThread)) return nullptr;
  ThreadState& thread = *wait.thread;
  if (__builtin_expect(class_index >= thread.cell_count, 0) && !GrowCells(thread, class_index + 1)) return nullptr;
  return &thread.cells[class_index];
}
template <Mode kMode>
PFS_ALWAYS_INLINE ShmCell* ThreadCell(const Wait& wait) {
  return ThreadCell<kMode>(wait, wait.class_index);
}

// Are the thread's numbers of the present epoch?
PFS_ALWAYS_INLINE bool IsOfEpoch(const ShmCell& cell) { return LoadOwn(cell.gen) == g_runtime.header->epochs[0].now.load(kRelaxed); }

// The numbers are of before a TRUNCATE: they move up (record/context/principals.h), and the cell starts with this event.
[[gnu::noinline]] void AddToStaleThreadCell(ShmCell& cell, bool timed, uint64_t wait_ps, uint64_t count);

// `count` events that were one wait: rows of a table.
PFS_ALWAYS_INLINE void AddToThreadCell(ShmCell* cell, bool timed, uint64_t wait_ps, uint64_t count = 1) {
  if (__builtin_expect(cell == nullptr, 0)) return;
  if (__builtin_expect(!IsOfEpoch(*cell), 0)) {
    AddToStaleThreadCell(*cell, timed, wait_ps, count);
  } else {
    AddEvents(cell->seq, cell->stat, timed, wait_ps, count);
  }
}

}  // namespace perfschema
