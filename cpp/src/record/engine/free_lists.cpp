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
  ListOf(object).home.store(0, kRelaxed);
  object.class_index.store(0, kRelease);
  FreeSlot(ArrayId::kInstances, g_runtime.instances, &ShmInstance::identity, slot);
}

void GiveBackFrom(ShmFreeLists& free_lists, uint32_t place) {
  const uint32_t last = free_lists.count.load(kRelaxed) - 1;
  GiveBack(free_lists.slots[place].load(kRelaxed));
  for (uint32_t i = place; i < last; ++i) free_lists.slots[i].store(free_lists.slots[i + 1].load(kRelaxed), kRelaxed);
  free_lists.count.store(last, kRelaxed);
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
    BearObject(object, class_index, identity, true);
    return &object;
  }
  return nullptr;
}

// Makes space for one more slot in a full list that has few slots of the class: gives back one of another class, about the one that has
// waited longest. Otherwise slots of classes that the thread is done with would stay, and each new object would come under the cold lock.
// Returns false if the list stays full. REQUIRES: cold lock.
bool MakeSpaceFor(uint32_t class_index, ShmFreeLists& own) {
  const uint32_t count = own.count.load(kRelaxed);
  if (count < kMostCached) return true;
  uint32_t of_class = 0, oldest_other = count;
  for (uint32_t i = count; i-- > 0;) {
    const bool is_of_class = g_runtime.instances[own.slots[i].load(kRelaxed)].class_index.load(kRelaxed) == class_index;
    of_class += is_of_class ? 1 : 0;
    if (!is_of_class) oldest_other = i;
  }
  if (of_class >= kMostCached / 2) return false;
  GiveBackFrom(own, oldest_other);
  return true;
}

}  // namespace

ShmFreeLists* OwnFreeLists() {
  ThreadLocals& self = t_locals;
  if (self.free_lists != nullptr || self.ended) return self.free_lists;
  const uint64_t slot = AllocateSlot(ArrayId::kFreeLists, g_runtime.free_lists, &ShmFreeLists::next);
  if (slot == 0) return nullptr;
  HearOfThreadEnd();
  g_runtime.free_lists[slot].is_light.store(HasBarrier() ? 1 : 0, kRelaxed);
  return self.free_lists = &g_runtime.free_lists[slot];
}

ShmInstance* MakeFromAnyFreeSlot(uint32_t class_index, const void* identity) {
  ThreadLocals& self = t_locals;
  ShmFreeLists* const own = self.free_lists;
  if (own == nullptr || self.in_cold_lock) return nullptr;
  const OnLockFreePath on(self, *own);
  LightBarrier(*own);
  return OnLockFreePath::IsClosed() ? nullptr : TakeFreeSlot(*own, class_index, identity);
}

ShmInstance* MakeInstance(uint32_t class_index, const void* identity) {
  if (ShmFreeLists* const own = t_locals.free_lists; own != nullptr) {
    const uint32_t count = own->count.load(kRelaxed);
    for (uint32_t i = 0; i < count; ++i) Settle(g_runtime.instances[own->slots[i].load(kRelaxed)]);
    // A thread with fewer slots gets an additional one, so that it comes here less often.
    if (!MakeSpaceFor(class_index, *own)) {
      if (ShmInstance* const object = TakeFreeSlot(*own, class_index, identity); object != nullptr) return object;
    }
  }
  ShmInstance* object = AllocateFreeInstance(class_index);
  if (object == nullptr && TakeFreeSlotsBack()) object = AllocateFreeInstance(class_index);
  if (object == nullptr) return nullptr;
  ++ObjectsLike(class_index);
  BearObject(*object, class_index, identity, false);
  return object;
}

void KeepRetiredSlot(ShmInstance& object) {
  ShmFreeLists* const own = OwnFreeLists();
  if (own == nullptr) return GiveBack(IndexOf(object));
  if (own->count.load(kRelaxed) == kMostCached) GiveBackFrom(*own, 0);  // the slot that has waited longest
  const uint32_t count = own->count.load(kRelaxed);
  if (HalfWord& home = ListOf(object).home; home.load(kRelaxed) != kTravels) home.store(HomeOf(*own), kRelaxed);
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
  HalfWord& home = ListOf(object).home;
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
