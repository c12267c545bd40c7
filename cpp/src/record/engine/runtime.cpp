#include "record/engine/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "record/context/actors.h"
#include "record/context/principals.h"
#include "record/context/threads.h"
#include "record/declared/facts.h"
#include "record/declared/log.h"
#include "record/engine/bad_options.h"
#include "record/engine/classes.h"
#include "record/engine/cold_lock.h"
#include "record/engine/free_lists.h"
#include "record/engine/names.h"
#include "record/engine/sources.h"
#include "record/family/data_locks.h"
#include "record/family/digests.h"
#include "record/family/errors.h"
#include "record/family/files.h"
#include "record/family/memory.h"
#include "record/family/tables.h"
#include "record/probe/cells.h"
#include "record/probe/chunk_pool.h"
#include "record/probe/trace.h"
#include "shm/dead_segments.h"

namespace perfschema {

thread_local constinit ThreadLocals t_locals __attribute__((tls_model("initial-exec"))) = {};
Runtime g_runtime;

namespace {

// Guarded by the cold lock until started. kForked: a forked child that has not used pfs yet; segment_fork.cpp.
enum class Phase { kNew, kStarted, kForked };
std::atomic<Phase> phase{Phase::kNew};
Options options;
std::string status_reason;
bool fork_holds_lock = false;
bool locks_are_held = true;  // some thread holds a lock exclusively, and the child may release it without a call. Also true if not checked
// State of the thread that called fork(), until it resumes. Its number in the system is the child's.
ThreadState* forked_state = nullptr;
ThreadState* forked_own = nullptr;
bool child_had_lock = false;  // it was forked under the cold lock: no object is half made
bool trace_is_due = false;    // the forked child has begun, but its trace has not
bool is_lost_child = false;   // pfs is off for good
// A child without memory of its own counts here.
ShmHeader nowhere;

void CopyText(uint8_t* to, size_t size, const std::string& text) {
  std::fill_n(to, size, uint8_t{0});
  std::copy_n(text.begin(), std::min(text.size(), size - 1), to);
}

void CachePointers() {
  Runtime& rt = g_runtime;
  Segment& segment = rt.segment;
  rt.header = segment.header();
  rt.classes = segment.element<ShmClass>(ArrayId::kClasses, 0);
  rt.threads = segment.element<ShmThread>(ArrayId::kThreads, 0);
  rt.thread_cells = segment.element<ShmCell>(ArrayId::kThreadCells, 0);
  rt.cells = segment.element<ShmCell>(ArrayId::kCells, 0);
  rt.instances = segment.element<ShmInstance>(ArrayId::kInstances, 0);
  rt.instance_lists = segment.element<ShmInstanceList>(ArrayId::kInstanceLists, 0);
  rt.free_lists = segment.element<ShmFreeLists>(ArrayId::kFreeLists, 0);
  rt.files = segment.element<ShmFile>(ArrayId::kFiles, 0);
  rt.tables = segment.element<ShmTable>(ArrayId::kTables, 0);
  rt.indexes = segment.element<ShmIndex>(ArrayId::kIndexes, 0);
  rt.table_handles = segment.element<ShmTableHandle>(ArrayId::kTableHandles, 0);
  rt.metadata_locks = segment.element<ShmMetadataLock>(ArrayId::kMetadataLocks, 0);
  rt.global_cells = segment.element<ShmCell>(ArrayId::kGlobalCells, 0);
  for (uint32_t i = 0; i < kEventKinds; ++i) {
    const auto history_size = static_cast<uint64_t>(options.Get(kPools[i].history_size));
    rt.pools[i] = {segment.element<ShmChunk>(kChunksOf[i], 0), segment.element<char>(kRecordsOf[i], 0), rt.header->record_bytes[i],
                   segment.array(kRecordsOf[i]).stride, ChunksHeldByThread(static_cast<Kind>(i), history_size)};
  }
  rt.statement_stack = static_cast<uint32_t>(options.Get(OptionId::max_statement_stack));
  rt.cells_per_thread = segment.array(ArrayId::kThreadCells).capacity / segment.array(ArrayId::kThreads).capacity;
}

// Applies PFS_OPTIONS. A bad entry must not stop the program: the good entries apply, and the status reports the bad one.
void ParseEnvironment(Options* to) {
  const char* const environment = secure_getenv("PFS_OPTIONS");
  if (environment == nullptr) return;
  const Status bad = to->Parse(environment);
  if (bad.ok()) return;
  status_reason = "PFS_OPTIONS: " + bad.message();
  if (to->Get(OptionId::print_bad_options) != 0) ReportBadOptions(status_reason);
}

void StartClocks(ShmHeader* header) {
  const std::string why_not =
      options.Get(OptionId::cycle_timer) == 0 ? "option performance_schema_cycle_timer is OFF" : WhyNoCycleCounter();
  const bool use_cycle = why_not.empty();
  StartTimers(use_cycle, header->timers);
  for (int i = 0; i < kTimerCount; ++i) g_runtime.picos_per_tick[i] = header->timers[i].multiplier;
  if (!use_cycle) CopyText(header->timer_reason, sizeof header->timer_reason, "CYCLE is not used: " + why_not);
  header->epoch_unix_micros = WallClockMicros() - ReadSlowTimer(TimerId::kMicrosecond);  // the epoch is some milliseconds ago
  for (uint32_t i = 0; i < kTimedClassCount; ++i) {
    const bool is_wait = i == static_cast<uint32_t>(TimedClass::kWait);
    const TimerId timer = is_wait && use_cycle ? TimerId::kCycle : TimerId::kNanosecond;
    header->timer_of[i].store(static_cast<uint32_t>(timer) + 1, kRelaxed);
  }
}

void StartConsumers(ShmHeader* header) {
  for (uint32_t i = 0; i < kConsumerCount; ++i) header->consumers[i].store(kConsumers[i].enabled ? 1 : 0, kRelaxed);
  for (uint32_t i = 0; i < options.preset_count; ++i) {
    const Preset& preset = options.presets[i];
    if (!preset.is_consumer) continue;
    header->consumers[static_cast<uint32_t>(FindConsumer(preset.pattern))].store(preset.enabled ? 1 : 0, kRelaxed);
  }
}

// Says what a forked child takes over: all but statistics and events. kAtOnce: flag words, which probes read, and
// words that calls store to without an event.
Segment::Keep KeptByChild(ArrayId id) {
  using Keep = Segment::Keep;
  switch (id) {
    case ArrayId::kClasses:
    case ArrayId::kFiles:
    case ArrayId::kTables:
    case ArrayId::kIndexes:
    case ArrayId::kTableHandles:
    case ArrayId::kMetadataLocks:
    case ArrayId::kPrograms:
    case ArrayId::kPrepared:
      return Keep::kAtOnce;
    case ArrayId::kInstances:
      return locks_are_held ? Keep::kAtOnce : Keep::kLater;
    case ArrayId::kThreadCells:
    case ArrayId::kAccountCells:
    case ArrayId::kUserCells:
    case ArrayId::kHostCells:
    case ArrayId::kInstanceLists:
    case ArrayId::kCells:
    case ArrayId::kRetired:
    case ArrayId::kGlobalCells:
    case ArrayId::kStatementCells:
    case ArrayId::kDigests:
    case ArrayId::kErrorLog:
    case ArrayId::kWaitChunks:
    case ArrayId::kWaitRecords:
    case ArrayId::kStageChunks:
    case ArrayId::kStageRecords:
    case ArrayId::kStatementChunks:
    case ArrayId::kStatementRecords:
    case ArrayId::kTransactionChunks:
    case ArrayId::kTransactionRecords:
      return Keep::kNothing;
    default:
      return Keep::kLater;
  }
}

void ForgetStatistics() {
  const Runtime& rt = g_runtime;
  Segment& segment = g_runtime.segment;
  for (Word& loss : rt.header->losses) loss.store(0, kRelaxed);
  rt.header->program.longest_attrs.store(0, kRelaxed);
  ForgetCells();
  ForgetStatementCells();
  ForgetDigestsInChild();
  rt.header->histogram.generation.fetch_add(1, kRelaxed);
  rt.header->remainder_cells.store(0, kRelaxed);
  rt.header->move_seq.store(0, kRelaxed);
  ForgetMemoryInChild();
  const uint64_t instances = segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < instances; ++i) {
    auto* instance = segment.element<ShmInstance>(ArrayId::kInstances, i);
    const bool is_held = (instance->flags.load(kRelaxed) & kFlagHeld) != 0;
    const uint64_t held = is_held ? instance->stat.count.load(kRelaxed) : 0;
    if (is_held) instance->flags.fetch_and(~kFlagHeld, kRelaxed);
    instance->seq.store(0, kRelaxed);
    ClearStat(instance->stat);
    if (held != 0 && forked_state != nullptr) HoldInChild(*forked_state, static_cast<uint32_t>(i), static_cast<uint32_t>(held));
  }
  const auto forget = [&](auto* elements, ArrayId id, auto lanes_of) {
    const uint64_t used = segment.array(id).used.load(kRelaxed);
    for (uint64_t i = 1; i < used; ++i) {
      for (ShmCellList& lane : lanes_of(elements[i])) lane.head.store(0, kRelaxed);
    }
  };
  forget(
      rt.files, ArrayId::kFiles, [](ShmFile & file) -> auto& { return file.lanes; });
  forget(
      rt.tables, ArrayId::kTables, [](ShmTable & table) -> auto& { return table.lock_lanes; });
  forget(
      rt.indexes, ArrayId::kIndexes, [](ShmIndex & index) -> auto& { return index.lanes; });
  EmptyChunkPools();
}

// Notes the read locks of the forking thread, which the child holds, too, in the copy that the child takes over.
void NoteHolds(ShmInstance* instances) {
  locks_are_held = false;
  const uint64_t used = g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (instances[i].owner.load(kRelaxed) != 0) locks_are_held = true;
    const uint32_t held = HeldByThisThread(static_cast<uint32_t>(i));
    if (held == 0) continue;
    instances[i].flags.fetch_or(kFlagHeld, kRelaxed);
    instances[i].stat.count.store(held, kRelaxed);
  }
}

// Limits the number of files of dead processes before this process adds its own.
void CollectTheDead() {
  const std::string& path = g_runtime.segment.path();
  if (path.empty()) return;
  CollectDeadSegments(path, static_cast<uint64_t>(options.Get(OptionId::max_dead_segments)),
                      static_cast<uint64_t>(options.Get(OptionId::max_dead_megabytes)) << 20);
}

bool IsStillForked() { return phase.load(kRelaxed) == Phase::kForked; }

void BeforeFork() {
  // Holding the lock over fork() means that no object is half made in the child. A handler that forks inside the slow
  // path cannot take it.
  fork_holds_lock = !t_locals.in_cold_lock && LockCold();
  locks_are_held = true;
  if (!fork_holds_lock) return;
  t_locals.in_cold_lock = true;
  if (!g_runtime.on || IsStillForked()) return;  // a child that has not used pfs: the kernel copies everything
  CloseLockFreePath();
  Segment& segment = g_runtime.segment;
  if (segment.CopyBeforeFork(KeptByChild) && segment.has_copy()) NoteHolds(segment.copied_element<ShmInstance>(ArrayId::kInstances, 0));
}

void AfterForkInParent() {
  if (!fork_holds_lock) return;
  if (!IsStillForked()) g_runtime.segment.ForgetCopy();  // else this process itself will begin with the copy
  t_locals.in_cold_lock = false;
  UnlockCold();
}

// Turns pfs off in a child without memory of its own: it must not store to its parent's.
void TurnOffInChild() {
  __atomic_store_n(&g_runtime.on, false, __ATOMIC_RELEASE);
  g_runtime.header = &nowhere;
  t_locals.state = t_locals.own = nullptr;
  t_locals.free_lists = nullptr;
  is_lost_child = true;
}

// Returns true if no event of the parent is open in this thread: its state is the same before and after its next
// event.
bool HasNothingOpen(const ThreadState& thread) {
  return thread.nesting == 0 && thread.statement_depth == 0 && thread.stage.class_index == 0 && thread.transaction.serial == 0 &&
         thread.tasks == nullptr;
}

void PutThreadAside() {
  ThreadLocals& self = t_locals;
  self.os_id = 0;
  forked_state = self.state;
  forked_own = self.own;
  self.is_forked = true;
  self.state = self.own = nullptr;
  self.free_lists = nullptr;
}

// Makes the child's own segment at its first use of pfs. Returns false if there is no memory, and pfs is off.
// REQUIRES: cold lock; other threads may exist.
bool ContinueChild() {
  const int error = errno;
  std::string reason;
  if (!g_runtime.segment.ContinueInChild(KeptByChild, &reason)) {
    TurnOffInChild();
    phase.store(Phase::kStarted, kRelease);
    errno = error;
    return false;
  }
  CollectTheDead();
  CopyText(g_runtime.header->status_reason, sizeof g_runtime.header->status_reason, reason);
  status_reason = std::move(reason);
  ForgetStatistics();
  ForgetInspectorsScans();
  ForgetSocketsInChild();
  ForgetFreeListsInChild(child_had_lock);
  ContinueThreadsInChild(forked_own, forked_state);
  ReconnectInChild();
  ForgetLogInChild();
  ContinueFactsInChild();
  trace_is_due = true;
  phase.store(Phase::kStarted, kRelease);
  errno = error;
  return true;
}

void AfterForkInChild() {
  const int error = errno;
  bool must_go_on = false;
  if (g_runtime.on) {
    const bool is_first = !IsStillForked(), was_shared = g_runtime.segment.is_shared();
    if (!g_runtime.segment.LeaveParents(KeptByChild)) {
      TurnOffInChild();
    } else if (is_first) {
      if (!was_shared && fork_holds_lock) NoteHolds(g_runtime.instances);
      child_had_lock = fork_holds_lock;
      ThreadState* const thread = t_locals.state;
      must_go_on = thread != nullptr && !HasNothingOpen(*thread);
      if (must_go_on)
        ForgetWorkInChild(*thread);  // before anything else: a probe that fork() interrupted (in a signal handler) continues with this
      PutThreadAside();
      ForgetTraceInChild();
      phase.store(Phase::kForked, kRelease);
    }
    // This thread's work on the slow path continues when the handler that called fork() returns: in the child's own
    // memory.
    if (!fork_holds_lock && is_first && g_runtime.on) (void)ContinueChild();
  } else {
    ContinueFactsInChild();
  }
  if (fork_holds_lock) t_locals.in_cold_lock = false;
  ContinueColdLockInChild(fork_holds_lock);
  if (must_go_on) (void)ResumeAfterFork();
  errno = error;
}

// Removes the file, under the cold lock. It runs by atexit() and not as a destructor of the library, which would come
// after that of g_runtime: the path is gone then.
void RemoveAtExit() {
  if (!g_runtime.on || g_runtime.header->pid != static_cast<uint64_t>(getpid())) return;
  const char* keep = secure_getenv("PFS_KEEP");
  if (keep == nullptr || std::strcmp(keep, "1") != 0) g_runtime.segment.Remove();
}

void StartNow() {
  if (options.Get(OptionId::performance_schema) == 0) {
    status_reason = "performance_schema is OFF";
    return;
  }
  std::string reason;
  if (!g_runtime.segment.Create(options, &reason).ok()) {
    status_reason = reason;
    return;
  }
  if (status_reason.empty()) status_reason = reason;
  CachePointers();
  ShmHeader* header = g_runtime.header;
  CopyText(header->status_reason, sizeof header->status_reason, status_reason);
  StartClocks(header);
  StartConsumers(header);
  if (!HearOfForks() || !StartChunkPools() || !StartThreads() || !StartPrincipals() || !StartFiles() || !StartTables() || !StartFacts() ||
      !StartSources() || !StartDigests() || !StartSetup() || !StartErrors()) {
    g_runtime.segment.Remove();
    status_reason = "no memory for the tables of this process";
    return;
  }
  StartActors();
  __atomic_store_n(&header->magic, kSegmentMagic, __ATOMIC_RELEASE);  // pairs with SegmentFile::CheckHeader
  __atomic_store_n(&g_runtime.on, true, __ATOMIC_RELEASE);
  std::atexit(RemoveAtExit);
  CollectTheDead();
}

void Start() {
  try {
    StartNow();
  } catch (const std::bad_alloc&) {  // a text of a reason, for example: the program goes on without pfs
    g_runtime.segment.Remove();
    status_reason.clear();
  }
  phase.store(Phase::kStarted, kRelease);  // last: threads that come meanwhile wait for the lock, and none sees pfs as off
}

}  // namespace

bool IsInterruptedInColdPath() {
  if (!WasLeft(t_locals.in_cold_lock.place(), AboveHandlersOf(__builtin_dwarf_cfa()))) return true;
  LeaveLockFreePath();
  return false;
}

ColdLock::ColdLock() : held_(!IsInColdPath() && !is_lost_child), cancel_state_(0) {
  if (!held_) return;
  no_signals_.emplace();
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  t_locals.in_cold_lock = true;  // before locking: a handler that comes while we wait must not wait for us
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (__builtin_expect(LockCold(), 1)) {
    if (__builtin_expect(!IsStillForked(), 1) || ContinueChild()) return;
    UnlockCold();
  }
  held_ = false;
  Restore();
}

ColdLock::~ColdLock() {
  if (!held_) return;
  UnlockCold();
  Restore();
}

void ColdLock::Restore() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_locals.in_cold_lock = false;
  pthread_setcancelstate(cancel_state_, nullptr);
  no_signals_.reset();  // last: handlers that have waited run here
}

Status InitRuntime(std::string_view text) {
  ColdLock lock;
  if (!lock) return Status(Code::kState, "pfs cannot be started from a signal handler");
  if (phase.load(kAcquire) != Phase::kNew) {
    return Status(Code::kState, "pfs has started already: options are fixed before the first use; set PFS_OPTIONS or call this earlier");
  }
  Options wanted;
  ParseEnvironment(&wanted);
  if (Status bad = wanted.Parse(text); !bad.ok()) {
    status_reason.clear();
    return bad;
  }
  options = wanted;
  Start();
  return {};
}

Status AdoptRuntime(const std::string& path) {
  if (phase.load(kAcquire) != Phase::kNew)
    return Status(Code::kState, "pfs has started in this process: another one's segment can be adopted in a fresh process only");
  int descriptor = -1;
  if (Status bad = g_runtime.segment.Adopt(path, &options, &descriptor); !bad.ok()) return bad;
  CachePointers();
  for (int i = 0; i < kTimerCount; ++i) g_runtime.picos_per_tick[i] = g_runtime.header->timers[i].multiplier;
  ReindexClasses();
  if (!StartPrincipals() || !StartFacts() || !StartDigests() || !AdoptSetup()) return Status(Code::kFull, "no memory for private tables");
  t_locals.ended = true;  // this process records no events
  BecomeOutsider(descriptor);
  __atomic_store_n(&g_runtime.on, true, __ATOMIC_RELEASE);
  phase.store(Phase::kStarted, kRelease);
  return {};
}

bool HearOfForks() {
  static const bool is_heard = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) == 0;
  return is_heard;
}

void StartTraceInChild() {
  if (__builtin_expect(!trace_is_due, 1)) return;
  trace_is_due = false;
  TraceMayBegin();
}

ThreadState* ResumeAfterFork() {
  ThreadLocals& self = t_locals;
  if (IsInColdPath() || !EnsureStarted()) return nullptr;
  self.own = forked_own;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  self.state = forked_state;
  self.is_forked = false;
  StartTraceInChild();
  return self.state;
}

bool EnsureStarted() {
  if (__builtin_expect(phase.load(kAcquire) == Phase::kStarted, 1)) return __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE);
  const int error = errno;
  {
    ColdLock lock;  // lets a forked child begin
    if (lock && phase.load(kAcquire) == Phase::kNew) {
      ParseEnvironment(&options);
      Start();
    }
  }
  TraceMayBegin();  // trace_enabled
  errno = error;
  return !IsStillForked() && __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE);
}

const Options& StartOptions() {
  (void)EnsureStarted();
  return options;
}

const Options& StartOptionsLocked() { return options; }

std::string StatusReason() {
  (void)EnsureStarted();
  ColdLock lock;
  return status_reason;
}

Segment& OwnSegmentState() { return g_runtime.segment; }

void CountLoss(Loss loss, uint64_t n) {
  if (g_runtime.header != nullptr) g_runtime.header->losses[static_cast<uint32_t>(loss)].fetch_add(n, kRelaxed);
}

}  // namespace perfschema
