// capi/own_wait.h: waits of the user's own: begin and end are two calls, and the program does the waiting.
#pragma once

#include <new>

#include "perfschema/pfs.h"
#include "record/family/lock_events.h"

namespace perfschema::capi {

// Lies in a pfs_wait_t between the two.
struct OwnWait {
  Wait wait;
  Operation operation;
  uint32_t version;  // of the object: its generation
  uint32_t source;   // of a hold that the wait begins
};
static_assert(sizeof(OwnWait) <= sizeof(pfs_wait_t::opaque) && alignof(OwnWait) <= alignof(pfs_wait_t));
static_assert(sizeof(pfs_wait_t) == 128, "frozen: a program reserves it on its stack");

inline OwnWait& OwnWaitIn(pfs_wait_t* wait) { return *std::launder(reinterpret_cast<OwnWait*>(wait->opaque)); }

// Begins a wait that is recorded but not timed. A function of its own, as the others here: none saves another's registers.
[[gnu::noinline]] inline bool BeginUntimed(OwnWait& own, ShmInstance& object, uint32_t flags, const char* file, uint32_t line) {
  return FastBegin<Untimed>(own.wait, OwnLockHooks(own.operation, HoldAfter(own.operation), object), flags, file, line);
}
// Begins a wait of other settings than FastBegin() is for, or that it has not begun.
[[gnu::noinline]] inline bool BeginOther(OwnWait& own, ShmInstance& object, uint32_t flags, const char* file, uint32_t line) {
  if (BeginUnrecorded(own.wait, flags, object.class_index.load(kRelaxed))) return true;
  if (!BeginInstanceWait(own.wait, object, flags, own.operation, file, line)) return false;
  if ((flags & kFlagHolds) != 0) own.source = SourceOfHold(*own.wait.thread, file, line);
  return true;
}

// The inline half has set wait->instance to NULL. 1: the wait has an end.
inline int BeginOwnWait(pfs_wait_t* wait, pfs_instance_t* instance, Operation operation, const char* file, uint32_t line) {
  ShmInstance& object = *AsInstance(instance);
  const uint32_t flags = object.flags.load(kRelaxed) & ~kFlagContended;  // the program calls when it must wait
  if ((flags & kFlagEnabled) == 0) return 0;
  auto& own = *new (wait->opaque) OwnWait;
  own.operation = operation;
  own.version = VersionOf(object);
  const bool is_fast = IsAllOn(flags) ? FastBegin(own.wait, OwnLockHooks(operation, HoldAfter(operation), object), flags, file, line)
                                      : IsUntimed(flags) && BeginUntimed(own, object, flags, file, line);
  if (!is_fast && !BeginOther(own, object, flags, file, line)) return 0;
  wait->instance = instance;
  return 1;
}

// Ends a wait on the slow path. A function of its own: the fast path keeps its registers.
[[gnu::noinline]] inline void FinishOwnLockWait(const OwnWait& own, ShmInstance& object, Hold wanted, int rc, uint64_t end_ticks) {
  FinishLockWait(own.wait, EndedBy(own.wait, end_ticks), object, wanted, rc);
}

[[gnu::noinline]] inline void EndUntimed(const OwnWait& own, ShmInstance& object, Hold wanted, int rc) {
  if (!FastEnd<Untimed>(own.wait, OwnLockHooks(own.operation, wanted, object, rc), 0)) FinishOwnLockWait(own, object, wanted, rc, 0);
}

[[gnu::noinline]] inline void EndOther(const OwnWait& own, ShmInstance& object, Hold wanted, int rc, uint32_t spins) {
  if (!MayEnd(own.wait)) return;
  if (spins != PFS_NO_SPINS || (own.wait.flags & kFlagHolds) != 0) {
    EndLockWait(own.wait, object, wanted, rc, spins != PFS_NO_SPINS ? kRecordHasSpins : 0, spins != PFS_NO_SPINS ? spins : 0);
    if ((own.wait.flags & kFlagHolds) != 0 && wanted == Hold::kExclusive && rc == 0) BeginHoldAt(object, own.source);
    return;
  }
  const uint64_t end_ticks = ReadAtEnd(own.wait);
  if (!EndBySettings(own.wait, OwnLockHooks(own.operation, wanted, object, rc), end_ticks))
    FinishOwnLockWait(own, object, wanted, rc, end_ticks);
}

inline void EndOwnLockWait(pfs_wait_t* wait, int rc, uint32_t spins) {
  const OwnWait& own = OwnWaitIn(wait);
  ShmInstance& object = *AsInstance(wait->instance);
  wait->instance = nullptr;  // a second end does nothing
  const Hold wanted = HoldAfter(own.operation);
  rc = IsHeld(rc) ? 0 : rc;
  if (spins != PFS_NO_SPINS || !MayEndFast(own.wait)) {
    if (spins == PFS_NO_SPINS && MayEndFast<Untimed>(own.wait)) return EndUntimed(own, object, wanted, rc);
    return EndOther(own, object, wanted, rc, spins);
  }
  const uint64_t end_ticks = ReadCycle();
  if (!FastEnd(own.wait, OwnLockHooks(own.operation, wanted, object, rc), end_ticks)) FinishOwnLockWait(own, object, wanted, rc, end_ticks);
}

inline void EndOwnCondWait(pfs_wait_t* wait) {
  const OwnWait& own = OwnWaitIn(wait);
  if (MayEnd(own.wait)) EndCondWait(own.wait, *AsInstance(wait->instance), own.version);
  wait->instance = nullptr;
}

}  // namespace perfschema::capi
