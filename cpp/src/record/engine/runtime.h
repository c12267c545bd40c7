// record/engine/runtime.h: the process's own segment: start-up, the cold lock, fork, exit.
//
// Everything here is cold. Hot paths use the pointers cached in `g_runtime`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "record/engine/no_signals.h"
#include "record/engine/stack.h"
#include "shm/options.h"
#include "shm/segment.h"

namespace perfschema {

struct ThreadState;

// Is the thread on the cold path, or on the short way past it? Where on the stack it is, so that a longjmp out of the short way is noticed.
// Threads: owner thread, signal handlers on it included.
class ColdMark {
 public:
  constexpr ColdMark() = default;
  explicit operator bool() const { return place_ != nullptr; }
  // On the cold path proper, which no longjmp leaves: signals wait (NoSignals).
  ColdMark& operator=(bool is_in) {
    place_ = is_in ? kNoFrame : nullptr;
    return *this;
  }
  PFS_ALWAYS_INLINE void EnterShortWay() { place_ = StackMark(); }
  const void* place() const { return place_; }

 private:
  const void* place_ = nullptr;
};

// What the library needs of a thread of the system before it knows it. Reached through the initial-exec TLS model: no call, also in a dlopened
// library.
struct ThreadLocals {
  ThreadState* state;  // the instrumentation that is attached; nullptr = none (yet)
  ThreadState* own;    // the one that this thread made for itself; nullptr = none (yet). May be put aside for another
  uint64_t os_id;      // gettid(), 0 = not asked yet
  bool silent;         // detached: none is made for it
  bool ended;          // no further events
  bool is_forked;      // of a forked child that has had no event: what was attached is put aside (ResumeAfterFork)
  bool is_refused;     // there was no room for its instrumentation, and it has been counted as lost
  ColdMark in_cold_lock;  // re-entry by a signal handler must not lock again
  ShmFreeLists* free_lists;   // slots for its next objects; nullptr = none (yet)
  uint8_t end_calls;   // times the thread-exit destructor was put off; 0 = there is none
};
extern thread_local constinit ThreadLocals t_locals __attribute__((tls_model("initial-exec")));

// The thread is on the cold path, and this is a signal handler that interrupted it. False as well once a longjmp has left the short way: it is given up.
[[gnu::noinline]] bool IsInterruptedInColdPath();
inline bool IsInColdPath() { return __builtin_expect(static_cast<bool>(t_locals.in_cold_lock), 0) && IsInterruptedInColdPath(); }

// Records of one kind of events. Threads: constant after start.
struct Pool {
  ShmChunk* chunks;
  char* records;          // of chunk i from i * pitch on
  uint64_t record_bytes;  // from one record to the next
  uint64_t pitch;
  uint64_t chunks_held;   // by a thread, for its history
};

// Threads: constant after start, except where said.
struct Runtime {
  Segment segment;
  ShmHeader* header;
  ShmClass* classes;
  ShmThread* threads;
  ShmCell* thread_cells;
  ShmCell* cells;
  ShmInstance* instances;
  ShmInstanceList* instance_lists;
  ShmFreeLists* free_lists;
  ShmFile* files;
  ShmTable* tables;
  ShmIndex* indexes;
  ShmTableHandle* table_handles;
  ShmMetadataLock* metadata_locks;
  ShmCell* global_cells;
  Pool pools[kEventKinds];
  Pool& pool(Kind kind) { return pools[static_cast<uint32_t>(kind)]; }
  uint64_t cells_per_thread;  // columns of a row of thread_cells
  uint32_t statement_stack;   // nested statements of a thread that are recorded
  uint64_t picos_per_tick[8];  // multipliers of the timers, by TimerId
  bool on;
};
extern Runtime g_runtime;

// Serialises the cold path of this process, and keeps outsiders out (record/engine/cold_lock.h). Signals wait until it ends: a handler could leave it with a
// longjmp, and then the lock would be held for ever.
// Threads: any thread. Not reentrant: a ColdLock inside another one (a handler of a fault), or in a signal handler that interrupted the short way, is false,
// and its owner must do without. So is one that an outsider which does not go on keeps out.
class ColdLock {
 public:
  ColdLock();
  ~ColdLock();
  ColdLock(const ColdLock&) = delete;
  ColdLock& operator=(const ColdLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  void Restore();
  bool held_;
  int cancel_state_;  // a thread that is cancelled in here would leave the lock taken
  std::optional<NoSignals> no_signals_;
};

// Fixes the options and starts. Fails if pfs has started already, or with the first bad option (nothing is started then).
Status InitRuntime(std::string_view text);

// True if pfs is on. Starts it at the first call: PFS_OPTIONS, PFS_DIR, PFS_SEGMENT.
bool EnsureStarted();

// Options in force, also if pfs is off.
const Options& StartOptions();

// The same while pfs starts. REQUIRES: cold lock.
const Options& StartOptionsLocked();

// Why pfs is not fully on, or empty.
std::string StatusReason();

// REQUIRES: EnsureStarted().
Segment& OwnSegmentState();

// Fills the setup tables with what they begin with. False: no memory. Defined in setup/, which knows their rules. REQUIRES: cold lock, pfs starts.
bool StartSetup();

// For this process to change another one's setup and to truncate there, in OutsiderSections; it has no events of its own. kState: pfs has started here already.
// REQUIRES: one thread.
Status AdoptRuntime(const std::string& path);
// Defined in setup/. The private tables, empty: false, no memory. What is kept beside the segment anew from what is in it. Flag words anew.
// REQUIRES: cold lock.
bool AdoptSetup();
void ReindexSetup();
void RefreshSetup();

// What this process does at fork(), also while pfs is off. Once. False: no memory.
bool HearOfForks();

// In a forked child, in the thread that called fork(), before its first event: the child gets its own file, and the thread is what it was. Returns what is
// attached to it, or nullptr. Cold. REQUIRES: t_locals.is_forked.
[[gnu::noinline]] ThreadState* ResumeAfterFork();
// In a forked child, at the first event of a thread: the trace goes on if it is wanted.
void StartTraceInChild();
// What is attached to the calling thread, also in a forked child that has had no event yet.
inline ThreadState* AttachedThread() {
  if (__builtin_expect(t_locals.is_forked, 0)) return ResumeAfterFork();
  return t_locals.state;
}

// Any thread, any time: one atomic add.
[[gnu::noinline]] void CountLoss(Loss loss, uint64_t n = 1);

}  // namespace perfschema
