// record/probe/fast_path.h: the fast path of a wait: everything is on, the cycle counter times it, and its thread is in no other wait.
// Waits that are recorded but not timed, only timed or only counted have fast paths, too. All do what the slow path (record/probe/wait.h)
// does, with fewer instructions.
//
//   FastCall, UnrecordedCall               a whole operation: begin, the real call, end (locks, files)
//   FastBegin, FastEnd                     begin and end are calls of their own (tables, metadata locks, sockets)
//   UnrecordedBegin, UnrecordedEnd         the same for waits that are only timed or only counted
//   BeginUnrecorded, EndBySettings         the same by the settings, which may be any
//
// Each uncommon case leaves for the slow path, by a tail call where the result allows it, so that few values are kept over the real call.
// Before the real call the slow path does the whole event; after it, the slow path finishes the event ("Finish...").
//
// A processor hides what stands before the first reading of the timer. What stands after the second one costs its full length. So the end
// has few instructions.
//
// The family of an event supplies these hooks:
//   kPlaces                                   places that its record takes: 1, or kPlacesWithDetails
//   kIsAlone                                  optional: the event has no NESTING_EVENT_ID
//   class_index(), operation(), object()      what the record shows
//   WriteDetails(thread, record)              writes the second place, if there is one; returns bits of the record's state
//   WriteEnd(record), kEndBits                completes the second place; bits that the end adds to the state
//   StatIn(thread)                            where the event counts: a LockStat, or the thread's own cell
//   IsReady(thread, stat)                     the operation ended well, and `stat` is that of the object since the last TRUNCATE
//   Add<kWay>(thread, stat, own, wait_ps)     adds the event there, and to the thread's own cell of the class
// For a whole operation also:
//   Call(), kMayUnwind                        makes the real call; a thread may be cancelled in it
//   SetResult(result), SetUnwound()           keeps what Add and the ends need of it
//   SlowCall(file, line)                      the whole operation on the slow path
//   FinishSlow(thread, record, end_ticks, result), FinishUnrecorded(thread, ticks, result)      the end on the slow path. Returns `result`
//   MustEnter<kWay>()                         whether signal handlers must not come between the steps of Add
#pragma once

#include "record/probe/cells.h"
#include "record/probe/wait.h"

namespace perfschema {

// ---- Settings ----------------------------------------------------------------------------------------------------------------------

inline constexpr uint32_t kAllOnFlags = kFlagEnabled | kFlagTimed | kFlagThread | kFlagCurrent;
inline constexpr uint32_t kTimedOnlyFlags = kAllOnFlags & ~kFlagCurrent;
inline constexpr uint32_t kCountedFlags = kFlagEnabled | kFlagThread;  // neither timed nor recorded: nothing need be known before the end
inline constexpr uint32_t kUnsampledFlags = kCountedFlags | kFlagSampled;
// All that these comparisons look at. A caller of several compares one word, `flags & kSettings`, with each of kAllOnFlags and its kin.
inline constexpr uint32_t kSettings =
    kAllOnFlags | kFlagSlowTimer | kFlagTimerMask | kFlagDead | kFlagSocket | kFlagContended | kFlagHolds | kFlagSampled;
// Returns whether everything is on. `kind`: kFlagSocket if the caller asks for a socket. One comparison finds each uncommon setting.
constexpr bool IsAllOn(uint32_t flags, uint32_t kind = 0) { return (flags & kSettings) == (kAllOnFlags | kind); }
constexpr bool IsTimedOnly(uint32_t flags) { return (flags & (kSettings & ~kFlagSocket)) == kTimedOnlyFlags; }
constexpr bool IsCounted(uint32_t flags) {
  return (flags & (kCountedFlags | kFlagTimed | kFlagCurrent | kFlagDead | kFlagHolds | kFlagSampled)) == kCountedFlags;
}
// TIMED = 'SAMPLED': most events are counted only.
constexpr bool IsSampled(uint32_t flags) {
  return (flags & (kCountedFlags | kFlagDead | kFlagHolds | kFlagSampled)) == (kCountedFlags | kFlagSampled);
}

// How an event counts. kOfZero: as a wait of no time, which is counted in a statistic that has one already.
enum class Counting { kTimed, kCounted, kOfZero };
inline constexpr uint64_t kNotTimed = ~uint64_t{0};     // ticks of an event that is counted only
inline constexpr uint64_t kNotSampled = kNotTimed - 1;  // the same, because of TIMED = 'SAMPLED'

// Events of more ticks take the slow path. A multiplier of the cycle counter is at most 2^38 (1 GHz and faster) on the fast path: setup
// gives slower counters kFlagSlowTimer.
inline constexpr uint64_t kShortTicks = uint64_t{1} << 25;
// Returns the product that TimerScale::Scale returns: it fits into 64 bits. REQUIRES: ticks < kShortTicks, of the cycle counter.
PFS_ALWAYS_INLINE uint64_t ShortPicos(uint64_t ticks) { return (ticks * g_runtime.picos_per_tick[0]) >> TimerScale::kFractionBits; }

// How the events of most families are timed. Settings in which a timer's flags are turned over are those of the cycle counter.
struct ByCycles {
  static constexpr uint32_t kFlags = 0;
  static constexpr Counting kWay = Counting::kTimed;
  PFS_ALWAYS_INLINE static uint64_t Read() { return ReadCycle(); }
  PFS_ALWAYS_INLINE static uint64_t Picos(uint64_t ticks) { return ShortPicos(ticks); }  // REQUIRES: ticks < kShortTicks
};
// How idle is timed.
struct ByNanoseconds {
  static constexpr uint32_t kFlags = kFlagSlowTimer | static_cast<uint32_t>(TimerId::kNanosecond) << kFlagTimerShift;
  static constexpr Counting kWay = Counting::kTimed;
  PFS_ALWAYS_INLINE static uint64_t Read() { return g_time_base.Units<3>(g_time_base.Counter()); }
  PFS_ALWAYS_INLINE static uint64_t Picos(uint64_t ticks) { return ticks * 1000; }
};
// Of events that are recorded but not timed.
struct Untimed {
  static constexpr uint32_t kFlags = kFlagTimed;
  static constexpr Counting kWay = Counting::kCounted;
  PFS_ALWAYS_INLINE static uint64_t Read() { return 0; }
  PFS_ALWAYS_INLINE static uint64_t Picos(uint64_t) { return 0; }
};
inline constexpr uint32_t kUntimedFlags = kAllOnFlags ^ Untimed::kFlags;
constexpr bool IsUntimed(uint32_t flags) { return (flags & kSettings) == kUntimedFlags; }

// ---- Steps -------------------------------------------------------------------------------------------------------------------------

// Returns whether the thread is in no probe, and its events count.
PFS_ALWAYS_INLINE bool IsInstrumented(const ThreadState* thread) {
  return __builtin_expect(thread != nullptr && !thread->inside() && (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) != 0, 1);
}

// Does what WriteBegin() does for an event in no other wait, with one store less.
PFS_ALWAYS_INLINE void WriteBeginFast(ShmRecord& record, uint64_t event_id, uint64_t object, const ThreadState& thread, uint64_t what) {
#if defined(PFS_WIDE_STAT)
  static_assert(offsetof(ShmRecord, end_info) == offsetof(ShmRecord, nesting_event_id) + sizeof(Word) &&
                offsetof(ShmRecord, nesting_event_id) % 16 == 0 &&
                offsetof(HotThreadState, no_end_info) == offsetof(HotThreadState, parent_event_id) + sizeof(Word));
  record.event_id.store(event_id, kRelease);
  record.object.store(object, kRelease);
  record.what.store(what, kRelease);
  const __m128i pair = _mm_load_si128(reinterpret_cast<const __m128i*>(&thread.parent_event_id));
  asm volatile("movdqa %1, %0" : "=m"(*reinterpret_cast<__m128i*>(&record.nesting_event_id)) : "x"(pair) : "memory");
#else
  WriteBegin(record, event_id, object, thread.parent_event_id, what);
#endif
}

// Returns whether the next event, whose settings are IsSampled(), is only counted. If so, the one that is timed is nearer by one.
PFS_ALWAYS_INLINE bool IsBetweenSamples() {
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr || thread->until_sample <= 1, 0)) return false;
  --thread->until_sample;
  return true;
}

// Loads a word that other threads store to, as LoadOwn() does: any value of it will do. ThreadSanitizer must see what it is.
PFS_ALWAYS_INLINE uint32_t LoadFlags(const HalfWord& flags) {
#if defined(__SANITIZE_THREAD__)
  return flags.load(kRelaxed);
#else
  return LoadOwn(flags);
#endif
}

struct OpenedRecord {
  ShmWaitRecord* record;
  uint64_t state;
};

// Takes the next record, makes it the thread's only open one, and writes all of it but its start. Returns false in an uncommon case: the
// thread's events do not count, its chunk is full, or the call site is new. Inside the probe before the record is looked up: a signal
// handler that came in between would take the same EVENT_ID. REQUIRES: FreeThread(). The caller leaves the probe.
template <typename Timer, typename Event>
PFS_ALWAYS_INLINE bool OpenFast(OpenedRecord& opened, const Event& event, ThreadState& thread, uint32_t flags, const char* file,
                                uint32_t line) {
  EnterProbe(thread, 0);
  static_assert(kThreadInstrumented == kFlagEnabled);
  const uint32_t both_flags = flags & LoadFlags(thread.shared->flags);
  auto* const record = static_cast<ShmWaitRecord*>(thread.waits.next);
  auto* const next = reinterpret_cast<ShmWaitRecord*>(reinterpret_cast<uintptr_t>(record) + Event::kPlaces * sizeof(ShmWaitRecord));
  const SourceCache::Entry& source = thread.sources.PlaceOf(file, line);
  if (__builtin_expect((both_flags & kThreadInstrumented) == 0 || next > thread.waits.end || !SourceCache::IsOf(source, file, line), 0)) {
    return false;
  }
  thread.waits.next = next;
  const uint64_t event_id = thread.TakeEventId();
  thread.open_waits[0].record = record;
  if constexpr (requires { Event::kIsAlone; }) {
    WriteBegin(*record, event_id, event.object(), 0, WhatOf(event.class_index(), event.operation(), 0, source.source));
  } else {
    WriteBeginFast(*record, event_id, event.object(), thread,
                   WhatOf(event.class_index(), event.operation(), thread.parent_type, source.source));
  }
  opened = {record, (thread.waits.open_bits ^ (Timer::kFlags & (kRecordTimed | kFlagTimerMask))) | (both_flags & kThreadViews)};
  if constexpr (Event::kPlaces > 1) opened.state |= event.WriteDetails(thread, *record);
  return true;
}

// Leaves the probe with the wait open, and returns the first reading of the timer.
template <typename Timer>
PFS_ALWAYS_INLINE uint64_t StartFast(ThreadState& thread, const OpenedRecord& opened) {
  LeaveProbe(thread, 1);
  const uint64_t start_ticks = Timer::Read();
  if constexpr (Timer::kWay == Counting::kTimed) opened.record->start_ticks.store(start_ticks, kRelease);  // pairs with CopyChunk, too
  opened.record->state.store(opened.state, kRelease);  // publishes the open event; pairs with EventReader::CopyChunk
  return start_ticks;
}

// Publishes the whole event.
PFS_ALWAYS_INLINE void PublishEnd(ShmRecord& record, uint64_t end_ticks, uint64_t end_bits) {
  record.end_ticks.store(end_ticks, kRelease);  // pairs with EventReader::CopyChunk, as the next store
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  using Plain [[gnu::may_alias]] = uint64_t;
  std::atomic_signal_fence(std::memory_order_release);
  *reinterpret_cast<Plain*>(&record.state) ^= kRecordOpen | kRecordClosed | end_bits;  // one instruction; as a store it is like others
#else
  record.state.store(LoadOwn(record.state) ^ (kRecordOpen | kRecordClosed | end_bits), kRelease);
#endif
}

PFS_ALWAYS_INLINE ShmStat& StatOf(ShmCell* cell) { return cell->stat; }

// Adds one event to a statistic. REQUIRES: CountFast() has found it common.
template <Counting kWay>
PFS_ALWAYS_INLINE void AddOneFast(HalfWord& seq, ShmStat& stat, uint64_t wait_ps) {
  if constexpr (kWay == Counting::kTimed) {
    AddCommon(seq, stat, wait_ps);
  } else {
    AddCounted(seq, stat);
  }
}

// Counts an event that took `ticks`, where its thread has counted before; publishes it by publish() before. Returns false, and does
// nothing, in an uncommon case: it is long, a new minimum or maximum, the first one since a TRUNCATE, the operation failed, or another
// event has begun in it, so that its end is not its own EVENT_ID, and its chunk may not be the one that is being written (fast_bytes).
template <Counting kWay, typename Timer = ByCycles, typename Event, typename Publish>
PFS_ALWAYS_INLINE bool CountFast(const Event& event, ThreadState& thread, uint32_t class_index, uint64_t ticks, Publish publish) {
  const uint64_t wait_ps = Timer::Picos(ticks);
  const uint32_t own_at = class_index * static_cast<uint32_t>(sizeof(ShmCell));
  ShmCell& own = *reinterpret_cast<ShmCell*>(reinterpret_cast<char*>(thread.cells) + own_at);
  const auto stat = event.StatIn(thread);
  const auto is_common = [&]() PFS_INLINE_LAMBDA {
    if constexpr (kWay == Counting::kTimed) return !WidensEither(StatOf(stat), own.stat, wait_ps);
    if constexpr (kWay == Counting::kOfZero) return HasWaitOfZero(StatOf(stat)) && HasWaitOfZero(own.stat);
    return true;
  };
  if (__builtin_expect(
          !event.IsReady(thread, stat) || ticks >= kShortTicks || own_at >= thread.fast_bytes || !IsOfEpoch(own) || !is_common(), 0)) {
    return false;
  }
  publish();
  event.template Add<kWay>(thread, stat, own, wait_ps);
  return true;
}

// Returns the index of the record's class, in one instruction.
PFS_ALWAYS_INLINE uint32_t ClassIndexOf(const ShmRecord& record) {
  using LowWord [[gnu::may_alias]] = uint16_t;
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return *reinterpret_cast<const LowWord*>(&record.what);
}

// Returns how long an event took. Of one that is not timed the record has no start.
template <typename Timer>
PFS_ALWAYS_INLINE uint64_t TicksOf(const ShmWaitRecord& record, uint64_t end_ticks) {
  return Timer::kWay == Counting::kTimed ? end_ticks - LoadOwn(record.start_ticks) : 0;
}

// Ends the thread's only open event. Returns false in an uncommon case: it is inside the probe, and nothing else has been done.
template <typename Timer, typename Event>
PFS_ALWAYS_INLINE bool CloseFast(const Event& event, ThreadState& thread, ShmWaitRecord& record, uint64_t ticks, uint64_t end_ticks) {
  // The class comes from the record and not from the object, whose line may still be on its way: over scattered mutexes that is 5 % of the
  // floor.
  const uint32_t class_index = ClassIndexOf(record);
  const auto publish = [&]() PFS_INLINE_LAMBDA {
    event.WriteEnd(record);
    PublishEnd(record, end_ticks, Event::kEndBits);
  };
  if (!CountFast<Timer::kWay, Timer>(event, thread, class_index, ticks, publish)) return false;
  LeaveProbe(thread, 0);
  return true;
}

// Counts an event without a record, in a wait or not. Returns false in an uncommon case: nothing has been done.
template <Counting kWay, typename Event>
PFS_ALWAYS_INLINE bool CountUnrecorded(const Event& event, ThreadState& thread, uint32_t class_index, uint64_t ticks) {
  const bool must_enter = event.template MustEnter<kWay>();
  const uint64_t nesting = thread.nesting;
  if (must_enter) EnterProbe(thread);
  if (!CountFast<kWay>(event, thread, class_index, ticks, [] {})) {
    if (must_enter) LeaveProbe(thread, nesting);
    return false;
  }
  if (must_enter) LeaveProbe(thread, nesting);
  return true;
}

// ---- What the slow path needs to finish what the fast path began ---------------------------------------------------------------------

// REQUIRES: the record is the one that OpenFast() took.
inline Wait SlowWait(ThreadState& thread, ShmWaitRecord& record) {
  const uint64_t state = record.state.load(kRelaxed);
  // In a child of fork() that a signal handler made the event is its parent's.
  ShmWaitRecord* const its_record = (state & kRecordOpen) != 0 ? &record : nullptr;
  const uint32_t flags = (kAllOnFlags & ~kFlagTimed) | static_cast<uint32_t>(state & kRecordTimed);
  return {&thread, 0, its_record, record.start_ticks.load(kRelaxed), state, flags, ClassIndexOf(record)};
}
// `ticks`: kNotTimed, kNotSampled, or how long it took.
inline Wait UnrecordedWait(ThreadState& thread, uint32_t flags, uint32_t class_index) {
  return {&thread, thread.nesting, nullptr, 0, 0, flags & ~kFlagCurrent, class_index};
}
inline EndedWait UnrecordedEnded(uint64_t ticks) {
  if (ticks == kNotSampled) return EndedUntimed(kFlagSampled);
  return {ticks != kNotTimed, static_cast<int64_t>(ticks) < 0 ? 0 : ticks, 0};
}

// ---- A whole operation ---------------------------------------------------------------------------------------------------------------

// Makes the real call. on_unwind() ends the event of a thread that is cancelled in it.
template <typename Event, typename OnUnwind>
PFS_ALWAYS_INLINE auto CallOf(Event& event, [[maybe_unused]] OnUnwind on_unwind) {
  if constexpr (Event::kMayUnwind) {
    try {
      return event.Call();
    } catch (...) {
      event.SetUnwound();
      on_unwind();
      throw;
    }
  } else {
    return event.Call();
  }
}

// REQUIRES: IsAllOn(flags), or IsUntimed(flags) if that is the timer.
template <typename Timer = ByCycles, typename Event>
PFS_ALWAYS_INLINE auto FastCall(Event& event, uint32_t flags, const char* file, uint32_t line) {
  ThreadState* const thread = FreeThread();
  if (thread == nullptr) return event.SlowCall(file, line);
  OpenedRecord opened;
  if (!OpenFast<Timer>(opened, event, *thread, flags, file, line)) {
    LeaveProbe(*thread, 0);
    return event.SlowCall(file, line);
  }
  ShmWaitRecord* const record = opened.record;
  if constexpr (Event::kMayUnwind) thread->open_waits[0].frame = StackMark();  // nobody jumps out of a plain lock call
  StartFast<Timer>(*thread, opened);

  decltype(event.Call()) result;
  if constexpr (Event::kMayUnwind) {
    result = CallOf(event, [&]() PFS_INLINE_LAMBDA {
      const uint64_t now = Timer::Read();
      EnterProbe(*thread);
      event.FinishSlow(*thread, *record, now, decltype(event.Call()){});
    });
  } else {
    result = event.Call();
  }

  const uint64_t end_ticks = Timer::Read(), ticks = TicksOf<Timer>(*record, end_ticks);
  EnterProbe(*thread);
  event.SetResult(result);
  if (!CloseFast<Timer>(event, *thread, *record, ticks, end_ticks)) return event.FinishSlow(*thread, *record, end_ticks, result);
  return result;
}

// REQUIRES: IsTimedOnly() or IsCounted().
template <Counting kWay, typename Event>
PFS_ALWAYS_INLINE auto UnrecordedCall(Event& event, const char* file, uint32_t line) {
  constexpr bool kIsTimed = kWay == Counting::kTimed;
  ThreadState* const thread = t_locals.state;
  if (!IsInstrumented(thread)) return event.SlowCall(file, line);
  const uint64_t start_ticks = kIsTimed ? ReadCycle() : 0;
  const auto result = CallOf(event, [&]() PFS_INLINE_LAMBDA {
    event.FinishUnrecorded(*thread, kIsTimed ? ReadCycle() - start_ticks : kNotTimed, decltype(event.Call()){});
  });
  const uint64_t ticks = kIsTimed ? ReadCycle() - start_ticks : 0;
  event.SetResult(result);
  if (!CountUnrecorded<kWay>(event, *thread, event.class_index(), ticks))
    return event.FinishUnrecorded(*thread, kIsTimed ? ticks : kNotTimed, result);
  return result;
}

// ---- Begin and end apart -------------------------------------------------------------------------------------------------------------

// Begins a wait. Returns false if the slow path must: nothing has been done. REQUIRES: IsAllOn(flags), but for the timer's.
template <typename Timer = ByCycles, typename Event>
PFS_ALWAYS_INLINE bool FastBegin(Wait& wait, const Event& event, uint32_t flags, const char* file, uint32_t line) {
  ThreadState* const thread = FreeThread();
  if (thread == nullptr) return false;
  OpenedRecord opened;
  if (!OpenFast<Timer>(opened, event, *thread, flags, file, line)) {
    LeaveProbe(*thread, 0);
    return false;
  }
  // The next record was last written a whole pool ago: it comes back into the cache meanwhile.
  if constexpr (Event::kPlaces > 1) {
    __builtin_prefetch(opened.record + 2, 1);
    __builtin_prefetch(opened.record + 3, 1);
  }
  thread->open_waits[0].frame = PlaceOf(wait);
  wait.thread = thread;
  wait.record = opened.record;
  wait.begun_state = opened.state;
  wait.outer = 0;
  wait.flags = kAllOnFlags ^ Timer::kFlags;
  wait.class_index = event.class_index();
  wait.start_ticks = StartFast<Timer>(*thread, opened);
  return true;
}

// The same for a wait without a record. REQUIRES: IsTimedOnly(), but for the timer's, or IsCounted().
template <Counting kWay, typename Timer = ByCycles>
PFS_ALWAYS_INLINE bool UnrecordedBegin(Wait& wait, uint32_t class_index) {
  ThreadState* const thread = FreeThread();
  if (thread == nullptr || !IsInstrumented(thread)) return false;
  wait.thread = thread;
  wait.record = nullptr;
  wait.begun_state = 0;
  wait.outer = 0;
  wait.flags = kWay == Counting::kTimed ? kTimedOnlyFlags | Timer::kFlags : kCountedFlags;
  wait.class_index = class_index;
  if constexpr (kWay == Counting::kTimed) wait.start_ticks = Timer::Read();
  return true;
}

// The same for a wait that TIMED = 'SAMPLED' may only count. Returns false also if the wait is to be timed. REQUIRES: IsSampled().
PFS_ALWAYS_INLINE bool UnsampledBegin(Wait& wait, uint32_t class_index) {
  if (!IsBetweenSamples() || !UnrecordedBegin<Counting::kCounted>(wait, class_index)) return false;
  wait.flags = kUnsampledFlags;
  return true;
}

// The same by the settings, which may be any.
template <typename Timer = ByCycles>
PFS_ALWAYS_INLINE bool BeginUnrecorded(Wait& wait, uint32_t flags, uint32_t class_index) {
  if (IsTimedOnly(flags ^ Timer::kFlags)) return UnrecordedBegin<Counting::kTimed, Timer>(wait, class_index);
  if (IsCounted(flags)) return UnrecordedBegin<Counting::kCounted>(wait, class_index);
  return IsSampled(flags) && UnsampledBegin(wait, class_index);
}

// Returns whether the fast path may try to end the wait: its settings are those, it began in this thread, which is in no other wait that is
// recorded. If so, the caller reads the timer and calls FastEnd().
template <typename Timer = ByCycles>
PFS_ALWAYS_INLINE bool MayEndFast(const Wait& wait) {
  return __builtin_expect(wait.flags == (kAllOnFlags ^ Timer::kFlags) && wait.thread == t_locals.state && wait.thread->nesting == 1, 1);
}

// The same for a wait without a record. REQUIRES: its settings are kTimedOnlyFlags, kCountedFlags or kUnsampledFlags.
PFS_ALWAYS_INLINE bool MayEndUnrecorded(const Wait& wait) {
  return __builtin_expect(wait.thread == t_locals.state && !wait.thread->inside(), 1);
}

// Ends a wait. Returns false if the slow path must finish it from `end_ticks` on: the caller is inside the probe, and nothing else has been
// done. Begins and ends may overlap, so that the record may be another event's by now, or belong to a task of the thread that does not run.
template <typename Timer = ByCycles, typename Event>
PFS_ALWAYS_INLINE bool FastEnd(const Wait& wait, const Event& event, uint64_t end_ticks) {
  ThreadState& thread = *wait.thread;
  ShmWaitRecord& record = *wait.record;
  EnterProbe(thread);
  if (__builtin_expect(LoadOwn(record.state) != wait.begun_state || thread.open_waits[0].record != &record, 0)) return false;
  return CloseFast<Timer>(event, thread, record, TicksOf<Timer>(record, end_ticks), end_ticks);
}

// The hooks for the end of a wait that was not sampled. REQUIRES: End's statistic is a cell.
template <typename End>
struct UnsampledEnd : End {
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t) const {
    AddUnsampled(*cell, 1);
    AddUnsampledToAmount(own);
  }
};

// Ends a wait without a record. Returns false if the slow path must finish it: the caller is inside the probe, and nothing else has been
// done.
template <Counting kWay, typename Timer = ByCycles, typename Event>
PFS_ALWAYS_INLINE bool UnrecordedEnd(const Wait& wait, const Event& event, uint64_t end_ticks) {
  ThreadState& thread = *wait.thread;
  const uint64_t nesting = thread.nesting;
  EnterProbe(thread);
  const uint64_t ticks = kWay == Counting::kTimed ? end_ticks - wait.start_ticks : 0;
  if (!CountFast<kWay, Timer>(event, thread, wait.class_index, ticks, [] {})) return false;
  LeaveProbe(thread, nesting);
  return true;
}

// Returns the second reading of the timer for EndBySettings(); 0: the wait is not timed.
template <typename Timer = ByCycles>
PFS_ALWAYS_INLINE uint64_t ReadAtEnd(const Wait& wait) {
  if (wait.flags == (kTimedOnlyFlags | Timer::kFlags)) return Timer::Read();
  return (wait.flags & kFlagTimed) != 0 ? NowTicks(wait.flags) : 0;
}

// Ends a wait that FastEnd() may not: not timed, without a record, or of settings that have no fast path. Returns false as FastEnd() does.
// REQUIRES: MayEnd(wait).
template <typename Timer = ByCycles, typename End>
PFS_ALWAYS_INLINE bool EndBySettings(const Wait& wait, const End& end, uint64_t end_ticks) {
  if (MayEndUnrecorded(wait)) {
    if (wait.flags == kCountedFlags) return UnrecordedEnd<Counting::kCounted>(wait, end, 0);
    if (wait.flags == (kTimedOnlyFlags | Timer::kFlags)) return UnrecordedEnd<Counting::kTimed, Timer>(wait, end, end_ticks);
    if (wait.flags == kUnsampledFlags) return UnrecordedEnd<Counting::kCounted>(wait, UnsampledEnd<End>{end}, 0);
    if (MayEndFast<Untimed>(wait)) return FastEnd<Untimed>(wait, end, 0);
  }
  EnterProbe(*wait.thread);
  return false;
}

}  // namespace perfschema
