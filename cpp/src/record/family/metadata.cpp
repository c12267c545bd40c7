#include "record/family/metadata.h"

#include <cerrno>

#include "record/engine/classes.h"
#include "record/engine/names.h"
#include "record/engine/slots.h"
#include "record/probe/call_sites.h"

namespace perfschema {
namespace {

// Starts pfs if it has not started.
uint32_t StartedClassOf(Family family) {
  if (const uint32_t index = ClassOfKey(family, 1); __builtin_expect(index != 0, 1)) return index;
  return EnsureStarted() ? ClassOfKey(family, 1) : 0;
}

}  // namespace

ShmMetadataLock* CreateMetadataLock(uint64_t identity, uint32_t state, std::string_view schema, std::string_view name,
                                    std::string_view column, const char* file, uint32_t line) {
  const uint32_t class_index = StartedClassOf(Family::kMetadata);
  if (class_index == 0 || (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) == 0) return nullptr;
  const int error = errno;
  ThreadState* thread = CurrentThread();
  const uint32_t source = thread == nullptr ? 0 : thread->sources.Find(file, line);
  uint64_t slot = 0;
  if (ColdLock lock; lock) {
    slot = AllocateSlot(ArrayId::kMetadataLocks, g_runtime.metadata_locks, &ShmMetadataLock::identity);
    if (slot != 0) {
      ShmMetadataLock& row = g_runtime.metadata_locks[slot];
      const uint32_t granule = AcquireName(ObjectName{schema, name, column}.view());
      const CellWriter writer(row.seq);  // the stores below pair with ReadMetadataLock
      row.flags.store(g_runtime.classes[class_index].flags.load(kRelaxed), kRelease);
      row.identity.store(identity != 0 ? identity : reinterpret_cast<uintptr_t>(&row), kRelease);
      row.source.store(source, kRelease);
      row.owner_thread_id.store(thread == nullptr ? 0 : thread->thread_id, kRelease);
      row.owner_event_id.store(thread == nullptr ? 0 : CurrentEventId(*thread), kRelease);
      row.name.store(granule, kRelease);
      row.name_version.store(NameVersion(granule), kRelease);
      row.state.store(state, kRelease);
    }
  }
  if (slot == 0) CountLoss(Loss::kMetadataLocks);
  errno = error;
  return slot == 0 ? nullptr : &g_runtime.metadata_locks[slot];
}

void DestroyMetadataLock(ShmMetadataLock* lock) {
  const int error = errno;
  if (ColdLock cold; cold) {
    const CellWriter writer(lock->seq);  // the stores below pair with ReadMetadataLock
    lock->flags.store(0, kRelease);
    lock->state.store(0, kRelease);
    ReleaseName(lock->name.load(kRelaxed));
    FreeSlot(ArrayId::kMetadataLocks, g_runtime.metadata_locks, &ShmMetadataLock::identity,
             static_cast<uint64_t>(lock - g_runtime.metadata_locks));
  }
  errno = error;
}

void ChangeMetadataLock(ShmMetadataLock& lock, uint32_t shift, uint32_t value) {
  uint32_t state = lock.state.load(kRelaxed);
  // Release: pairs with ReadMetadataLock.
  while (state != 0 && !lock.state.compare_exchange_weak(state, (state & ~(0xffu << shift)) | value << shift, kRelease, kRelaxed)) continue;
}

void RefreshMetadataLocks() {
  const uint32_t flags = g_runtime.classes[ClassOfKey(Family::kMetadata, 1)].flags.load(kRelaxed);
  const uint64_t used = g_runtime.segment.array(ArrayId::kMetadataLocks).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (g_runtime.metadata_locks[i].state.load(kRelaxed) != 0) g_runtime.metadata_locks[i].flags.store(flags, kRelaxed);
  }
}

namespace {

// The hooks of the fast path for a begin.
struct MetadataBegin {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;

  const ShmMetadataLock& lock;

  PFS_ALWAYS_INLINE Operation operation() const { return Operation::kMetadataLock; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return ClassOfKey(Family::kMetadata, 1); }
  PFS_ALWAYS_INLINE uint64_t object() const { return lock.identity.load(kRelaxed); }
  PFS_ALWAYS_INLINE WaitDetails Details() const {
    const uint32_t name = lock.name.load(kRelaxed);
    WaitDetails details;
    details.state_bits = name != 0 ? kRecordHasName | kRecordHasSchema : 0;
    details.flags_and_name = uint64_t{name} << 32;
    details.version_and_type = lock.name_version.load(kRelaxed) | uint64_t{lock.state.load(kRelaxed) & 0xff} << 32;
    details.outlives_call = true;
    return details;
  }
  PFS_ALWAYS_INLINE uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) const {
    const WaitDetails details = Details();
    perfschema::WriteDetails(thread, record, details);
    return details.state_bits;
  }
};

// The hooks for an end: the wait counts on its class alone.
struct ClassEnd {
  static constexpr uint64_t kEndBits = 0;

  uint32_t class_index;

  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord&) const {}
  PFS_ALWAYS_INLINE ShmCell* StatIn(const ThreadState& thread) const {
    const uint32_t place = class_index & 1;
    return __builtin_expect(thread.known_classes[place] == class_index, 1) ? thread.class_cells[place] : nullptr;
  }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    return cell != nullptr && LoadOwn(cell->gen) == Generation(ClassDomain(ResetGroup::kSync));
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t wait_ps) const {
    AddOneFast<kWay>(cell->seq, cell->stat, wait_ps);
    AddOneFast<kWay>(own.seq, own.stat, wait_ps);
  }
};

[[gnu::noinline]] bool SlowBegin(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line) {
  const uint32_t flags = lock.flags.load(kRelaxed);
  const MetadataBegin begin{lock};
  return (flags & kFlagEnabled) != 0 &&
         BeginWait<true>(wait, flags, begin.class_index(), begin.operation(), begin.object(), file, line, begin.Details());
}

// Begins a wait that is recorded but not timed. A function of its own, as the next one: neither saves the other's registers.
[[gnu::noinline]] bool BeginUntimed(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line) {
  return FastBegin<Untimed>(wait, MetadataBegin{lock}, lock.flags.load(kRelaxed), file, line) || SlowBegin(wait, lock, file, line);
}
// Begins a wait of other settings than those of FastBegin.
[[gnu::noinline]] bool BeginBySettings(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line) {
  const uint32_t flags = lock.flags.load(kRelaxed);
  const uint32_t class_index = MetadataBegin{lock}.class_index();
  const uint32_t settings = flags & kSettings;
  if (settings == kTimedOnlyFlags) return UnrecordedBegin<Counting::kTimed>(wait, class_index) || SlowBegin(wait, lock, file, line);
  if (settings == kCountedFlags) return UnrecordedBegin<Counting::kCounted>(wait, class_index) || SlowBegin(wait, lock, file, line);
  if (settings == kUntimedFlags) return BeginUntimed(wait, lock, file, line);
  return (IsSampled(flags) && UnsampledBegin(wait, class_index)) || SlowBegin(wait, lock, file, line);
}

// Does the same where the thread does not remember its cell or the cell is of an earlier generation. REQUIRES: inside the probe.
[[gnu::noinline]] void AddToFoundCell(ThreadState& thread, uint32_t class_index, bool timed, uint64_t wait_ps) {
  const uint64_t key = CellKey(CellKind::kClass, class_index, 0, 0);
  ShmCell* const cell = FindCell(thread, key, g_runtime.classes[class_index].lanes[0]);
  if (cell == nullptr) return;  // the array is full; counted as lost
  const uint32_t place = class_index & 1;
  ChangeEntry(thread.known_classes[place], uint32_t{0}, class_index, [&] { thread.class_cells[place] = cell; });
  AddToCell(*cell, Generation(ClassDomain(ResetGroup::kSync)), timed, wait_ps);
}

// Adds an event to the thread's cell of the class. Without a call where the thread remembers the cell and it is of the present generation:
// idle comes here always.
PFS_ALWAYS_INLINE void AddToClassCell(ThreadState& thread, uint32_t class_index, bool timed, uint64_t wait_ps) {
  const ClassEnd end{class_index};
  ShmCell* const cell = end.StatIn(thread);
  if (__builtin_expect(end.IsReady(thread, cell), 1)) return AddEventsToCell(*cell, timed, wait_ps);
  AddToFoundCell(thread, class_index, timed, wait_ps);
}

// Finishes a wait on the slow path, from the timer on. REQUIRES: inside the probe.
[[gnu::noinline]] void Finish(const Wait& begun, uint64_t end_ticks) {
  const Wait wait = begun;  // in registers: the compiler need not read it again after each store
  const EndedWait ended = EndedBy(wait, end_ticks);
  const uint64_t nesting = CloseRecord(wait, ended);
  const uint64_t wait_ps = DurationOf(wait, ended);
  AddToClassCell(*wait.thread, wait.class_index, ended.timed, wait_ps);
  AddToThreadCell(ThreadCell(wait), ended.timed, wait_ps);
  LeaveProbe(*wait.thread, nesting);
}

[[gnu::noinline]] void SlowEnd(const Wait& wait) {
  if (!MayEnd(wait)) return;
  const uint64_t end_ticks = (wait.flags & kFlagTimed) != 0 ? NowTicks(wait.flags) : 0;
  EnterProbe(*wait.thread);
  Finish(wait, end_ticks);
}

[[gnu::noinline]] void EndUntimed(const Wait& wait) {
  if (!FastEnd<Untimed>(wait, ClassEnd{wait.class_index}, 0)) Finish(wait, 0);
}

// Ends a wait that was not sampled, or that only the slow path may end.
[[gnu::noinline]] void EndUnsampled(const Wait& wait) {
  if (wait.flags != kUnsampledFlags || !MayEndUnrecorded(wait)) return MayEndFast<Untimed>(wait) ? EndUntimed(wait) : SlowEnd(wait);
  if (!UnrecordedEnd<Counting::kCounted>(wait, UnsampledEnd<ClassEnd>{{wait.class_index}}, 0)) Finish(wait, 0);
}

// Ends a wait that FastEnd may not.
template <typename Timer>
[[gnu::noinline]] void EndBySettings(const Wait& wait) {
  const bool is_timed = wait.flags == (kTimedOnlyFlags | Timer::kFlags);
  if ((!is_timed && wait.flags != kCountedFlags) || !MayEndUnrecorded(wait)) return EndUnsampled(wait);
  const ClassEnd end{wait.class_index};
  const uint64_t end_ticks = is_timed ? Timer::Read() : 0;
  if (is_timed ? UnrecordedEnd<Counting::kTimed, Timer>(wait, end, end_ticks) : UnrecordedEnd<Counting::kCounted>(wait, end, end_ticks))
    return;
  Finish(wait, end_ticks);
}

template <typename Timer>
PFS_ALWAYS_INLINE void EndWaitOfClass(const Wait& wait) {
  if (!MayEndFast<Timer>(wait)) return EndBySettings<Timer>(wait);
  const uint64_t end_ticks = Timer::Read();
  if (!FastEnd<Timer>(wait, ClassEnd{wait.class_index}, end_ticks)) Finish(wait, end_ticks);
}

}  // namespace

bool BeginMetadataWait(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line) {
  const uint32_t flags = lock.flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return BeginBySettings(wait, lock, file, line);
  if (!FastBegin(wait, MetadataBegin{lock}, flags, file, line)) return SlowBegin(wait, lock, file, line);
  return true;
}

void EndMetadataWait(const Wait& wait) { EndWaitOfClass<ByCycles>(wait); }

// ---- Idle --------------------------------------------------------------------------------------------------------------------------

namespace {

// The hooks of the fast path for a begin.
struct IdleBegin {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;
  static constexpr bool kIsAlone = true;

  uint32_t class_of_idle;

  PFS_ALWAYS_INLINE Operation operation() const { return Operation::kIdle; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return class_of_idle; }
  PFS_ALWAYS_INLINE uint64_t object() const { return 0; }
  PFS_ALWAYS_INLINE static WaitDetails Details() {
    WaitDetails details;
    details.has_parent = false;
    details.outlives_call = true;
    return details;
  }
  PFS_ALWAYS_INLINE static uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) {
    perfschema::WriteDetails(thread, record, Details());
    return 0;
  }
};

// Begins idle of other settings than those of FastBegin. REQUIRES: it is enabled.
[[gnu::noinline]] bool BeginIdleBySettings(Wait& wait, uint32_t flags, uint32_t class_index, const char* file, uint32_t line) {
  if (BeginUnrecorded<ByNanoseconds>(wait, flags, class_index)) return true;
  return BeginWait<true>(wait, flags, class_index, Operation::kIdle, 0, file, line, IdleBegin::Details());
}

}  // namespace

bool BeginIdle(Wait& wait, const char* file, uint32_t line) {
  const uint32_t class_index = StartedClassOf(Family::kIdle);
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  const bool is_fast = IsAllOn(flags ^ ByNanoseconds::kFlags);
  if (__builtin_expect(is_fast, 1) && FastBegin<ByNanoseconds>(wait, IdleBegin{class_index}, flags, file, line)) return true;
  return BeginIdleBySettings(wait, flags, class_index, file, line);
}

void CountEmptyPoll(const char* file, uint32_t line) {
  CountCallWithoutEvent(StartedClassOf(Family::kIdle), Operation::kIdle, 0, file, line);
}

void EndIdle(const Wait& wait) { EndWaitOfClass<ByNanoseconds>(wait); }

}  // namespace perfschema
