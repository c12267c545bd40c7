#include "record/context/attach.h"

#include <string>

#include "record/context/identity.h"
#include "record/context/thread_time.h"
#include "record/engine/classes.h"
#include "record/engine/texts.h"
#include "record/probe/wait.h"

namespace perfschema {
namespace {

static_assert(uint64_t{1} << kHandleSlotBits > 65536 + 1, "a slot of performance_schema_max_thread_instances must fit");

ThreadHandle HandleOf(const ThreadState& thread) { return thread.thread_id << kHandleSlotBits | thread.slot; }

// Returns nullptr for a bad handle. (A free slot has the THREAD_ID 0.)
ThreadSlot* SlotOf(ThreadHandle handle) {
  const auto slot = static_cast<uint32_t>(handle & ((1u << kHandleSlotBits) - 1));
  const bool may_be = ThreadIdOf(handle) != 0 && EnsureStarted() && slot != 0 && slot < g_runtime.segment.array(ArrayId::kThreads).capacity;
  return may_be ? &SlotAt(slot) : nullptr;
}

Status Gone() { return Status(Code::kNotFound, "no such thread: it was deleted, or is no handle of this process"); }
Status Taken() { return Status(Code::kState, "the thread is attached to another thread of the system, or is its own"); }

// Returns true in a signal handler that interrupted an event, or the slow path, of this thread.
bool IsInterruptedHere() {
  ThreadState* const thread = AttachedThread();
  return IsInColdPath() || (thread != nullptr && IsInterrupted(*thread));
}
Status Interrupted() { return Status(Code::kState, "in a signal handler that interrupted pfs: try again outside of it"); }

// Detaches the thread's instrumentation and returns it; nullptr: there was none. It belongs to this thread until
// LetGo().
ThreadState* PutAside() {
  ThreadState* const thread = t_locals.state;
  SetAttached(nullptr);
  t_locals.silent = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler that comes now finds nothing attached
  if (thread != nullptr) thread->shared->os_id.store(0, kRelaxed);
  return thread;
}

void LetGo(const ThreadState& thread) {
  const uint64_t own = &thread == t_locals.own ? ThreadSlot::kOwn : 0;
  SlotAt(thread.slot).use.store(thread.thread_id << 2 | own, kRelease);  // pairs with TakeUse
}

// Takes the handle's instrumentation exclusively: `use` becomes `wanted`. REQUIRES: it is not attached to this
// thread.
Status TakeUse(ThreadSlot& slot, ThreadHandle handle, uint64_t wanted) {
  const bool is_own = t_locals.own != nullptr && HandleOf(*t_locals.own) == handle;
  const uint64_t idle = ThreadIdOf(handle) << 2 | (is_own ? ThreadSlot::kOwn : 0);
  uint64_t use = idle;
  if (slot.use.compare_exchange_strong(use, wanted, kAcquire, kRelaxed)) return {};  // pairs with LetGo, EndThread, MakeThread
  return use >> 2 == ThreadIdOf(handle) ? Taken() : Gone();
}

}  // namespace

ThreadHandle NewThread(uint32_t key, const void* identity, uint64_t processlist_id) {
  if (!EnsureStarted()) return 0;
  Birth birth;
  birth.class_index = ClassOfKey(Family::kThread, key);
  birth.identity = identity;
  birth.processlist_id = processlist_id;
  if (birth.class_index == 0) return 0;
  const ColdLock lock;
  if (!lock) return 0;
  ThreadState* const thread = MakeThread(birth, false);
  if (thread == nullptr) CountLoss(Loss::kThreadInstances);
  return thread == nullptr ? 0 : HandleOf(*thread);
}

Status AttachThread(ThreadHandle handle) {
  if (handle == 0) return DetachThread();
  if (IsInterruptedHere()) return Interrupted();
  if (t_locals.ended) return Status(Code::kState, "the calling thread is ending");
  if (t_locals.state != nullptr && HandleOf(*t_locals.state) == handle) return {};
  ThreadSlot* const slot = SlotOf(handle);
  if (slot == nullptr) return Gone();
  const bool is_own = t_locals.own != nullptr && HandleOf(*t_locals.own) == handle;
  const uint64_t bits = ThreadSlot::kAttached | (is_own ? ThreadSlot::kOwn : 0);
  if (Status status = TakeUse(*slot, handle, ThreadIdOf(handle) << 2 | bits); !status.ok()) return status;
  if (const ThreadState* before = PutAside(); before != nullptr) LetGo(*before);
  ThreadState* const thread = slot->state;
  thread->shared->os_id.store(OsIdOfThisThread(), kRelaxed);
  // Open waits may have begun on another stack: none of them lies below a frame of this one.
  for (uint32_t i = 0; i < thread->wait_depth(); ++i) thread->open_waits[i].frame = kNoFrame;
  for (uint32_t i = 0; i < thread->statement_depth; ++i) thread->statements[i].is_on_stack = false;
  HearOfThreadEnd();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  SetAttached(thread);
  return {};
}

Status DetachThread() {
  if (IsInterruptedHere()) return Interrupted();
  if (const ThreadState* before = PutAside(); before != nullptr) LetGo(*before);
  return {};
}

Status DeleteThread(ThreadHandle handle) {
  if (handle == 0) return {};
  if (IsInterruptedHere()) return Interrupted();
  ThreadSlot* const slot = SlotOf(handle);
  if (slot == nullptr) return Gone();
  const bool is_attached = t_locals.state != nullptr && HandleOf(*t_locals.state) == handle;
  const ColdLock lock;
  if (is_attached) {
    PutAside();
  } else if (Status status = TakeUse(*slot, handle, ThreadIdOf(handle) << 2 | ThreadSlot::kAttached); !status.ok()) {
    return status;
  }
  if (slot->state == t_locals.own) t_locals.own = nullptr;
  EndInstrumentation(*slot->state);  // NOLINT(clang-analyzer-core.NonNullParamChecker): a slot that has a handle has a state
  return {};
}

ThreadHandle CurrentHandle() {
  const ThreadState* const thread = AttachedThread();
  return thread == nullptr ? 0 : HandleOf(*thread);
}
ThreadHandle OwnHandle() {
  (void)AttachedThread();
  return t_locals.own == nullptr ? 0 : HandleOf(*t_locals.own);
}

const void* IdentityOf(ThreadHandle handle) {
  const ThreadSlot* const slot = SlotOf(handle);
  if (slot == nullptr || slot->use.load(kAcquire) >> 2 != ThreadIdOf(handle)) return nullptr;  // pairs with MakeThread
  return slot->state->identity;
}

void DescribeOrigin(ThreadOrigin* origin) {
  *origin = {};
  const ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  origin->parent_thread_id = thread->thread_id;
  origin->time = TimeNow();
  // Only this thread writes them.
  CopyFromShared(origin->user, thread->shared->user_name, sizeof origin->user);
  CopyFromShared(origin->host, thread->shared->host_name, sizeof origin->host);
}

Status BeginThread(uint32_t class_index, std::string_view name, const ThreadOrigin& origin) {
  std::string full;
  if (!name.empty()) {
    if (Status status = FullThreadName(name, &full); !status.ok()) return status;
  } else if (class_index == 0) {
    return {};
  }
  Birth birth;
  birth.class_index = class_index;
  birth.name = full;
  birth.parent_thread_id = origin.parent_thread_id;
  birth.time = origin.time;
  birth.user = std::string_view(origin.user, strnlen(origin.user, sizeof origin.user));
  birth.host = std::string_view(origin.host, strnlen(origin.host, sizeof origin.host));
  ThreadState* const thread = AttachedThread();
  if (thread == nullptr) {
    if (t_locals.own != nullptr || t_locals.silent) return Taken();
    return RegisterThisThread(birth), Status();
  }
  if (thread != t_locals.own) return Taken();
  Rename(*thread, birth);  // it has had an event already: in a signal handler, for example
  return {};
}

}  // namespace perfschema
