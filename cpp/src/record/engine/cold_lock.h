// record/engine/cold_lock.h: the lock of the slow path, in two parts. A mutex excludes the other threads of this
// process. A word of the segment excludes other processes: an *outsider* changes the setup or truncates from outside
// (python/pfs/_process/remote.py runs one). A mere reader is no outsider.
//
//   free --- insider ---> free                                     the program, a few microseconds
//   free --- outsider (sequence + 1) ---> free                     one change from outside
//   outsider --- outsider (sequence + 2), insider ---> free        the first one died inside: the next one repairs the segment
//
// During its critical section an outsider holds a lock on the first byte of the segment's file. The kernel releases
// that lock if the outsider dies. So a slow outsider differs from a dead one. The program never depends on an
// outsider: after a tenth of a second it skips the slow path and counts the loss.
#pragma once

#include <string>

#include "base/status.h"

namespace perfschema {

// These functions serve ColdLock and fork(). Unlike ColdLock they do not handle signal handlers and cancellation.
// LockCold() returns false if an outsider holds the lock and does not release it, or, if pfs came late, another thread.
bool LockCold();
void UnlockCold();
// Resets the lock in a forked child, whose segment no outsider has entered. `was_locked`: the parent held the lock
// for fork(). `has_segment`: the child has a header of its own.
void ContinueColdLockInChild(bool was_locked, bool has_segment);
// Takes the lock between processes in a forked child, which gets its file next. REQUIRES: LockCold() in the child, which has left that
// lock alone.
void EnterSegmentInChild();

// These functions control the lock-free path of objects (record/engine/free_lists.h). REQUIRES: cold lock.
// AwaitLockFreePath() returns when every thread that was on that path at the call has left it. It gives up on a
// thread that stays there for seconds.
void AwaitLockFreePath();
void CloseLockFreePath();
void OpenLockFreePath();  // UnlockCold() opens it, too

// Makes this process an outsider: LockCold() returns false outside an OutsiderSection. `descriptor`: the segment's
// file, open for writing.
void BecomeOutsider(int descriptor);

// A critical section of an outsider. Threads: external lock. Used in outsiders only.
class OutsiderSection {
 public:
  OutsiderSection();
  ~OutsiderSection();
  OutsiderSection(const OutsiderSection&) = delete;
  OutsiderSection& operator=(const OutsiderSection&) = delete;
  // kState: the lock was not available. kCorrupt: the segment is damaged (record/engine/adopted.h). The caller must
  // change nothing in both cases.
  const Status& status() const { return status_; }

 private:
  Status status_;
};

}  // namespace perfschema
