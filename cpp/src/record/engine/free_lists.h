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
// object is refused only if so many live.
//
// These mechanisms replace the cold lock:
//   fork, taking slots back        CloseLockFreePath(): waits until no thread is on the path; later threads wait for the cold lock
//   an outsider                    closes the path during its critical section
//   TRUNCATE of objects            SettleFreeSlots()
//   setup                          AwaitLockFreePath(): a thread that read old flags has published its object before the flags change
//   a cell for a dying object      `flags` decides: kFlagShared is set before a cell is made, kFlagDead only if that is not set
//   signal handlers                in_cold_lock: they do without. If a handler leaves the path with a longjmp, the thread's next entry
//                                  into the slow path finds the stack address in in_cold_lock below it, and drops the slot in transit
// Threads: any.
#pragma once

#include "record/engine/runtime.h"

namespace perfschema {

// What `home` of a slot holds if this list's thread may destroy its object with plain stores.
inline uint32_t HomeOf(const ShmFreeLists& own) { return static_cast<uint32_t>(&own - g_runtime.free_lists); }
// Returns whether the list of any thread relies on BarrierInAllThreads().
bool AnyListIsLight();

// Marks an instance: the calling thread is about to make a cell for it. Returns false if it is dying, or dead: then no cell may be made.
// REQUIRES: cold lock.
bool BeginSharing(ShmInstance& object);

// Makes an object of the class from the thread's free list. Returns nullptr if that has no usable slot of the class.
ShmInstance* MakeFromFreeSlot(uint32_t class_index, const void* identity);
// Puts the object's slot on the thread's free list. Returns false if the object must be destroyed under the cold
// lock.
bool KeepFreeSlot(ShmInstance& object);

// All functions below REQUIRE the cold lock.

// Makes an object. Returns nullptr if the limit of live objects is reached, or there is no memory.
ShmInstance* MakeInstance(uint32_t class_index, const void* identity);
// Puts the slot of a retired object on the thread's free list.
void KeepRetiredSlot(ShmInstance& object, uint32_t class_index);

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
