#include "record/engine/runtime.h"

#include <pthread.h>

#include "base/placement.h"
#include "record/engine/cold_lock.h"
#include "record/engine/free_lists.h"
#include "record/engine/own_stack.h"

namespace perfschema {

thread_local constinit uint32_t t_no_signals __attribute__((tls_model("initial-exec"))) = 0;
thread_local constinit ThreadLocals t_locals __attribute__((tls_model("initial-exec"))) = {};
constinit Runtime g_runtime = {};
bool g_is_off_for_good = false;
PFS_SET_IN_EVERY_PROCESS constinit bool g_is_alone_in_object = false, g_came_late = false;

bool IsInterruptedInColdPath() {
  if (!WasLeft(t_locals.in_cold_lock.place(), AboveHandlersOf(__builtin_dwarf_cfa()))) return true;
  LeaveLockFreePath();
  return false;
}

namespace {

// Continues in a forked child. Not inlined: each critical section would have its frame.
[[gnu::noinline]] bool ContinueOnOwnStack() {
  bool is_usable = false;
  OnOwnStack([&] { is_usable = ContinueChild(true); });
  return is_usable;
}

}  // namespace

ColdLock::ColdLock() : held_(!IsInColdPath() && !g_is_off_for_good), cancel_state_(0) {
  if (!held_) return;
  no_signals_.emplace();
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  t_locals.in_cold_lock = true;  // before locking: a handler that comes while we wait must not wait for us
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (__builtin_expect(LockCold(), 1)) {
    if (__builtin_expect(!IsStillForked(), 1) || ContinueOnOwnStack()) return;
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

Segment& OwnSegmentState() { return g_runtime.segment; }

void CountLoss(Loss loss, uint64_t n) {
  if (g_runtime.header != nullptr) g_runtime.header->losses[static_cast<uint32_t>(loss)].fetch_add(n, kRelaxed);
}

}  // namespace perfschema
