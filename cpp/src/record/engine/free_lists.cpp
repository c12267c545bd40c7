#include "record/engine/free_lists.h"

#include <algorithm>

#include "record/engine/barrier.h"
#include "record/engine/cold_lock.h"
#include "record/engine/slots.h"
#include "record/family/locks.h"
#include "record/probe/cells.h"
#include "shm/limits.h"

namespace perfschema {
namespace {

// Live objects and free slots, by the option that limits them. Guarded by the cold lock.
uint64_t objects_of[kOptionCount];

OptionId LimitOf(uint32_t class_index) { return LimitsOf(static_cast<Family>(g_runtime.classes[class_index].family)).instances; }
uint64_t& ObjectsLike(uint32_t class_index) { return objects_of[static_cast<uint32_t>(LimitOf(class_index))]; }

// Marks the calling thread as being on the lock-free path. Threads: owner thread.
class OnLockFreePath {
 public:
  explicit OnLockFreePath(ShmFreeLists& own) : own_(own) {
    t_locals.in_cold_lock.EnterLockFreePath();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own.is_busy.store(1, kRelaxed);
  }
  ~OnLockFreePath() {
    own_.is_busy.store(0, kRelease);  // pairs with AwaitLockFreePath
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_locals.in_cold_lock = false;
  }
  OnLockFreePath(const OnLockFreePath&) = delete;
  OnLockFreePath& operator=(const OnLockFreePath&) = delete;
  // REQUIRES: LightBarrier() after the construction. Pairs with CloseLockFreePath and OutsiderSection.
  static bool IsClosed() { return (g_runtime.header->cold_holder.load(kAcquire) & kLockFreePathClosed) != 0; }

 private:
  ShmFreeLists& own_;
};

// `has_class`: the slot is from a free list of a thread, and keeps its class.
PFS_ALWAYS_INLINE void Bear(ShmInstance& object, uint32_t slot, uint32_t class_index, const void* identity, bool has_class) {
  HalfWord& version = g_runtime.instance_lists[slot].version;
  version.store(version.load(kRelaxed) + 1, kRelaxed);
  object.owner.store(0, kRelease);
  object.identity.store(reinterpret_cast<uintptr_t>(identity), kRelease);
  if (!has_class) object.class_index.store(class_index, kRelease);
  object.flags.store(g_runtime.classes[class_index].flags.load(),
                     kRelease);  // last: not kFlagDead, so live from here on; pairs with Snapshot
}

// Moves the numbers of the slot's last object to the class. REQUIRES: cold lock; no object has the slot.
void Settle(ShmInstance& object) {
  if (IsEmpty(object.stat)) return;
  RetireObject(
      object.class_index.load(kRelaxed), 0, {}, &object, [](void*) {}, &object);
}

// REQUIRES: cold lock.
void GiveBack(uint32_t slot) {
  ShmInstance& object = g_runtime.instances[slot];
  const uint32_t class_index = object.class_index.load(kRelaxed);
  if (class_index == 0) return;
  Settle(object);
  --ObjectsLike(class_index);
  g_runtime.instance_lists[slot].home.store(0, kRelaxed);
  object.class_index.store(0, kRelease);
  FreeSlot(ArrayId::kInstances, g_runtime.instances, &ShmInstance::identity, slot);
}

void GiveAllBack(ShmFreeLists& free_lists) {
  const uint32_t count = std::min<uint32_t>(free_lists.count.load(kRelaxed), kMostCached);
  for (uint32_t i = 0; i < count; ++i) GiveBack(free_lists.slots[i].load(kRelaxed));
  free_lists.count.store(0, kRelaxed);
}

// Takes the free slots of all threads back. Returns true if there were any. REQUIRES: cold lock.
bool TakeFreeSlotsBack() {
  bool were_some = false;
  CloseLockFreePath();
  const uint64_t used = g_runtime.segment.array(ArrayId::kFreeLists).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmFreeLists& free_lists = g_runtime.free_lists[i];
    if (free_lists.is_busy.load(kRelaxed) != 0) continue;  // its thread is stuck on the lock-free path
    were_some |= free_lists.count.load(kRelaxed) != 0;
    GiveAllBack(free_lists);
  }
  OpenLockFreePath();
  return were_some;
}

ShmInstance* AllocateFreeInstance(uint32_t class_index) {
  if (ObjectsLike(class_index) >= static_cast<uint64_t>(StartOptionsLocked().Get(LimitOf(class_index)))) return nullptr;
  if (!g_runtime.segment.ReserveUpTo(ArrayId::kInstanceLists, g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed) + 1)) {
    if (g_runtime.segment.array(ArrayId::kInstances).free_head.load(kRelaxed) == 0) return nullptr;
  }
  const uint64_t slot = AllocateSlot(ArrayId::kInstances, g_runtime.instances, &ShmInstance::identity);
  return slot == 0 ? nullptr : &g_runtime.instances[slot];
}

// Returns the thread's free list. nullptr: the thread has ended, or the array is full. REQUIRES: cold lock.
ShmFreeLists* OwnFreeLists() {
  ThreadLocals& self = t_locals;
  if (self.free_lists != nullptr || self.ended) return self.free_lists;
  const uint64_t slot = AllocateSlot(ArrayId::kFreeLists, g_runtime.free_lists, &ShmFreeLists::next);
  if (slot == 0) return nullptr;
  HearOfThreadEnd();
  g_runtime.free_lists[slot].is_light.store(HasBarrier() ? 1 : 0, kRelaxed);
  return self.free_lists = &g_runtime.free_lists[slot];
}

#if defined(PFS_BREAK_FREE_LISTS)  // negative control of the churn test: the check removed
PFS_ALWAYS_INLINE bool IsUsable(const ShmInstance& object, uint32_t class_index) {
  return object.class_index.load(kRelaxed) == class_index;
}
#else
PFS_ALWAYS_INLINE bool IsUsable(const ShmInstance& object, uint32_t class_index) {
  return object.class_index.load(kRelaxed) == class_index && IsEmpty(object.stat);
}
#endif

// Makes an object from a free slot that has no numbers. REQUIRES: lock-free path, or cold lock.
ShmInstance* TakeFreeSlot(ShmFreeLists& own, uint32_t class_index, const void* identity) {
  const uint32_t count = own.count.load(kRelaxed);
  for (uint32_t i = count; i > 0; --i) {
    const uint32_t slot = own.slots[i - 1].load(kRelaxed);
    ShmInstance& object = g_runtime.instances[slot];
    if (!IsUsable(object, class_index)) continue;
    const uint32_t last = own.slots[count - 1].load(kRelaxed);
    own.count.store(count - 1, kRelease);  // first: a handler that does not return must leave no slot in two places
    own.slots[i - 1].store(last, kRelaxed);
    Bear(object, slot, class_index, identity, true);
    return &object;
  }
  return nullptr;
}

}  // namespace

ShmInstance* MakeFromFreeSlot(uint32_t class_index, const void* identity) {
  ShmFreeLists* const own = t_locals.free_lists;
  if (own == nullptr || t_locals.in_cold_lock || own->count.load(kRelaxed) == 0) return nullptr;
  const OnLockFreePath on(*own);
  LightBarrier(*own);
  if (__builtin_expect(OnLockFreePath::IsClosed(), 0)) return nullptr;
  // Most often the last slot is that of such an object.
  const uint32_t last = own->count.load(kRelaxed) - 1;
  if (__builtin_expect(last >= kMostCached, 0)) return nullptr;
  const uint32_t slot = own->slots[last].load(kRelaxed);
  ShmInstance& object = g_runtime.instances[slot];
  if (__builtin_expect(!IsUsable(object, class_index), 0)) return TakeFreeSlot(*own, class_index, identity);
  own->count.store(last, kRelease);
  Bear(object, slot, class_index, identity, true);
  return &object;
}

bool KeepFreeSlot(ShmInstance& object) {
  ShmFreeLists* const own = t_locals.free_lists;
  if (own == nullptr || t_locals.in_cold_lock) return false;
  const OnLockFreePath on(*own);
  uint32_t flags = object.flags.load(kRelaxed);
  if ((flags & (kFlagShared | kFlagDead)) != 0) return false;
  const uint32_t slot = IndexOf(object);
  HalfWord& home = g_runtime.instance_lists[slot].home;
  const uint32_t mine = HomeOf(*own);
  // From here on the object is hidden, and no cell is made for it, also if it is destroyed under the cold lock after
  // all.
  if (__builtin_expect(home.load(kRelaxed) == mine, 1)) {
    object.flags.store(flags | kFlagDead, kRelease);
    LightBarrier(*own);
    if (__builtin_expect(home.load(kRelaxed) != mine, 0)) return false;  // pairs with BeginSharing
  } else {
    if (!object.flags.compare_exchange_strong(flags, flags | kFlagDead)) return false;  // pairs with BeginSharing
    LightBarrier(*own);
    if (home.load(kRelaxed) != kTravels) home.store(mine, kRelaxed);
  }
  const uint32_t count = own->count.load(kRelaxed);
  if (OnLockFreePath::IsClosed() || count >= kMostCached) return false;
  own->slots[count].store(slot, kRelaxed);
  own->count.store(count + 1, kRelaxed);
  return true;
}

ShmInstance* MakeInstance(uint32_t class_index, const void* identity) {
  if (ShmFreeLists* const own = t_locals.free_lists; own != nullptr) {
    const uint32_t count = own->count.load(kRelaxed);
    for (uint32_t i = 0; i < count; ++i) Settle(g_runtime.instances[own->slots[i].load(kRelaxed)]);
    // A thread with fewer slots gets an additional one, so that it comes here less often.
    if (ShmInstance* const object = count == kMostCached ? TakeFreeSlot(*own, class_index, identity) : nullptr; object != nullptr)
      return object;
  }
  ShmInstance* object = AllocateFreeInstance(class_index);
  if (object == nullptr && TakeFreeSlotsBack()) object = AllocateFreeInstance(class_index);
  if (object == nullptr) return nullptr;
  ++ObjectsLike(class_index);
  Bear(*object, IndexOf(*object), class_index, identity, false);
  return object;
}

void KeepRetiredSlot(ShmInstance& object, uint32_t class_index) {
  object.class_index.store(class_index, kRelease);
  ShmFreeLists* const own = OwnFreeLists();
  if (own == nullptr) return GiveBack(IndexOf(object));
  uint32_t count = own->count.load(kRelaxed);
  if (count == kMostCached) {  // the slot that has waited longest goes
    GiveBack(own->slots[0].load(kRelaxed));
    --count;
    for (uint32_t i = 0; i < count; ++i) own->slots[i].store(own->slots[i + 1].load(kRelaxed), kRelaxed);
  }
  if (HalfWord& home = g_runtime.instance_lists[IndexOf(object)].home; home.load(kRelaxed) != kTravels) home.store(HomeOf(*own), kRelaxed);
  own->slots[count].store(IndexOf(object), kRelaxed);
  own->count.store(count + 1, kRelaxed);
}

bool AnyListIsLight() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kFreeLists).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (g_runtime.free_lists[i].is_light.load(kRelaxed) != 0) return true;
  }
  return false;
}

bool BeginSharing(ShmInstance& object) {
  HalfWord& home = g_runtime.instance_lists[IndexOf(object)].home;
  const uint32_t at = home.load(kRelaxed);
  if (at != 0 && at != kTravels && (t_locals.free_lists == nullptr || at != HomeOf(*t_locals.free_lists))) {
    home.store(kTravels, kRelaxed);
    BarrierInAllThreads();
  }
  return (object.flags.fetch_or(kFlagShared) & kFlagDead) == 0;
}

void SettleFreeSlots() {
  CloseLockFreePath();
  AwaitLockFreePath();  // an outsider's critical section has closed it
  const uint64_t used = g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed);
  const uint64_t classes = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmInstance& object = g_runtime.instances[i];
    const uint32_t class_index = object.class_index.load(kRelaxed);
    if ((object.flags.load(kRelaxed) & kFlagDead) != 0 && class_index != 0 && class_index < classes) Settle(object);
  }
}

void RepairFreeLists() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmInstance& object = g_runtime.instances[i];
    if ((object.flags.load(kRelaxed) & kFlagDead) == 0) continue;
    EndWriting(object.seq);
    const uint32_t dead = g_runtime.classes[object.class_index.load(kRelaxed)].dead.load(kRelaxed);
    if (dead != 0) EndWriting(g_runtime.cells[dead].seq);
  }
}

void LeaveLockFreePath() {
  ThreadLocals& self = t_locals;
  if (self.free_lists != nullptr) self.free_lists->is_busy.store(0, kRelease);  // pairs with AwaitLockFreePath
  self.in_cold_lock = false;
}

void ReturnFreeSlots() {
  ThreadLocals& self = t_locals;
  if (self.free_lists == nullptr) return;
  GiveAllBack(*self.free_lists);
  FreeSlot(ArrayId::kFreeLists, g_runtime.free_lists, &ShmFreeLists::next, static_cast<uint64_t>(self.free_lists - g_runtime.free_lists));
  self.free_lists = nullptr;
}

void ForgetFreeListsInChild(bool was_locked) {
  ContinueBarriersInChild();
  ShmArray& array = g_runtime.segment.array(ArrayId::kFreeLists);
  array.free_head.store(0, kRelaxed);
  const uint64_t used = array.used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmFreeLists& free_lists = g_runtime.free_lists[i];
    // A handler that forks on the slow path may have found a list half changed: its slots are left alone.
    if (was_locked) GiveAllBack(free_lists);
    free_lists.count.store(0, kRelaxed);
    free_lists.is_busy.store(0, kRelaxed);
    free_lists.is_light.store(0, kRelaxed);
    FreeSlot(ArrayId::kFreeLists, g_runtime.free_lists, &ShmFreeLists::next, i);
  }
  if (!was_locked) return;
  // Threads that were about to destroy an object do not exist here: the object lives on.
  const uint64_t instances = g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < instances; ++i) g_runtime.instances[i].flags.fetch_and(~kFlagDead, kRelaxed);
}

}  // namespace perfschema
