#include "record/threads.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/events.h"
#include "record/cells.h"
#include "record/parties.h"

namespace perfschema {
namespace {

// Private states by slot, kept for the next thread of the slot. Guarded by the cold lock.
ThreadState** states = nullptr;
pthread_key_t exit_key;

// Foreground threads serve a user: they have a PROCESSLIST_ID.
void SetForeground(ThreadState& thread, bool foreground) {
  ShmThread& shared = *thread.shared;
  if (foreground) {
    shared.flags.fetch_or(kThreadForeground, kRelaxed);
  } else {
    shared.flags.fetch_and(~kThreadForeground, kRelaxed);
  }
  shared.processlist_id.store(foreground ? thread.thread_id : 0, kRelaxed);
}

// Is this the name of a thread instrument with the user flag (SEMANTICS G6)? REQUIRES: cold lock.
bool IsRegisteredForUsers(std::string_view full_name) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    const std::string_view name(reinterpret_cast<const char*>(entry.name), entry.name_bytes);
    if (entry.family == static_cast<uint32_t>(Family::kThread) && name == full_name) return (entry.properties & kPropertyUser) != 0;
  }
  return false;
}

ShmCell* RowOf(uint32_t slot) { return g_runtime.thread_cells + slot * g_runtime.cells_per_thread; }

// Stores a zero-padded text of the thread's row.
template <size_t N>
void StoreText(Word (&words)[N], std::string_view text) {
  char padded[N * 8] = {};
  text.copy(padded, sizeof padded);
  CopyToShared(words, padded, sizeof padded);
}

// The only way texts of a thread change. REQUIRES: cold lock.
template <typename Change>
void ChangeTexts(ShmThread& thread, Change change) {
  const uint32_t seq = thread.seq.load(kRelaxed);
  thread.seq.store(seq + 1, kRelaxed);  // ordered before the words by their release stores
  change();
  thread.seq.store(seq + 2, kRelease);  // pairs with ReadCell
}

std::string NativeName() {
  if (static_cast<pid_t>(syscall(SYS_gettid)) == getpid()) return "thread/native/main";
  char comm[16] = {};
  if (pthread_getname_np(pthread_self(), comm, sizeof comm) != 0 || comm[0] == 0) return "thread/native/thread";
  return std::string("thread/native/") + comm;
}

uint32_t TakeSlot() {
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(g_runtime.threads[free].free_next.load(kRelaxed), kRelaxed);
    return static_cast<uint32_t>(free);
  }
  const int64_t fresh = g_runtime.segment.TakeFresh(ArrayId::kThreads);
  return fresh < 0 ? 0 : static_cast<uint32_t>(fresh);
}

void GiveSlot(uint32_t slot) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  g_runtime.threads[slot].free_next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(slot, kRelaxed);
}

// Where in its page a state begins. The processor takes a load for dependent on a store before it that has the same low 12 bits of address; a
// thread's cells begin at a page, those of its first classes are the ones that every event stores to, and its state is what the next
// event loads first. Side by side (offset 64, class 1) that costs 1.3 ns an event; three quarters of a page apart, nothing.
constexpr size_t kStateOffset = 3072;

ThreadState* StateOf(uint32_t slot) {
  if (states[slot] == nullptr) {
    void* memory = mmap(nullptr, kStateOffset + sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    states[slot] = reinterpret_cast<ThreadState*>(static_cast<char*>(memory) + kStateOffset);
  }
  return new (states[slot]) ThreadState{};
}

// The last thing of a thread that ends. glibc runs destructors of thread keys up to four times: this one waits for the last rounds, so
// that instrumented code in other destructors is still counted.
void EndThread(void* pointer) {
  auto* thread = static_cast<ThreadState*>(pointer);
  if (++thread->end_calls < 3) {
    pthread_setspecific(exit_key, thread);
    return;
  }
  ColdLock lock;
  t_locals.state = nullptr;
  t_locals.ended = true;
  if (!lock) return;
  DisconnectThread(*thread->shared, [](ShmThread& shared) { shared.thread_id.store(0, kRelease); });
  GiveAllChunks(*thread);
  GiveSlot(thread->slot);
  FoldGraves(16);
}

}  // namespace

bool StartThreads() {
  const size_t bytes = g_runtime.segment.array(ArrayId::kThreads).capacity * sizeof(*states);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  states = static_cast<ThreadState**>(memory);
  return pthread_key_create(&exit_key, EndThread) == 0;
}

ThreadState* RegisterThisThread() {
  if (t_locals.ended || t_locals.in_cold_lock || !EnsureStarted()) return nullptr;
  const int error = errno;
  ThreadState* thread = nullptr;
  if (ColdLock lock; lock) {
    // A handler that came while we waited for the lock may have tried, but could not have it.
    const uint32_t slot = TakeSlot();
    thread = slot == 0 ? nullptr : StateOf(slot);
    if (thread != nullptr) {
      ShmThread& shared = g_runtime.threads[slot];
      thread->slot = slot;
      thread->shared = &shared;
      thread->cells = RowOf(slot);
      thread->cell_count = shared.cells.load(kRelaxed);
      thread->thread_id = g_runtime.header->next_thread_id.fetch_add(1, kRelaxed) + 1;
      shared.flags.store(kThreadInstrumented | kThreadHistory, kRelaxed);
      shared.os_id.store(static_cast<uint64_t>(syscall(SYS_gettid)), kRelaxed);
      shared.parent_thread_id.store(0, kRelaxed);
      shared.processlist_id.store(0, kRelaxed);
      ChangeTexts(shared, [&] {
        StoreText(shared.name, NativeName());
        StoreText(shared.user_name, {});
        StoreText(shared.host_name, {});
        StoreText(shared.db, {});
      });
      ConnectThread(shared, {}, {});
      pthread_setspecific(exit_key, thread);
      shared.thread_id.store(thread->thread_id, kRelease);  // last: publishes the row; pairs with Snapshot::threads
      std::atomic_signal_fence(std::memory_order_seq_cst);
      t_locals.state = thread;
    } else {
      if (slot != 0) GiveSlot(slot);
      CountLoss(Loss::kThreadInstances);
    }
  }
  errno = error;
  return thread;
}

bool GrowCells(ThreadState& thread, uint32_t class_index) {
  const int error = errno;
  constexpr uint32_t kCellsPerPage = 4096 / sizeof(ShmCell);
  const auto wanted = static_cast<uint32_t>(std::min<uint64_t>((class_index / kCellsPerPage + 1) * kCellsPerPage, g_runtime.cells_per_thread));
  const uint64_t row = thread.slot * g_runtime.cells_per_thread;
  bool grown = false;
  if (ColdLock lock; lock) {
    grown = g_runtime.segment.ReserveRange(ArrayId::kThreadCells, (row + thread.cell_count) * sizeof(ShmCell), (row + wanted) * sizeof(ShmCell));
    if (grown) {
      thread.cell_count = wanted;
      thread.shared->cells.store(wanted, kRelease);  // pairs with Snapshot: columns below are mapped
    }
  }
  if (!grown) CountLoss(Loss::kThreadStatistics);
  errno = error;
  return grown;
}

void ContinueThreadInChild() {
  ThreadState* thread = t_locals.state;
  const uint32_t own_slot = thread == nullptr ? 0 : thread->slot;
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  array.free_head.store(0, kRelaxed);
  const uint64_t used = array.used.load(kRelaxed);
  for (uint32_t slot = 1; slot < used; ++slot) {
    g_runtime.threads[slot].cells.store(0, kRelaxed);
    if (slot == own_slot) continue;
    g_runtime.threads[slot].thread_id.store(0, kRelaxed);
    GiveSlot(slot);
  }
  if (thread == nullptr) return;
  // fork() may be called inside an open event (in a signal handler, say): its End finds no record of its own any more.
  const uint64_t inside = thread->nesting & ThreadState::kInside;
  const uint64_t thread_id = thread->thread_id, event_id = thread->event_id;
  new (thread) ThreadState{};
  thread->nesting = inside;
  thread->slot = own_slot;
  thread->shared = &g_runtime.threads[own_slot];
  thread->cells = RowOf(own_slot);
  thread->thread_id = thread_id;
  thread->event_id = event_id;
  thread->shared->os_id.store(static_cast<uint64_t>(syscall(SYS_gettid)), kRelaxed);
}

Status SetThreadName(std::string_view name) {
  ThreadState* thread = CurrentThread();
  if (name.substr(0, 7) == "thread/") name.remove_prefix(7);
  if (name.empty() || name.size() > 120) return Status(Code::kInvalidArgument, "a thread's name has 1 to 120 bytes");
  if (thread == nullptr) return {};
  const std::string full = "thread/" + std::string(name);
  ColdLock lock;
  if (!lock) return {};
  ChangeTexts(*thread->shared, [&] { StoreText(thread->shared->name, full); });
  SetForeground(*thread, IsRegisteredForUsers(full));
  return {};
}

Status SetAccount(std::string_view user, std::string_view host) {
  if (user.size() > 32) return Status(Code::kInvalidArgument, "a user's name has at most 32 bytes");
  if (host.size() > 255) return Status(Code::kInvalidArgument, "a host's name has at most 255 bytes");
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) return {};
  ColdLock lock;
  if (!lock) return {};
  ShmThread& shared = *thread->shared;
  ChangeTexts(shared, [&] {
    StoreText(shared.user_name, user);
    StoreText(shared.host_name, host);
  });
  ConnectThread(shared, user, host);
  SetForeground(*thread, !user.empty());
  return {};
}

uint64_t CurrentThreadId() {
  const ThreadState* thread = CurrentThread();
  return thread == nullptr ? 0 : thread->thread_id;
}

}  // namespace perfschema
