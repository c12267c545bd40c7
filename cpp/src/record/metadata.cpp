#include "record/metadata.h"

#include <cerrno>

#include "record/classes.h"
#include "record/names.h"
#include "record/slots.h"

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
    slot = TakeSlot(ArrayId::kMetadataLocks, g_runtime.metadata_locks, &ShmMetadataLock::identity);
    if (slot != 0) {
      ShmMetadataLock& row = g_runtime.metadata_locks[slot];
      const uint32_t granule = TakeName(ObjectName{schema, name, column}.view());
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
    GiveName(lock->name.load(kRelaxed));
    GiveSlot(ArrayId::kMetadataLocks, g_runtime.metadata_locks, &ShmMetadataLock::identity, static_cast<uint64_t>(lock - g_runtime.metadata_locks));
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

bool BeginMetadataWait(Wait& wait, ShmMetadataLock& lock, const char* file, uint32_t line) {
  const uint32_t flags = lock.flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  WaitDetails details;
  details.name = lock.name.load(kRelaxed);
  details.state_bits = details.name != 0 ? kRecordHasName | kRecordHasSchema : 0;
  details.name_version = lock.name_version.load(kRelaxed);
  details.type = static_cast<ObjectType>(lock.state.load(kRelaxed) & 0xff);
  if (!BeginWait<Mode::kAny, true>(wait, flags, ClassOfKey(Family::kMetadata, 1), Operation::kMetadataLock, lock.identity.load(kRelaxed), file, line,
                                   details)) {
    return false;
  }
  KeepUntilEnd(wait);
  return true;
}

bool BeginIdle(Wait& wait, const char* file, uint32_t line) {
  const uint32_t class_index = ClassOf(Family::kIdle);
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return false;
  WaitDetails details;
  details.has_parent = false;
  if (!BeginWait<Mode::kAny, true>(wait, flags, class_index, Operation::kIdle, 0, file, line, details)) return false;
  KeepUntilEnd(wait);
  return true;
}

void EndObjectlessWait(const Wait& wait) {
  const EndedWait ended = EndWait<Mode::kAny>(wait);
  const uint64_t nesting = CloseRecord<Mode::kAny, true>(wait, ended);
  const uint64_t wait_ps = DurationOf<Mode::kAny>(wait, ended);
  AddToClass(*wait.thread, wait.class_index, 0, ended.timed, wait_ps, 0, 1);
  AddToThreadCell(ThreadCell<Mode::kAny>(wait), ended.timed, wait_ps);
  LeaveProbe(*wait.thread, nesting);
}

}  // namespace perfschema
