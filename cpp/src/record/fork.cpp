// record/fork.cpp: what fork() does with pfs. The child shares nothing with its parent: it gets a segment of its own at its first use of
// pfs, with the objects and settings that it takes over, and without statistics (shm/segment_fork.cpp).
#include <pthread.h>

#include <cerrno>
#include <string>

#include "base/placement.h"
#include "record/context/principals.h"
#include "record/context/thread_time.h"
#include "record/context/threads.h"
#include "record/declared/facts.h"
#include "record/declared/log.h"
#include "record/engine/cold_lock.h"
#include "record/engine/free_lists.h"
#include "record/family/data_locks.h"
#include "record/family/digests.h"
#include "record/family/files.h"
#include "record/family/histograms.h"
#include "record/family/memory.h"
#include "record/family/passing_names.h"
#include "record/probe/call_sites.h"
#include "record/probe/cells.h"
#include "record/probe/chunk_pool.h"
#include "record/probe/trace.h"
#include "record/start.h"
#include "shm/place.h"

namespace perfschema {

namespace {

bool trace_is_due = false;  // the forked child has begun, but its trace has not
// Whether the handlers of the parent and of the child are registered. Without the child's, nothing is done before the fork either.
PFS_SET_IN_EVERY_PROCESS constinit bool is_heard = false, is_heard_in_child = false;

// A child without a header of its own counts here.
constinit ShmHeader nowhere = {};

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
      return g_forking.locks_are_held ? Keep::kAtOnce : Keep::kLater;
    case ArrayId::kThreadCells:
    case ArrayId::kAccountCells:
    case ArrayId::kUserCells:
    case ArrayId::kHostCells:
    case ArrayId::kInstanceLists:
    case ArrayId::kHolds:
    case ArrayId::kHoldTotals:
    case ArrayId::kCells:
    case ArrayId::kRetired:
    case ArrayId::kGlobalCells:
    case ArrayId::kStatementCells:
    case ArrayId::kStatementRests:
    case ArrayId::kHistograms:
    case ArrayId::kHistogramBlocks:
    case ArrayId::kDigests:
    case ArrayId::kDigestTexts:
    case ArrayId::kErrorLog:
    case ArrayId::kCallSites:
    case ArrayId::kRoles:
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

// Returns whether a child may store to its parent's memory without passing the cold lock or an event: then it leaves that memory at once.
// REQUIRES: in the parent, the cold lock, after NoteHolds().
bool StoresWithoutEvent() {
  if (g_forking.locks_are_held) return true;
  for (const ArrayId id :
       {ArrayId::kTables, ArrayId::kIndexes, ArrayId::kTableHandles, ArrayId::kMetadataLocks, ArrayId::kPrograms, ArrayId::kPrepared}) {
    if (g_runtime.segment.array(id).used.load(kRelaxed) > 1) return true;
  }
  return false;
}

// Drops the cells of all objects of a kind.
template <typename Object, size_t N>
void ForgetLanes(Object* objects, ArrayId id, ShmCellList (Object::*lanes)[N]) {
  const uint64_t used = g_runtime.segment.array(id).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    for (ShmCellList& lane : objects[i].*lanes) lane.first.store(0, kRelaxed);
  }
}

void ForgetStatistics() {
  const Runtime& rt = g_runtime;
  Segment& segment = g_runtime.segment;
  for (Word& loss : rt.header->losses) loss.store(0, kRelaxed);
  ForgetLoadingInChild();
  rt.header->program.longest_attrs.store(0, kRelaxed);
  ForgetCells();
  ForgetStatementCells();
  ForgetDigestsInChild();
  ForgetHistogramsInChild();
  rt.header->remainder_cells.store(0, kRelaxed);
  rt.header->move_seq.store(0, kRelaxed);
  rt.header->hold_seq.store(0, kRelaxed);
  ForgetMemoryInChild();
  ForgetCallSitesInChild();
  const uint64_t instances = segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < instances; ++i) {
    auto* instance = segment.element<ShmInstance>(ArrayId::kInstances, i);
    const bool is_held = (instance->flags.load(kRelaxed) & kFlagHeld) != 0;
    const uint64_t held = is_held ? instance->stat.count.load(kRelaxed) : 0;
    if (is_held) instance->flags.fetch_and(~kFlagHeld, kRelaxed);
    instance->owner.fetch_and(~kOwnerHold, kRelaxed);  // a hold that began in the parent is not the child's
    instance->seq.store(0, kRelaxed);
    ClearStat(instance->stat);
    if (held != 0 && g_forking.state != nullptr) HoldInChild(*g_forking.state, static_cast<uint32_t>(i), static_cast<uint32_t>(held));
  }
  ForgetLanes(rt.files, ArrayId::kFiles, &ShmFile::lanes);
  ForgetLanes(rt.tables, ArrayId::kTables, &ShmTable::lock_lanes);
  ForgetLanes(rt.indexes, ArrayId::kIndexes, &ShmIndex::lanes);
  EmptyChunkPools();
}

// Notes the read locks of the forking thread, which the child holds, too, in the copy that the child takes over.
void NoteHolds(ShmInstance* instances) {
  g_forking.locks_are_held = false;
  const uint64_t used = g_runtime.segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (instances[i].owner.load(kRelaxed) != 0) g_forking.locks_are_held = true;
    const uint32_t held = HeldByThisThread(static_cast<uint32_t>(i));
    if (held == 0) continue;
    instances[i].flags.fetch_or(kFlagHeld, kRelaxed);
    instances[i].stat.count.store(held, kRelaxed);
  }
}

void BeforeFork() {
  // Holding the lock over fork() means that no object is half made in the child. A handler that forks inside the slow
  // path cannot take it.
  const bool may_lock = is_heard_in_child && !t_locals.in_cold_lock;
  g_forking.holds_lock = may_lock && LockCold();
  g_forking.child_is_unrecorded = g_came_late && may_lock && !g_forking.holds_lock;
  // The program's own handlers run before AfterForkInChild() then. Until that, the child has its parent's memory.
  if (g_came_late) t_locals.may_share_memory = true;
  g_forking.locks_are_held = true;
  g_forking.child_may_wait = false;
  if (IsStillForked()) g_runtime.segment.NoteGrandchild();
  if (!g_forking.holds_lock) return;
  t_locals.in_cold_lock = true;
  if (!g_runtime.on || IsStillForked()) return;  // a child that has not used pfs: the kernel copies everything
  CloseLockFreePath();
  NoteDescriptorsBeforeFork();
  Segment& segment = g_runtime.segment;
  if (!segment.CopyBeforeFork(KeptByChild) || !segment.has_copy()) return;
  NoteHolds(segment.copied_element<ShmInstance>(ArrayId::kInstances, 0));
  g_forking.child_may_wait = !StoresWithoutEvent();
}

void AfterForkInParent() {
  if (!g_forking.holds_lock) return;
  if (!IsStillForked()) g_runtime.segment.ForgetCopy();  // else this process itself will begin with the copy
  t_locals.in_cold_lock = false;
  UnlockCold();
}

// Turns pfs off in a child without memory of its own: it must not store to its parent's.
void TurnOffInChild() {
  __atomic_store_n(&g_runtime.on, false, __ATOMIC_RELEASE);
  __atomic_store_n(&g_runtime.header, &nowhere, __ATOMIC_RELEASE);
  SetAttached(nullptr);
  t_locals.own = nullptr;
  t_locals.free_lists = nullptr;
  g_is_off_for_good = true;
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
  g_forking.state = self.state;
  g_forking.own = self.own;
  self.is_forked = true;
  SetAttached(nullptr);
  self.own = nullptr;
  self.free_lists = nullptr;
}

// Most children exec or end soon: they wait for their first event, and touch few pages until then. Each page costs a microsecond.
PFS_IN_EVERY_PROCESS void AfterForkInChild() {
  if (g_forking.child_is_unrecorded) return EndInUnheardChild();
  ThreadState* const thread = t_locals.state;
  const bool is_recorded = g_runtime.on && !IsStillForked();
  const bool must_go_on = is_recorded && thread != nullptr && !HasNothingOpen(*thread);
  const bool may_wait = g_forking.child_may_wait && !must_go_on;
  // errno is in another page. A child that waits calls nothing that changes it.
  int* const error_at = is_recorded && may_wait && g_forking.holds_lock ? nullptr : &errno;
  const int error = error_at == nullptr ? 0 : *error_at;
  if (is_recorded) {
    Segment& segment = g_runtime.segment;
    const bool was_shared = segment.is_shared();
    if (may_wait) {
      __atomic_store_n(&g_runtime.header, &nowhere, __ATOMIC_RELEASE);
    } else if (!segment.LeaveParents(KeptByChild)) {
      TurnOffInChild();
    }
    if (g_runtime.on) {
      if (!was_shared && g_forking.holds_lock) NoteHolds(g_runtime.instances);
      g_forking.child_had_lock = g_forking.holds_lock;
      if (must_go_on)
        ForgetWorkInChild(*thread);  // before anything else: a probe that fork() interrupted (in a signal handler) continues with this
      PutThreadAside();
      NoteForkedProcessBegin();
      if (TraceHasBegun() || g_forking.governor_may_run) ForgetTraceInChild();
      g_runtime.phase.store(Phase::kForked, kRelease);
    }
    // This thread's work on the slow path continues when the handler that called fork() returns: in the child's own
    // memory.
    if (!g_forking.holds_lock && g_runtime.on) (void)ContinueChild(false);
  } else if (!g_runtime.on) {
    ContinueFactsInChild();
  }
  if (g_forking.holds_lock) t_locals.in_cold_lock = false;
  ContinueColdLockInChild(g_forking.holds_lock, g_runtime.on && g_runtime.header != &nowhere);
  if (must_go_on && g_runtime.on) (void)ResumeAfterFork();
  if (error_at != nullptr) *error_at = error;
}

}  // namespace

void NoteNoSegment(const char* reason) {
  static constinit char kept[512] = "";
  static constinit bool is_heard = false;
  kept[std::string_view(reason).copy(kept, sizeof kept - 1)] = 0;
  Note::OfThisProcess("segment", kept);
  // Children have none either: nothing is tried in them.
  constexpr auto kInChild = [] {
    const int error = errno;
    Note::OfThisProcess("segment", kept);
    errno = error;
  };
  is_heard = is_heard || pthread_atfork(nullptr, nullptr, kInChild) == 0;
}

bool ContinueChild(bool has_lock) {
  const int error = errno;
  std::string reason;
  Segment& segment = g_runtime.segment;
  bool is_own = segment.LeaveParents(KeptByChild);  // nothing is left to do if fork() has done it
  if (is_own) {
    __atomic_store_n(&g_runtime.header, segment.header(), __ATOMIC_RELEASE);
    if (has_lock) EnterSegmentInChild();
    is_own = segment.ContinueInChild(KeptByChild, &reason);
  }
  if (segment.path()[0] == 0 && !reason.empty()) NoteNoSegment(reason.c_str());
  if (!is_own) {
    TurnOffInChild();
    g_runtime.phase.store(Phase::kStarted, kRelease);
    errno = error;
    return false;
  }
  SetStatusReason(reason);
  ForgetStatistics();
  ForgetInspectorsScans();
  ForgetSocketsInChild();
  ForgetHoldsOfPassingNamesInChild();
  ForgetFreeListsInChild(g_forking.child_had_lock);
  ContinueThreadsInChild(g_forking.own, g_forking.state, g_forking.child_had_lock);
  ReconnectInChild();
  ForgetLogInChild();
  ContinueFactsInChild();
  g_runtime.segment.Finish();
  trace_is_due = true;
  g_runtime.phase.store(Phase::kStarted, kRelease);
  errno = error;
  return true;
}

PFS_IN_EVERY_PROCESS bool HearOfForksInParent() {
  is_heard = is_heard || pthread_atfork(BeforeFork, AfterForkInParent, nullptr) == 0;
  return is_heard;
}

PFS_IN_EVERY_PROCESS bool HearOfForks() {
  if (!HearOfForksInParent()) return false;
  is_heard_in_child = is_heard_in_child || pthread_atfork(nullptr, nullptr, AfterForkInChild) == 0;
  return is_heard_in_child;
}

void EndInUnheardChild() {
  TurnOffInChild();
  if (TraceHasBegun() || g_forking.governor_may_run) ForgetTraceInChild();
  if (!t_locals.in_cold_lock) ContinueColdLockInChild(true, false);  // the thread that held the lock does not exist here
  g_runtime.phase.store(Phase::kStarted, kRelease);
}

void EndForGood() {
  __atomic_store_n(&g_runtime.on, false, __ATOMIC_RELEASE);
  g_is_off_for_good = true;
  SetAttached(nullptr);
  t_locals.own = nullptr;
  t_locals.free_lists = nullptr;
  g_runtime.phase.store(Phase::kStarted, kRelease);
}

void StartTraceInChild() {
  if (__builtin_expect(!trace_is_due, 1)) return;
  trace_is_due = false;
  TraceMayBegin();
}

ThreadState* ResumeAfterFork() {
  ThreadLocals& self = t_locals;
  if (IsInColdPath() || !EnsureStarted()) return nullptr;
  self.own = g_forking.own;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  SetAttached(g_forking.state);
  self.is_forked = false;
  StartTraceInChild();
  return self.state;
}

}  // namespace perfschema
