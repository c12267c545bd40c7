// record/engine/free_lists.h: the short way: objects that are made and destroyed often do so without the cold lock.
//
// A dead object leaves its slot to its thread, which makes its next object of that instrument from it: no list is searched and nothing moves.
// The slot keeps its class meanwhile, under kFlagDead, and its numbers, so that for totals, which add up slots by class, nothing happens at all. A slot with
// numbers is not used again before they have moved to the class: when the thread has no other spare, takes the cold lock, and moves those of all its spares. Spares count for
// performance_schema_max_*_instances, and are taken back when that is reached: an object is refused only if so many live.
//
// What the cold lock is for elsewhere:
//   fork, and taking spares back   CloseLockFreePath(): it waits until nobody is on it, and whoever comes waits for the cold lock
//   an outsider                    closes it by its turn
//   TRUNCATE of objects            SettleSpares()
//   setup                          AwaitLockFreePath(): whoever has read old flags has published the object before its flags are changed
//   a cell for a dying object      flags decides: kFlagShared is set before a cell is made, kFlagDead only where that is not set
//   signal handlers                in_cold_lock: they do without. If one leaves the short way with a longjmp, the thread's next turn on the cold path finds
//                                  that the place in in_cold_lock lies below it; a slot that was on its way is nobody's from then on
// Threads: any.
#pragma once

#include "record/engine/runtime.h"

namespace perfschema {

// A live object of the class if the thread has a spare of it, else nullptr.
ShmInstance* MakeFromSpare(uint32_t class_index, const void* identity);
// True: it is a spare now. False: it must go the long way.
bool MakeSpare(ShmInstance& object);

// REQUIRES, of all below: cold lock.

// nullptr: so many live, or there is no memory.
ShmInstance* MakeInstance(uint32_t class_index, const void* identity);
// Of an object that has been buried: its slot becomes the thread's spare.
void GiveInstance(ShmInstance& object, uint32_t class_index);

// The calling thread is not on the short way any more: it was cancelled there, or a longjmp has left it. Needs no lock.
void LeaveLockFreePath();
// Moves the numbers of all spares to their classes, and closes the short way until the cold lock is left: objects are about to lose their numbers, and what
// the dead counted is not theirs.
void SettleSpares();
// An outsider died while it did so: what it was storing to is readable again.
void PutSparesRight();
// The thread ends.
void GiveSpares();
// In a forked child. `was_locked`: the parent had closed the short way.
void ForgetSparesInChild(bool was_locked);

}  // namespace perfschema
