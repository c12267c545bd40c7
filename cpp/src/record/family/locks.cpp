#include "record/family/lock_events.h"
#include "shm/limits.h"

namespace perfschema {

// The slow paths are functions of their own: the common ones then save no registers for them.
pfs_instance* CreateSlowly(Family family, uint32_t class_index, const void* identity) {
  const int error = errno;
  ShmInstance* object = MakeFromAnyFreeSlot(class_index, identity);
  if (object != nullptr) return reinterpret_cast<pfs_instance*>(object);
  if (ColdLock lock; lock) object = MakeInstance(class_index, identity);
  if (object == nullptr) CountLoss(LimitsOf(family).instances_lost);
  errno = error;
  return reinterpret_cast<pfs_instance*>(object);
}

void DestroySlowly(ShmInstance& object) {
  const int error = errno;
  if (ColdLock lock; lock) {
    object.flags.store(kFlagDead, kRelaxed);
    const auto is_hidden = [](void*) {};  // by its flags; totals have it until its numbers are moved
    const uint64_t key = CellKey(CellKind::kInstance, IndexOf(object), VersionOf(object), 0);
    RetireObject(object.class_index.load(kRelaxed), key, {&g_runtime.instance_lists[IndexOf(object)].cells, 1}, &object, is_hidden,
                 &object);
    KeepRetiredSlot(object);
  }
  errno = error;
}

pfs_instance* CreateInstance(Family family, uint32_t key, const void* identity) {
  const uint32_t class_index = ClassOfKey(family, key);
  if (class_index == 0) return nullptr;
  ShmInstance* const object = MakeFromFreeSlot(class_index, identity);
  return __builtin_expect(object != nullptr, 1) ? reinterpret_cast<pfs_instance*>(object) : CreateSlowly(family, class_index, identity);
}

void DestroyInstance(pfs_instance* instance) {
  if (instance == nullptr) return;
  if (__builtin_expect(!KeepFreeSlot(*AsInstance(instance)), 0)) DestroySlowly(*AsInstance(instance));
}

ShmCell* FindSharedCell(ThreadState& thread, ShmInstance& object) {
  ShmCell*& known = SharedCellOf(thread, object);
  if (IsSharedCell(*known, thread, object)) return known;
  const uint32_t index = IndexOf(object);
  ShmInstanceList& rest = g_runtime.instance_lists[index];
  ShmCell* cell = FindCellAtHead(thread, CellKind::kInstance, index, rest.version, 0, rest.cells);
  if (cell != nullptr) known = cell;
  return cell;
}

namespace {
// Does what a long wait needs besides counting: keeps its call site if it is the longest for its class, and watches the sum of its thread.
void NoteLongWait(const Wait& wait, uint64_t wait_ps, ShmCell* cell) {
  if (cell != nullptr) WatchSum(cell->seq, cell->stat);  // threads wait here for months
  const ShmWaitRecord* const record = wait.record;
  if (record == nullptr || record->state.load(kRelaxed) >> 32 != wait.begun_state >> 32) return;  // its chunk was taken away
  const uint64_t mine = LongestWait(wait_ps, Generation(ObjectDomain(ResetGroup::kSync)), record->what.load(kRelaxed) >> 32);
  Word& longest = g_runtime.classes[wait.class_index].longest_wait;
  uint64_t known = longest.load(kRelaxed);
  const auto replaces = [&] { return mine >> 32 > known >> 32 || static_cast<uint16_t>((mine ^ known) >> 16) != 0; };
  while (replaces() && !longest.compare_exchange_weak(known, mine, kRelease, kRelaxed)) continue;  // pairs with SourceOfLongest
}
}  // namespace

void AddLockApart(const Wait& wait, ShmInstance& object, Hold hold, bool timed, uint64_t wait_ps, ShmCell* cell) {
  ThreadState& thread = *wait.thread;
  const bool is_long = timed && wait_ps >= kLongWait;
  if (__builtin_expect(is_long, 0)) NoteLongWait(wait, wait_ps, cell);
  if (hold == Hold::kExclusive && !IsUnsampled(timed, wait_ps)) {
    if (is_long) WatchSum(object.seq, object.stat);
    const CellWriter writer(object.seq);
    StartGeneration(object.gen, Generation(ObjectDomain(ResetGroup::kSync)), [&] { ClearStat(object.stat); });
    AddToStat(object.stat, timed, wait_ps);
  } else {
    if (ShmCell* shared = FindSharedCell(thread, object); shared != nullptr) {
      if (is_long) WatchSum(shared->seq, shared->stat);
      AddToCell(*shared, Generation(ObjectDomain(ResetGroup::kSync)), timed, wait_ps);
      if (hold == Hold::kShared) AddHeld(*shared);
    } else {
      AddToClass(thread, object.class_index.load(kRelaxed), 0, timed, wait_ps, 0, 1);
    }
  }
  AddToThreadCell(cell, timed, wait_ps);
}

int FinishSlowLock(ThreadState& thread, ShmWaitRecord& record, ShmInstance& object, Hold wanted, int rc, uint64_t end_ticks) {
  const Wait wait = SlowWait(thread, record);
  const EndedWait ended = EndedBy(wait, end_ticks);
  if (!IsHeld(rc, wanted)) CountFailedWait(wait, OperationIn(record.what.load(kRelaxed)), ended, rc);
  FinishLockWait(wait, ended, object, wanted, rc);
  return rc;
}

namespace {
int FinishWithoutRecord(ThreadState& thread, uint32_t flags, uint32_t class_index, ShmInstance& object, Hold wanted, int rc,
                        uint64_t ticks) {
  const Wait wait = UnrecordedWait(thread, flags, class_index);
  EnterProbe(thread);
  FinishLockWait(wait, UnrecordedEnded(ticks), object, wanted, rc);
  return rc;
}
}  // namespace

int FinishUnrecordedLock(ThreadState& thread, uint32_t class_index, ShmInstance& object, Operation operation, int rc, uint64_t ticks) {
  if (!IsHeld(rc, HoldAfter(operation))) CountCallWithoutEvent(class_index, operation, rc, nullptr, 0);
  return FinishWithoutRecord(thread, kAllOnFlags, class_index, object, HoldAfter(operation), rc, ticks);
}

int FinishUncontendedLock(ThreadState& thread, uint32_t flags, uint32_t class_index, ShmInstance& object, Hold wanted, int rc) {
  return FinishWithoutRecord(thread, flags, class_index, object, wanted, rc, 0);
}

int ReleaseSharedSlow(ShmInstance& object) {
  const ThreadState* const thread = AttachedThread();
  const uint32_t index = IndexOf(object);
  ShmCellList& list = g_runtime.instance_lists[index].cells;
  const auto let_go = [](ShmCell* cell) {
    const uint32_t held = cell == nullptr ? 0 : cell->held.load(kRelaxed);
    if (held != 0) cell->held.store(held - 1, kRelaxed);
    return held != 0 ? 1 : 0;
  };
  if (thread != nullptr) {
    // A handler that interrupts a probe was not counted when it took the lock.
    if (thread->inside()) return 0;
    return let_go(SearchCell(*thread, CellKey(CellKind::kInstance, index, VersionOf(object), 0), list));
  }
  // A destructor that runs after the thread has given its slot back: the lock is among those of ended threads.
  if (!t_locals.ended) return 0;
  const int error = errno;
  int counted = 0;
  if (const ColdLock lock; lock) {
    for (uint32_t at = HeadOf(list); at != 0 && counted == 0; at = g_runtime.cells[at].next.load(kRelaxed)) {
      if (SlotIsFree(g_runtime.cells[at].owner.load(kRelaxed))) counted = let_go(&g_runtime.cells[at]);
    }
  }
  errno = error;
  return counted;
}

void UndoRelease(ShmInstance& object) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr) return;
  const uint64_t nesting = thread->nesting;
  EnterProbe(*thread);
  if (ShmCell* cell = FindSharedCell(*thread, object); cell != nullptr) AddHeld(*cell);
  LeaveProbe(*thread, nesting);
}

void EndCondWait(const Wait& wait, const ShmInstance& object, uint32_t version) {
  const EndedWait ended = EndWait(wait);
  const uint64_t nesting = CloseRecord(wait, ended);
  ThreadState& thread = *wait.thread;
  const uint64_t wait_ps = DurationOf(wait, ended);
  const uint32_t index = IndexOf(object);
  const uint64_t key = CellKey(CellKind::kInstance, index, version, 0);
  ShmCellList& list = g_runtime.instance_lists[index].cells;
  const uint32_t gen = Generation(ObjectDomain(ResetGroup::kSync));
  // Finds the thread's cell, wherever it is: if the object dies now, the retired cell counts for the class, and this event with it.
  ShmCell* cell = CachedCell(thread, key);
  if (cell == nullptr || cell->gen.load(kRelaxed) != gen) {
    // Retired cells keep the generation in which the object died, and may not begin another.
    cell = FindCellSlow(thread, key, list, nullptr);
  }
  ShmCell* const own = ThreadCell(wait);
  const bool is_long = ended.timed && wait_ps >= kLongWait;
  if (is_long) NoteLongWait(wait, wait_ps, own);
  if (cell != nullptr) {
    if (is_long) WatchSum(cell->seq, cell->stat);
    AddToCell(*cell, gen, ended.timed, wait_ps);
  } else {
    AddToClass(thread, wait.class_index, 0, ended.timed, wait_ps, 0, 1);
  }
  AddToThreadCell(own, ended.timed, wait_ps);
  LeaveProbe(thread, nesting);
}

}  // namespace perfschema
