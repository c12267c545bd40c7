// record/engine/cold_lock.h: the two doors of the cold path. The first, a mutex, lets in one thread of this process. The second, a word of the segment, lets in this
// process or an *outsider*: a process that changes the setup or truncates from outside (python/pfs/_outside/remote.py runs one), never a mere reader.
//
//   free --- insider ---> free                              the program, a few microseconds
//   free --- outsider (turn + 1) ---> free                  one change from outside
//   outsider --- outsider (turn + 2), insider ---> free     the first one died in its turn: who comes next puts right what it left
//
// An outsider holds a lock on the first byte of the segment's file during its turn. The kernel takes that lock from the dead: it tells one that is slow from
// one that is no more. The program never depends on an outsider: after a tenth of a second it does without the cold path, and what it could not do is counted.
#pragma once

#include <string>

#include "base/status.h"

namespace perfschema {

// For ColdLock and fork(). Unlike ColdLock these do not look after signal handlers and cancellation.
// False: an outsider is in there and does not come out.
bool LockCold();
void UnlockCold();
// In a forked child, which has a segment of its own, where no outsider comes out any more. `was_locked`: by the parent, for fork().
void ContinueColdLockInChild(bool was_locked);

// The short way of objects (record/engine/free_lists.h). REQUIRES, of all three: cold lock.
// Whoever was on it when this is called has left. (But not for long: one that hangs there for seconds is not waited for.)
void AwaitLockFreePath();
void CloseLockFreePath();
void OpenShortWay();  // so does UnlockCold()

// This process is an outsider from here on: LockCold() is false without a turn. `descriptor`: of the segment's file, open for writing.
void BecomeOutsider(int descriptor);

// Threads: external lock. In outsiders only.
class OutsiderSection {
 public:
  OutsiderSection();
  ~OutsiderSection();
  OutsiderSection(const OutsiderSection&) = delete;
  OutsiderSection& operator=(const OutsiderSection&) = delete;
  // kState: the door did not open. kCorrupt: what is inside is damaged (record/engine/adopted.h). Nothing may be changed then.
  const Status& status() const { return status_; }

 private:
  Status status_;
};

}  // namespace perfschema
