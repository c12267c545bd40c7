#include "record/family/metadata.h"

#include <cerrno>

#include "record/engine/classes.h"
#include "record/engine/names.h"
#include "record/engine/slots.h"

namespace perfschema {
namespace {

uint32_t ClassOf(Family family) {
  if (const uint32_t index = ClassOfKey(family, 1); __builtin_expect(index != 0, 1)) return index;
  return EnsureStarted() ? ClassOfKey(family, 1) : 0;
}

}  // namespace

ShmMetadataLock* CreateMetadataLock(uint64_t identity, uint32_t state, std::string_view schema, std::string_view name, std::string_view column,
                                    const char* file, uint32_t line) {
  const uint32_t class_index = ClassOf(Family::kMetadata);
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
      const CellWriter writer(row.seq);
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
    const CellWriter writer(lock->seq);
    lock->flags.store(0, kRelease);
    lock->state.store(0, kRelease);
    ReleaseName(lock->name.load(kRelaxed));
    FreeSlot(ArrayId::kMetadataLocks, g_runtime.metadata_locks, &ShmMetadataLock::identity, static_cast<uint64_t>(lock - g_runtime.metadata_locks));
  }
  errno = error;
}

void ChangeMetadataLock(ShmMetadataLock& lock, uint32_t shift, uint32_t value) {
  uint32_t state = lock.state.load(kRelaxed);
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

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginMetadataWait(Wait& wait, const ShmMetadataLock& lock, uint32_t flags, const char* file, uint32_t line) {
  if (kMode == Mode::kTimed || (kMode == Mode::kAny && (flags & kFlagCurrent) == 0)) return BeginWait<kMode>(wait, flags, ClassOfKey(Family::kMetadata, 1), Operation::kMetadataLock, 0, nullptr, 0);
  WaitDetails details;
  details.name = lock.name.load(kRelaxed);
  details.state_bits = details.name != 0 ? kRecordHasName | kRecordHasSchema : 0;
  details.name_version = lock.name_version.load(kRelaxed);
  details.type = static_cast<ObjectType>(lock.state.load(kRelaxed) & 0xff);
  details.outlives_call = true;
  return BeginWait<kMode, true>(wait, flags, ClassOfKey(Family::kMetadata, 1), Operation::kMetadataLock, lock.identity.load(kRelaxed), file, line, details);
}

// AddToClass without a call where the thread's cell is the first of its list and of the present generation.
PFS_ALWAYS_INLINE void AddToSingle(ThreadState& thread, uint32_t class_index, bool timed, uint64_t wait_ps) {
  const uint32_t first = g_runtime.classes[class_index].lanes[0].head.load(kAcquire);
  ShmCell& cell = g_runtime.cells[first];
  if (__builtin_expect(first != 0 && cell.owner.load(kRelaxed) == thread.slot && cell.gen.load(kRelaxed) == Generation(ClassDomain(ResetGroup::kSync)), 1)) {
    return AddOne(cell.seq, cell.stat, timed, wait_ps);
  }
  AddToClass(thread, class_index, 0, timed, wait_ps, 0, 1);
}

template <Mode kMode>
PFS_ALWAYS_INLINE void EndWithoutObject(const Wait& call) {
  const Wait wait = call;  // in registers: the compiler need not read it again after each store
  const EndedWait ended = EndWait<kMode>(wait);
  const uint64_t nesting = CloseRecord<kMode == Mode::kTimed ? kMode : Mode::kAny, true>(wait, ended);
  const uint64_t wait_ps = ended.timed ? DurationOf<kMode>(wait, ended) : 0;
  AddToSingle(*wait.thread, wait.class_index, ended.timed, wait_ps);
  AddToThreadCell(ThreadCell<kMode>(wait), ended.timed, wait_ps);
  LeaveProbe(*wait.thread, nesting);
}

[[gnu::noinline]] bool BeginAny(Wait& wait, const ShmMetadataLock& lock, uint32_t flags, const char* file, uint32_t line) {
  if (IsTimedOnly(flags)) return BeginMetadataWait<Mode::kTimed>(wait, lock, flags, file, line);
  return (flags & kFlagEnabled) != 0 && BeginMetadataWait<Mode::kAny>(wait, lock, flags, file, line);
}
[[gnu::noinline]] void EndAny(const Wait& wait) {
  IsTimedOnly(wait.flags) ? EndWithoutObject<Mode::kTimed>(wait) : EndWithoutObject<Mode::kAny>(wait);
}

}  // namespace

bool BeginMetadataWait(Wait& wait, const ShmMetadataLock& lock, const char* file, uint32_t line) {
  const uint32_t flags = lock.flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return BeginAny(wait, lock, flags, file, line);
  return BeginMetadataWait<Mode::kAllOn>(wait, lock, flags, file, line);
}

bool BeginIdle(Wait& wait, const char* file, uint32_t line) {
  const uint32_t class_index = ClassOf(Family::kIdle);
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  WaitDetails details;
  details.has_parent = false;
  details.outlives_call = true;
  return BeginWait<Mode::kAny, true>(wait, flags, class_index, Operation::kIdle, 0, file, line, details);
}

void EndObjectlessWait(const Wait& wait) {
  if (__builtin_expect(!IsAllOn(wait.flags), 0)) return EndAny(wait);
  EndWithoutObject<Mode::kAllOn>(wait);
}

}  // namespace perfschema
