// record/family/holds.h: how long locks are held: consumer lock_holds, which is off at start.
//
// A hold runs from the end of the operation that takes the object exclusively to its last release. The bit kOwnerHold of the owner word
// marks a hold that is measured, so a release without one costs nothing more: its comparison of the owner word leaves for EndHold().
// Read holds of rwlocks are not measured: several threads have them at once.
//
// The holder alone writes the object's ShmHold, and does so before it releases the object. When an object dies, its numbers stay. They
// count for the class from there, until the next object in the slot is first held: then they move to the class (kHoldTotals).
#pragma once

#include "record/probe/wait.h"

namespace perfschema {

// Begins a hold of an object that the calling thread has just taken. Does nothing if the thread held it already, or is not its known
// owner. THREADS: the holder.
[[gnu::noinline]] void BeginHold(ShmInstance& object, const char* file, uint32_t line);
// Does the same with an interned call site.
void BeginHoldAt(ShmInstance& object, uint32_t source);
// Does the same after a wait for a condition, which takes all levels of a recursive mutex back.
void ResumeHold(ShmInstance& object, const char* file, uint32_t line);
// Interns the call site of an operation whose hold will begin in a later call.
uint32_t SourceOfHold(ThreadState& thread, const char* file, uint32_t line);

// Counts a hold that ends now. `owner`: the owner word, with kOwnerHold. THREADS: the one that releases the object, before it does.
void EndHold(ShmInstance& object, uint64_t owner);

}  // namespace perfschema
