#include "record/context/threads.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "base/private_memory.h"
#include "base/rounding.h"
#include "record/context/actors.h"
#include "record/context/principals.h"
#include "record/context/tasks.h"
#include "record/context/thread_time.h"
#include "record/declared/facts.h"
#include "record/engine/classes.h"
#include "record/engine/free_lists.h"
#include "record/engine/texts.h"
#include "record/family/text_buffers.h"
#include "record/probe/cells.h"
#include "record/probe/events.h"
#include "record/probe/trace.h"

namespace perfschema {

constinit HotThreadState g_no_thread = [] {
  HotThreadState none{};
  none.nesting = ~uint64_t{0};
  return none;
}();

constinit NameOfThread* g_name_of_early_thread = nullptr;

namespace {

ThreadSlot* slots = nullptr;
pthread_key_t exit_key;

ShmCell* RowOf(uint32_t slot) { return g_runtime.thread_cells + slot * g_runtime.cells_per_thread; }

// Reads the system's name of the calling thread, into a buffer: a signal handler may interrupt malloc.
struct NativeName {
  char text[128] = "thread/native/";
  NativeName() {
    constexpr size_t kPrefix = 14;
    const char* const early = g_name_of_early_thread != nullptr ? g_name_of_early_thread(OsIdOfThisThread()) : nullptr;
    if (early != nullptr) {
      std::memcpy(text, early, std::strlen(early) + 1);
    } else if (static_cast<pid_t>(OsIdOfThisThread()) == getpid()) {
      std::memcpy(text + kPrefix, "main", sizeof "main");
    } else if (pthread_getname_np(pthread_self(), text + kPrefix, 16) != 0 || text[kPrefix] == 0) {
      std::memcpy(text + kPrefix, "thread", sizeof "thread");
    }
  }
};

void ClearTexts(ShmThreadTexts& texts) {
  StoreText(texts.db, {});
  StoreText(texts.command, {});
  StoreText(texts.state, {});
  StoreText(texts.connection_type, {});
  StoreText(texts.resource_group, {});
  StoreText(texts.info, {});
}

uint32_t AllocateSlot() {
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(g_runtime.threads[free].free_next.load(kRelaxed), kRelaxed);
    return static_cast<uint32_t>(free);
  }
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kThreads);
  return fresh < 0 ? 0 : static_cast<uint32_t>(fresh);
}

void FreeSlot(uint32_t slot) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  g_runtime.threads[slot].free_next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(slot, kRelaxed);
}

// The offset of a state in its page. The processor treats a load as dependent on an earlier store to an address with
// the same low 12 bits. A thread's cells begin at a page. Every event stores to the cells of the first classes, and
// the next event first loads the state. With both at the same offset (64, class 1) that costs 1.3 ns an event; three
// quarters of a page apart it costs nothing.
constexpr size_t kStateOffset = 3072;

// The cache of tokens and the texts of the running statements follow the state. The kernel supplies the memory at first use.
constexpr size_t kTextsOffset = RoundToPages(kStateOffset + kTokenCacheOffset + sizeof(TokenCache));

uint32_t forks = 0;  // that this process is the child of

// Empties the caches of a slot in a forked child, which has other cells and chunks. REQUIRES: cold lock.
void KeepCaches(ThreadState& thread) {
  if (thread.forks == forks) return;
  thread.sources = {};
  thread.found_cells = {};
  for (KnownRead& read : thread.reads) read = {};
  std::memset(thread.statement_cells, 0, sizeof thread.statement_cells);
  thread.histogram = nullptr;
  std::fill(std::begin(thread.spare_chunks), std::end(thread.spare_chunks), 0u);
  for (ReadyChunks& ready : thread.ready_chunks) ready.count = 0;
  thread.forks = forks;
}

ThreadState* NewState(uint32_t slot) {
  if (slots[slot].state == nullptr) {
    void* const memory = MapPrivate(kTextsOffset + BytesOfTextBuffers());
    if (memory == nullptr) return nullptr;
    slots[slot].state = reinterpret_cast<ThreadState*>(static_cast<char*>(memory) + kStateOffset);
    for (KnownRead& read : slots[slot].state->reads) read = {};
  }
  ThreadState* const thread = slots[slot].state;
  Buckets* const histogram = thread->histogram;  // lies in the padding of ThreadWork, whose bytes are cleared
  const uint64_t serials = thread->serials;
  new (static_cast<ThreadWork*>(thread)) ThreadWork{};
  thread->histogram = histogram;
  thread->serials = thread->first_serial = serials;
  for (size_t kind = 0; kind < std::size(thread->holds); ++kind) thread->holds[kind].held = thread->held_chunks[kind];
  KeepCaches(*thread);
  thread->slot = slot;
  thread->shared = &g_runtime.threads[slot];
  thread->texts = reinterpret_cast<char*>(thread) - kStateOffset + kTextsOffset;
  thread->cells = RowOf(slot);
  thread->cell_count = thread->shared->cells.load(kRelaxed);
  thread->global_cells = g_runtime.global_cells + slot * g_runtime.cells_per_thread;
  thread->global_cell_count = thread->shared->global_cells.load(kRelaxed);
  return thread;
}

// Runs last in a thread that ends. glibc runs destructors of thread keys up to four times. This one waits for the
// last rounds, so that instrumented code in other destructors is still counted.
void EndThread(void*) {
  ThreadLocals& self = t_locals;
  if (++self.end_calls < 4) {
    pthread_setspecific(exit_key, &exit_key);
    return;
  }
  ThreadState* const attached = AttachedThread();
  ThreadState* const own = self.own;
  if (self.in_cold_lock) LeaveLockFreePath();
  const ColdLock lock;
  if (lock) ReturnFreeSlots();
  self.free_lists = nullptr;
  SetAttached(nullptr);
  self.own = nullptr;
  self.ended = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (attached != nullptr && attached != own) {  // it lives on for the next thread that attaches it
    attached->shared->os_id.store(0, kRelaxed);
    slots[attached->slot].use.store(attached->thread_id << 2, kRelease);  // pairs with AttachThread
  }
  if (own != nullptr && lock) EndInstrumentation(*own);
}

}  // namespace

bool StartThreads() {
  const size_t bytes = g_runtime.segment.array(ArrayId::kThreads).capacity * sizeof(*slots);
  void* const memory = MapPrivate(bytes);
  if (memory == nullptr) return false;
  slots = static_cast<ThreadSlot*>(memory);
  return pthread_key_create(&exit_key, EndThread) == 0;
}

ThreadSlot& SlotAt(uint32_t slot) { return slots[slot]; }

uint64_t OsIdOfThisThread() {
  if (t_locals.os_id == 0) t_locals.os_id = static_cast<uint64_t>(syscall(SYS_gettid));
  return t_locals.os_id;
}

void HearOfThreadEnd() {
  if (t_locals.end_calls != 0) return;
  t_locals.end_calls = 1;
  pthread_setspecific(exit_key, &exit_key);
}

uint32_t ForegroundFlag(uint32_t class_index, std::string_view user) {
  const bool is_foreground = class_index == 0 ? !user.empty() : (g_runtime.classes[class_index].properties & kPropertyUser) != 0;
  return is_foreground ? kThreadForeground : 0;
}

uint32_t FlagsAtBirth(uint32_t class_index, std::string_view user, std::string_view host) {
  ThreadSettings settings;
  if (class_index != 0) {
    const ShmClass& entry = g_runtime.classes[class_index];
    settings = {entry.enabled.load(kRelaxed) != 0, entry.timed.load(kRelaxed) != 0};
  }
  const ThreadSettings actor = FindActor(user, host);
  if (ForegroundFlag(class_index, user) != 0 || !user.empty() || !host.empty()) {
    settings = {settings.instrumented && actor.instrumented, settings.history && actor.history};
  }
  settings.traced = actor.traced;  // of background threads, too
  return settings.flags();
}

ThreadState* MakeThread(const Birth& birth, bool is_own) {
  const uint32_t slot = AllocateSlot();
  ThreadState* thread = slot == 0 ? nullptr : NewState(slot);
  if (thread == nullptr) {
    if (slot != 0) FreeSlot(slot);
    return nullptr;
  }
  ShmThread& shared = *thread->shared;
  thread->thread_id = g_runtime.header->next_thread_id.fetch_add(1, kRelaxed) + 1;
  thread->identity = birth.identity;
  const std::string_view user = CutText(birth.user, kUserBytes), host = CutText(birth.host, kHostBytes);
  shared.class_index.store(birth.class_index, kRelaxed);
  shared.flags.store(FlagsAtBirth(birth.class_index, user, host) | ForegroundFlag(birth.class_index, user), kRelaxed);
  shared.os_id.store(is_own ? OsIdOfThisThread() : 0, kRelaxed);
  if (is_own) BeginTime(shared, birth.time);
  shared.parent_thread_id.store(birth.parent_thread_id, kRelaxed);
  shared.processlist_id.store(birth.processlist_id != 0 ? birth.processlist_id : thread->thread_id, kRelaxed);
  shared.peer_port.store(0, kRelaxed);
  shared.stage.store(0, kRelaxed);
  shared.event_id.store(0, kRelaxed);
  shared.start_seconds.store(0, kRelaxed);
  for (Word& word : reinterpret_cast<ThreadWordArray&>(shared.numbers)) word.store(0, kRelaxed);
  {
    const CellWriter writer(shared.seq);
    StoreText(shared.name, birth.name.empty() ? NameOf(g_runtime.classes[birth.class_index]) : birth.name);
    StoreText(shared.user_name, user);
    StoreText(shared.host_name, host);
    if (const uint32_t texts = shared.texts.load(kRelaxed); texts != 0) ClearTexts(g_runtime.thread_texts[texts]);
  }
  ConnectThread(shared, user, host);
  const uint64_t bits = is_own ? ThreadSlot::kOwn | ThreadSlot::kAttached : 0;
  slots[slot].use.store(thread->thread_id << 2 | bits, kRelease);  // pairs with AttachThread
  shared.thread_id.store(thread->thread_id, kRelease);             // last: publishes the row; pairs with Snapshot::threads
  return thread;
}

void EndInstrumentation(ThreadState& thread) {
  const uint32_t slot = thread.slot;
  slots[slot].use.store(0, kRelaxed);
  thread.first_serial = thread.serials;
  DropFactsOf(thread.thread_id);
  DisconnectThread(*thread.shared, [](ShmThread& shared) {
    AddTimeToRole(shared, true);
    shared.born.store(0, kRelaxed);
    shared.thread_id.store(0, kRelease);
  });
  ForgetTasks(thread, true);
  GiveAllChunks(thread);
  TellTraceOfEnd(thread);
  LeaveRetired(slot);
  FreeSlot(slot);
  FoldRetired(16);
}

// Returns true if the calling thread's events are not instrumented.
static bool IsUnobserved() { return t_locals.ended || t_locals.silent || !EnsureStarted(); }

// Counts a lost event or request of the thread, and the thread itself once.
static void CountRefused() {
  if (!t_locals.is_refused) CountLoss(Loss::kThreadInstances);
  t_locals.is_refused = true;
  CountLoss(Loss::kLockers);
}

ThreadState* RegisterThisThread(const Birth& birth) {
  if (ThreadState* const resumed = AttachedThread(); resumed != nullptr) return resumed;  // of a forked child, at its first event
  if (IsUnobserved()) return nullptr;
  const int error = errno;
  ThreadState* thread = nullptr;
  if (ColdLock lock; lock) {
    // A handler that came while we waited for the lock may have tried, but could not take it.
    thread = MakeThread(birth, true);
    if (thread != nullptr) {
      HearOfThreadEnd();
      t_locals.own = thread;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      SetAttached(thread);
    } else {
      CountRefused();
    }
  } else {
    CountLoss(Loss::kLockers);
  }
  StartTraceInChild();
  errno = error;
  return thread;
}

ThreadState* RegisterThisThread() {
  // Checked before the name is read: such a thread comes here at each of its events.
  if (ThreadState* const resumed = AttachedThread(); resumed != nullptr) return resumed;  // of a forked child, at its first event
  if (IsUnobserved()) return nullptr;
  const int error = errno;
  const NativeName name;
  errno = error;
  Birth birth;
  birth.name = name.text;
  return RegisterThisThread(birth);
}

// `known` is the thread's own copy of its number of cells.
static bool Grow(ThreadState& thread, ArrayId array, uint32_t end, std::atomic<uint32_t>* reserved, uint32_t* known) {
  const int error = errno;
  bool grown = false;
  if (ColdLock lock; lock) grown = ReserveColumns(array, thread.slot, end, reserved);
  if (grown) *known = reserved->load(kRelaxed);
  if (!grown) CountLoss(Loss::kThreadStatistics);
  errno = error;
  return grown;
}

bool GrowCells(ThreadState& thread, uint32_t end) {
  return Grow(thread, ArrayId::kThreadCells, end, &thread.shared->cells, &thread.cell_count);
}

bool GrowGlobalCells(ThreadState& thread, uint32_t end) {
  return Grow(thread, ArrayId::kGlobalCells, end, &thread.shared->global_cells, &thread.global_cell_count);
}

void ForgetWorkInChild(ThreadState& thread) {
  // fork() may be called inside an open event (in a signal handler, for example): the event's End then finds no
  // record.
  const uint64_t inside = thread.nesting - thread.outside();
  // The child must not mistake open events of the parent for its own: its counters continue from the parent's.
  const uint64_t thread_id = thread.thread_id, event_id = thread.event_id;
  const void* const identity = thread.identity;
  ForgetTasks(thread, false);
  thread.forks = forks - 1;  // its caches are the parent's
  NewState(thread.slot);
  thread.cell_count = thread.fast_bytes = thread.global_cell_count = 0;
  thread.nesting = inside;
  thread.thread_id = thread_id;
  thread.event_id = event_id;
  thread.identity = identity;
}

void ContinueThreadsInChild(const ThreadState* own, const ThreadState* attached, bool was_closed) {
  ++forks;
  ShmArray& array = g_runtime.segment.array(ArrayId::kThreads);
  array.free_head.store(0, kRelaxed);
  const uint64_t used = array.used.load(kRelaxed);
  for (uint32_t slot = 1; slot < used; ++slot) {
    ShmThread& shared = g_runtime.threads[slot];
    slots[slot].retired = 0;
    if (ThreadState* const state = slots[slot].state; state != nullptr) state->first_serial = state->serials;
    shared.cells.store(0, kRelaxed);
    shared.global_cells.store(0, kRelaxed);
    ThreadState* const thread = slots[slot].state;
    if (thread != nullptr) {
      thread->names.ContinueInChild(was_closed);
      if (HalfWord& ready = thread->ready_files.count; !was_closed && ready.load(kRelaxed) != 0) ready.store(0, kRelaxed);
    }
    const uint64_t use = slots[slot].use.load(kRelaxed);
    const bool is_own = thread == own, is_attached = thread == attached;
    if (use == 0 || (!is_own && (use & ThreadSlot::kOwn) != 0)) {
      if (thread != nullptr) ForgetTasks(*thread, false);
      slots[slot].use.store(0, kRelaxed);
      shared.thread_id.store(0, kRelaxed);
      FreeSlot(slot);
      continue;
    }
    ForgetWorkInChild(*thread);
    if (!is_attached) thread->nesting = 0;
    // The forking thread is the only thread of this process: its number is the process's.
    shared.os_id.store(is_attached ? static_cast<uint64_t>(getpid()) : 0, kRelaxed);
    if (is_own) BeginTime(shared, 0);
    slots[slot].use.store(thread->thread_id << 2 | (is_own ? ThreadSlot::kOwn : 0) | (is_attached ? ThreadSlot::kAttached : 0), kRelaxed);
  }
}

}  // namespace perfschema
