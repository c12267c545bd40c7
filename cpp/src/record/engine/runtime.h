// record/engine/runtime.h: the process's own segment: start-up, the cold lock, fork, exit.
//
// record/start.cpp and record/fork.cpp implement start-up and fork: they call all folders of record/. All functions here are cold. Hot
// paths use the pointers cached in `g_runtime`.
#pragma once

#include <pthread.h>

#include <atomic>
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
struct HotThreadState;

// Tells whether the thread is on the slow path, or on the lock-free path beside it. It holds the stack address of the
// entry, so that a longjmp out of the lock-free path is noticed.
// Threads: owner thread, signal handlers on it included.
class ColdMark {
 public:
  constexpr ColdMark() = default;
  explicit operator bool() const { return place_ != nullptr; }
  // Marks the slow path proper, which no longjmp leaves: signals are blocked (NoSignals).
  ColdMark& operator=(bool is_in) {
    place_ = is_in ? kNoFrame : nullptr;
    return *this;
  }
  PFS_ALWAYS_INLINE void EnterLockFreePath() { place_ = StackMark(); }
  const void* place() const { return place_; }

 private:
  const void* place_ = nullptr;
};

// Stands for an instrumentation where there is none: it is in a probe for ever.
extern HotThreadState g_no_thread __attribute__((visibility("hidden")));

// State of a thread of the system that exists before its instrumentation. It uses the initial-exec TLS model: no
// call, also in a dlopened library.
struct ThreadLocals {
  ThreadState* state;  // the attached instrumentation; nullptr = none (yet). SetAttached() sets it, and the next one
  // The same, or g_no_thread: the fast path of an event asks nothing but whether the thread is in a probe.
  HotThreadState* probed = &g_no_thread;
  ThreadState* own;          // the thread's own instrumentation; nullptr = none (yet). Another one may be attached in its place
  uint64_t os_id;            // gettid(); 0 = not read yet
  bool silent;               // detached: its events make no instrumentation
  bool ended;                // no further events
  bool is_forked;            // in a forked child before its first event: the attached instrumentation is put aside (ResumeAfterFork)
  bool is_refused;           // there was no free slot for its instrumentation, and the thread has been counted as lost
  ColdMark in_cold_lock;     // re-entry by a signal handler must not lock again
  ShmFreeLists* free_lists;  // slots for its next objects; nullptr = none (yet)
  uint8_t end_calls;         // how often the thread-exit destructor was put off; 0 = there is none
  // Of libperfschema-run.so. Threads: owner thread, and children that share its memory, which only read.
  bool may_share_memory;  // the thread has called vfork() and has not been seen in the parent since; or clone(), see the next
  int32_t memory_owner;   // the thread's number, if a child from clone() uses this memory at the same time; 0 = no such child
};
extern thread_local constinit ThreadLocals t_locals __attribute__((tls_model("initial-exec")));

// Returns true in a signal handler that interrupted the slow path of its thread. After a longjmp out of the lock-free
// path it cleans up and returns false.
[[gnu::noinline]] bool IsInterruptedInColdPath();
inline bool IsInColdPath() { return __builtin_expect(static_cast<bool>(t_locals.in_cold_lock), 0) && IsInterruptedInColdPath(); }

// The records of one kind of events. Threads: constant after start.
struct Pool {
  ShmChunk* chunks;
  char* records;
  uint64_t record_bytes;  // distance between two records
  uint64_t space_bytes;   // distance between two spaces
  uint64_t chunks_held;   // chunks that a thread keeps for its history
  char* RecordsOf(uint32_t chunk) const { return records + chunks[chunk].begin.load(std::memory_order_relaxed); }
};

// Sizes of the texts of a running statement (record/family/text_buffers.h). Threads: constant after start.
struct TextSizes {
  uint32_t sql_limit, digest_limit;  // bytes that are kept
  uint32_t first;                    // where the buffers begin
  uint32_t tokens;                   // where the tokens begin in a buffer
  uint32_t buffer;                   // bytes of a buffer
  uint32_t long_place;               // bytes of a place for long texts in the segment
};

// How far pfs has come in this process. kForked: a forked child that has not used pfs yet.
enum class Phase { kNew, kStarted, kForked };

// Is what fork() stores to, in the parent or in the child, besides the segment's copy for the child. All of that shares a page: the kernel
// copies each page for itself, which takes 2 us.
struct Forking {
  pthread_mutex_t cold_mutex = PTHREAD_MUTEX_INITIALIZER;  // the cold lock inside this process
  bool is_inside = false;                                  // this process also holds the word of the segment. Guarded by cold_mutex
  bool holds_lock = false;                                 // the parent holds the cold lock over fork()
  // Some thread holds a lock exclusively, and the child may release it without a call. Also true if not checked.
  bool locks_are_held = true;
  bool child_may_wait = false;                // with leaving its parent's memory, until its first event
  bool child_is_unrecorded = false;           // the cold lock was not to be had: pfs came late
  bool child_had_lock = false;                // the child was forked under the cold lock: no object is half made
  std::atomic<bool> governor_may_run{false};  // set before the governor's mutex is first locked
  // State of the thread that called fork(), until it resumes. Its number in the system is the child's.
  ThreadState* state = nullptr;
  ThreadState* own = nullptr;
};

// Threads: constant after start, except where said.
struct Runtime {
  // One line holds what the fast paths of waits need.
  ShmHeader* header;  // a forked child that has no event yet has an empty one
  ShmCell* cells;
  ShmInstance* instances;
  ShmFile* files;
  ShmTable* tables;
  // Descriptor -> index into `files`; 0 = not followed. Private memory: descriptors mean nothing to another process.
  HalfWord* file_of_descriptor;
  uint32_t max_descriptors;
  // Of libperfschema-run.so, which asks them before all else. Threads: any turns it off where pfs is off; else a process' only thread.
  bool run_is_off = true;      // before its start, where pfs is off, and in children that shall not be recorded
  bool run_is_decoding;        // constant after start
  uint64_t picos_per_tick[8];  // multipliers of the timers, by TimerId; the first is in that line
  ShmClass* classes;
  ShmIndex* indexes;
  ShmThread* threads;
  ShmCell* thread_cells;
  ShmInstanceList* instance_lists;
  ShmHold* holds;
  ShmStatementRest* statement_rests;
  ShmHistogramBlock* histogram_blocks;
  ShmDigestText* digest_texts;
  ShmFreeLists* free_lists;
  ShmTableHandle* table_handles;
  ShmMetadataLock* metadata_locks;
  ShmCell* global_cells;
  Pool pools[kEventKinds];
  Pool& pool(Kind kind) { return pools[static_cast<uint32_t>(kind)]; }
  uint64_t cells_per_thread;   // columns of a row of thread_cells
  uint32_t statement_stack;    // nested statements of a thread that are recorded
  uint32_t sampling_interval;  // TIMED = 'SAMPLED' times one event in this many
  TextSizes text_sizes;
  ShmThreadTexts* thread_texts;
  bool on;
  std::atomic<Phase> phase;  // written under the cold lock
  Forking forking;
  Segment segment;  // last: its path is longer than all the rest
};
// Hidden: the compiler reaches the runtime without a load of its address from the global offset table.
extern Runtime g_runtime PFS_HIDDEN __attribute__((aligned(4096)));
inline constexpr Forking& g_forking = g_runtime.forking;

// Returns what belongs to the object and is not in its line. By way of bytes: an index would have to be scaled twice.
PFS_ALWAYS_INLINE ShmInstanceList& ListOf(const ShmInstance& object) {
  static_assert(sizeof(ShmInstance) == 4 * sizeof(ShmInstanceList));
  const uintptr_t at = reinterpret_cast<uintptr_t>(&object) - reinterpret_cast<uintptr_t>(g_runtime.instances);
  return *reinterpret_cast<ShmInstanceList*>(reinterpret_cast<uintptr_t>(g_runtime.instance_lists) + at / 4);
}

inline bool IsStillForked() { return g_runtime.phase.load(std::memory_order_relaxed) == Phase::kForked; }
// Set by libperfschema-run.so: all variables of this object are those of pfs, and none is the program's.
extern bool g_is_alone_in_object PFS_HIDDEN;
// Set by libperfschema-run.so: the program was there first (`pfs join`). Handlers of fork() that others registered run in another order.
extern bool g_came_late PFS_HIDDEN;
// Whether pfs is off for good: in a child without memory of its own, and in a process that dies if pfs makes a system call.
extern bool g_is_off_for_good PFS_HIDDEN;

// Serializes the slow path of this process, and keeps outsiders out (record/engine/cold_lock.h). Signals are blocked
// meanwhile: a handler could leave it with a longjmp and so leave the lock held.
// Threads: any thread. It is not reentrant. It converts to false inside another ColdLock (a handler of a fault), in a
// signal handler that interrupted the lock-free path, or if a stuck outsider holds the lock. Then its owner must do
// without the lock.
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
  int cancel_state_;  // a thread that is cancelled in here would leave the lock held
  std::optional<NoSignals> no_signals_;
};

// Fixes the options and starts. Fails if pfs has started already, or with the first bad option (nothing is started then).
Status InitRuntime(std::string_view text);

// Returns true if pfs is on. The first call starts it: PFS_OPTIONS, PFS_DIR, PFS_SEGMENT.
bool EnsureStarted();

// Returns true if pfs has started and is off, which it stays.
inline bool IsOff() { return g_runtime.phase.load(kAcquire) == Phase::kStarted && !__atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE); }

// Returns the options in force, also if pfs is off.
const Options& StartOptions();

// Returns the same options while pfs starts. REQUIRES: cold lock.
const Options& StartOptionsLocked();

// Returns why pfs is not fully on, or an empty text.
std::string StatusReason();

// REQUIRES: EnsureStarted().
Segment& OwnSegmentState();

// Fills the setup tables with their initial rows. Returns false without memory. Defined in setup/, which knows their
// rules. REQUIRES: cold lock, pfs starts.
bool StartSetup();

// Lets this process change another one's setup and truncate there, in OutsiderSections. This process has no events of
// its own. Returns kState if pfs has started here already. REQUIRES: one thread.
Status AdoptRuntime(const std::string& path);
// These three are defined in setup/. AdoptSetup() makes the private tables, empty, and returns false without memory.
// ReindexSetup() rebuilds them from the segment. RefreshSetup() computes the flag words again.
// REQUIRES: cold lock.
bool AdoptSetup();
void ReindexSetup();
void RefreshSetup();

// Registers the handlers of fork(), also while pfs is off. Returns false without memory. HearOfForksInParent() registers those that the
// parent runs, for a caller that wants them earlier than the child's.
bool HearOfForks();
bool HearOfForksInParent();

// Gives a forked child its own segment, at its first use of pfs. Returns false if there is no memory, and pfs is off.
// `has_lock`: the caller holds the cold lock; else there is no other thread. REQUIRES: IsStillForked().
bool ContinueChild(bool has_lock);
// Runs in a forked child, in the thread that called fork(), before its first event: the child gets its own file, and
// the thread continues. Returns the attached instrumentation, or nullptr. Cold. REQUIRES: t_locals.is_forked.
[[gnu::noinline]] ThreadState* ResumeAfterFork();
// Turns pfs off in a child whose fork was not heard of, for it was no fork(): it has a copy of its parent's memory, and the parent's
// segment.
void EndInUnheardChild();
// Turns pfs off in a process that dies if pfs makes a system call or reads the timer. What it has recorded stays.
void EndForGood();
// Starts the trace in a forked child, at the first event of a thread, if the setup wants it.
void StartTraceInChild();
// Returns the instrumentation that is attached to the calling thread, also in a forked child that has had no event
// yet.
inline ThreadState* AttachedThread() {
  if (__builtin_expect(t_locals.is_forked, 0)) return ResumeAfterFork();
  return t_locals.state;
}

// Counts a loss. Any thread, any time: one atomic add.
[[gnu::noinline]] void CountLoss(Loss loss, uint64_t n = 1);

}  // namespace perfschema
