#include "record/mutexes.h"

#include "record/classes.h"

namespace perfschema {

pfs_instance* CreateMutex(uint32_t key, const void* identity) {
  const uint32_t class_index = ClassOfKey(Family::kMutex, key);
  if (class_index == 0) return nullptr;
  const int error = errno;
  ShmInstance* mutex = nullptr;
  if (ColdLock lock; lock) {
    Segment& segment = g_runtime.segment;
    ShmArray& array = segment.array(ArrayId::kMutexes);
    uint64_t index = array.free_head.load(kRelaxed);
    if (index != 0) {
      mutex = segment.element<ShmInstance>(ArrayId::kMutexes, index);
      array.free_head.store(mutex->identity.load(kRelaxed), kRelaxed);
    } else if (segment.ReserveUpTo(ArrayId::kMutexLists, array.used.load(kRelaxed) + 1)) {
      if (const int64_t fresh = segment.TakeFresh(ArrayId::kMutexes); fresh >= 0) {
        mutex = segment.element<ShmInstance>(ArrayId::kMutexes, static_cast<uint64_t>(fresh));
      }
    }
    if (mutex != nullptr) {
      mutex->version.fetch_add(1, kRelaxed);
      mutex->owner.store(0, kRelaxed);
      mutex->identity.store(reinterpret_cast<uintptr_t>(identity), kRelaxed);
      mutex->flags.store(g_runtime.classes[class_index].flags.load(kRelaxed), kRelaxed);
      mutex->class_index.store(static_cast<uint16_t>(class_index), kRelease);  // last: live from here on
    }
  }
  if (mutex == nullptr) CountLoss(Loss::kMutexInstances);
  errno = error;
  return reinterpret_cast<pfs_instance*>(mutex);
}

void DestroyMutex(pfs_instance* instance) {
  if (instance == nullptr) return;
  const int error = errno;
  if (ColdLock lock; lock) {
    ShmInstance& mutex = *AsMutex(instance);
    ShmArray& array = g_runtime.segment.array(ArrayId::kMutexes);
    const auto index = static_cast<uint64_t>(&mutex - g_runtime.segment.element<ShmInstance>(ArrayId::kMutexes, 0));
    mutex.flags.store(0, kRelaxed);
    const uint32_t class_index = mutex.class_index.load(kRelaxed);
    const auto hide = [](void* object) { static_cast<ShmInstance*>(object)->class_index.store(0, kRelease); };
    BuryObject(class_index, g_runtime.segment.element<ShmStripeList>(ArrayId::kMutexLists, index)->head, &mutex, hide, &mutex);
    mutex.identity.store(array.free_head.load(kRelaxed), kRelaxed);
    array.free_head.store(index, kRelaxed);
  }
  errno = error;
}

const uint32_t* FlagsOfMutex(const pfs_instance* instance) {
  const uint32_t class_index = reinterpret_cast<const ShmInstance*>(instance)->class_index.load(kRelaxed);
  return reinterpret_cast<const uint32_t*>(&g_runtime.classes[class_index].flags);
}

void AddLockApart(ThreadState& thread, ShmInstance& mutex, bool is_held, bool timed, uint64_t wait_ps, ShmCell* cell) {
  if (is_held) {
    const CellWriter writer(mutex.seq);
    if (StartsGeneration(mutex.gen, Generation(ResetDomain::kMutexInstances))) ClearStat(mutex.stat);
    AddToStat(mutex.stat, timed, wait_ps);
  } else {
    const auto index = static_cast<uint32_t>(&mutex - g_runtime.segment.element<ShmInstance>(ArrayId::kMutexes, 0));
    HalfWord& list = g_runtime.segment.element<ShmStripeList>(ArrayId::kMutexLists, index)->head;
    const uint64_t object = StripeObject(StripeKind::kMutex, index, mutex.version.load(kRelaxed));
    if (ShmStripe* stripe = FindStripe(thread, object, list)) {
      AddToStripe(*stripe, Generation(ResetDomain::kMutexInstances), OperationGroup::kMisc, timed, wait_ps, 0);
    }
  }
  AddToThreadCell(cell, timed, wait_ps);
}

}  // namespace perfschema
