// record/engine/free_lists.h: the states of an object's slot, and the lock-free path that creates and destroys objects without the cold
// lock.
//
//   free ---> live ---> dead, with numbers ---> dead, settled ---> live: the next object of the same class
//    ^          |                                 ^       |
//    |          +-- destroyed under the cold lock +       |
//    +--------------- given back under the cold lock -----+
//
//   free                 class_index is 0; the slot is in the free list of its array
//   live                 `flags` is that of the class, without kFlagDead; each new object has the next version
//   dead, with numbers   kFlagDead; the slot is in its thread's free list and still counts what its last object did
//   dead, settled        the same, but the numbers have moved to the class; an object that never had any begins here
//
// A slot is given back when its thread ends, when the thread's list is full, or when live objects and free slots reach their limit.
//
// A destroyed object leaves its slot in its thread's free list. The thread makes its next object of that instrument
// from it: it searches no list and moves no numbers. The slot keeps its class and its numbers meanwhile, under
// kFlagDead. Totals add up slots by class, so they do not change. A slot with numbers is not used again before they
// have moved to the class. A thread without another free slot takes the cold lock and moves the numbers of all its
// free slots. Free slots count for performance_schema_max_*_instances, and are taken back when that is reached: an
// object is refused only if this many live.
//
// The path has no locked instruction either. Who closes it, or makes a cell for an object that another thread may destroy, executes the
// barrier for all threads (record/engine/barrier.h). `home` of a slot says which thread destroys with plain stores: the one whose free list
// had it last. Another thread that makes a cell for the object takes that away first. From then on the slot's objects are destroyed with a
// compare-exchange: there is at most one such barrier in a slot's time in the free lists, however many objects it has.
//
// These mechanisms replace the cold lock:
//   fork, taking slots back        CloseLockFreePath(): waits until no thread is on the path; later threads wait for the cold lock
//   an outsider                    closes the path during its critical section
//   TRUNCATE of objects            SettleFreeSlots()
//   setup                          AwaitLockFreePath(): a thread that read old flags has published its object before the flags change
//   a cell for a dying object      BeginSharing(): sees kFlagDead, and no cell is made; or KeepFreeSlot() sees that home is another, or
//                                  kFlagShared, and the object dies under the cold lock
//   signal handlers                in_cold_lock: they do without. If a handler leaves the path with a longjmp, the thread's next entry
//                                  into the slow path finds the stack address in in_cold_lock below it, and drops the slot in transit
// Threads: any.
#pragma once

#include "record/engine/barrier.h"
#include "record/engine/runtime.h"

namespace perfschema {

// What `home` of a slot holds if this list's thread destroys its object with plain stores. Means nothing to another process.
inline uint32_t HomeOf(const ShmFreeLists& own) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&own)); }

// Marks the calling thread as being on the lock-free path. Threads: owner thread.
class OnLockFreePath {
 public:
  PFS_ALWAYS_INLINE OnLockFreePath(ThreadLocals& self, ShmFreeLists& own) : self_(self), own_(own) {
    self.in_cold_lock.EnterLockFreePath();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own.is_busy.store(1, kRelaxed);
  }
  PFS_ALWAYS_INLINE ~OnLockFreePath() {
    own_.is_busy.store(0, kRelease);  // pairs with AwaitLockFreePath
    std::atomic_signal_fence(std::memory_order_seq_cst);
    self_.in_cold_lock = false;
  }
  OnLockFreePath(const OnLockFreePath&) = delete;
  OnLockFreePath& operator=(const OnLockFreePath&) = delete;
  // REQUIRES: LightBarrier() after the construction. Pairs with CloseLockFreePath and OutsiderSection.
  static bool IsClosed() { return (g_runtime.header->cold_holder.load(kAcquire) & kLockFreePathClosed) != 0; }

 private:
  ThreadLocals& self_;
  ShmFreeLists& own_;
};

// `has_class`: the slot is from a free list of a thread, and keeps its class. REQUIRES: lock-free path, or cold lock.
PFS_ALWAYS_INLINE void BearObject(ShmInstance& object, uint32_t class_index, const void* identity, bool has_class) {
  HalfWord& version = ListOf(object).version;
  version.store(version.load(kRelaxed) + 1, kRelaxed);
  object.owner.store(0, kRelease);
  object.identity.store(reinterpret_cast<uintptr_t>(identity), kRelease);
  if (!has_class) object.class_index.store(class_index, kRelease);
  object.flags.store(g_runtime.classes[class_index].flags.load(),
                     kRelease);  // last: not kFlagDead, so live from here on; pairs with Snapshot
}

// Makes an object of the class from the slot that the thread's free list got last. Returns nullptr if that is of another class, or has
// numbers.
PFS_ALWAYS_INLINE ShmInstance* MakeFromFreeSlot(uint32_t class_index, const void* identity) {
  ThreadLocals& self = t_locals;
  ShmFreeLists* const own = self.free_lists;
  if (__builtin_expect(own == nullptr || self.in_cold_lock, 0)) return nullptr;
  const OnLockFreePath on(self, *own);
  LightBarrier(*own);
  if (__builtin_expect(OnLockFreePath::IsClosed(), 0)) return nullptr;
  const uint32_t last = own->count.load(kRelaxed) - 1;
  if (__builtin_expect(last >= kMostCached, 0)) return nullptr;
  ShmInstance& object = g_runtime.instances[own->slots[last].load(kRelaxed)];
  if (__builtin_expect(object.class_index.load(kRelaxed) != class_index || !IsEmpty(object.stat), 0)) return nullptr;
  own->count.store(last, kRelease);
  BearObject(object, class_index, identity, true);
  return &object;
}

// Does the same from any slot of the list. Returns nullptr if it has no usable slot of the class.
ShmInstance* MakeFromAnyFreeSlot(uint32_t class_index, const void* identity);

// Puts the object's slot on the thread's free list. Returns false if the object must be destroyed under the cold
// lock.
PFS_ALWAYS_INLINE bool KeepFreeSlot(ShmInstance& object) {
  ThreadLocals& self = t_locals;
  ShmFreeLists* const own = self.free_lists;
  if (__builtin_expect(own == nullptr || self.in_cold_lock, 0)) return false;
  const OnLockFreePath on(self, *own);
  uint32_t flags = object.flags.load(kRelaxed);
  if (__builtin_expect((flags & (kFlagShared | kFlagDead)) != 0, 0)) return false;
  HalfWord& home = ListOf(object).home;
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
  if (__builtin_expect(OnLockFreePath::IsClosed() || count >= kMostCached, 0)) return false;
  own->slots[count].store(static_cast<uint32_t>(&object - g_runtime.instances), kRelaxed);
  own->count.store(count + 1, kRelaxed);
  return true;
}

// All functions below REQUIRE the cold lock.

// Returns whether the list of any thread relies on BarrierInAllThreads().
bool AnyListIsLight();

// Marks an instance: the calling thread is about to make a cell for it. Returns false if it is dying, or dead: then no cell may be made.
bool BeginSharing(ShmInstance& object);

// Returns the thread's free list, which lets it use the lock-free path. nullptr: the thread has ended, or the array is full.
ShmFreeLists* OwnFreeLists();
// Makes an object. Returns nullptr if the limit of live objects is reached, or there is no memory.
ShmInstance* MakeInstance(uint32_t class_index, const void* identity);
// Puts the slot of a retired object on the thread's free list.
void KeepRetiredSlot(ShmInstance& object);

// Takes the calling thread off the lock-free path, after a cancellation or a longjmp left it there. Needs no lock.
void LeaveLockFreePath();
// Moves the numbers of all free slots to their classes, and closes the lock-free path until the cold lock is
// released. A TRUNCATE of objects needs this first: numbers of dead objects belong to the class.
void SettleFreeSlots();
// Makes slots readable again that an outsider was storing to when it died.
void RepairFreeLists();
// Returns the free slots of a thread that ends.
void ReturnFreeSlots();
// Resets the free lists in a forked child. `was_locked`: the parent had closed the lock-free path.
void ForgetFreeListsInChild(bool was_locked);

}  // namespace perfschema
