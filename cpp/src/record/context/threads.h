// record/context/threads.h: the instrumentation of a thread: the context that its events are counted and recorded
// with.
//
// A thread of the system makes an instrumentation of its own at its first event, and ends it when the thread ends. An
// instrumentation that pfs_thread_new() made (record/context/attach.h) is attached to one thread of the system after
// the other. Chunks, cells and open waits belong to the instrumentation.
//
// ThreadSlot.use is one word. A thread takes it by one compare-exchange (acquire) and gives it back with a release,
// so an instrumentation has one writer at a time. A detached thread counts nothing until it attaches an
// instrumentation.
#pragma once

#include <cstdint>
#include <string_view>

#include "record/engine/names.h"
#include "record/engine/runtime.h"
#include "record/engine/sources.h"

namespace perfschema {

// Maps an object's key to this thread's cell: a cache in front of the object's lists. See cells.h.
inline constexpr int kKeyIndexBits = 25;  // bits of the index in a key: options limit each array of objects to fewer elements
struct CellCache {
  static constexpr uint32_t kEntries = 256;
  struct Entry {
    uint64_t key;  // CellKey(); 0 = empty
    uint32_t cell;
  } entries[kEntries];
  // (index << 2) keeps the first four lanes of an object apart.
  static uint32_t Place(uint64_t key) { return static_cast<uint32_t>((key << 2) ^ (key >> 6) ^ (key >> kKeyIndexBits)) & (kEntries - 1); }
};

// A cell that belongs to no object and no thread, and an instance of no object.
inline ShmCell no_cell{};
inline ShmInstance no_instance{};

struct HotThreadState;

// A read lock of the program that the thread has counted, with all that it needs to count the lock again (run/calls/read_locks.h).
struct alignas(64) KnownRead {
  uint64_t word;                         // the lock's tag
  HotThreadState* thread;                // whose entry it is
  ShmInstance* instance = &no_instance;  // its own; &no_instance: the entry is empty
  ShmCell* cell;                         // the thread's of the instance
  ShmCell* own;                          // the thread's of the instrument
  const HalfWord* flags;                 // of the instrument
  uint32_t settings;                     // their value
  uint32_t slot;                         // the thread's
};

// The position of the next record of a kind.
struct RecordCursor {
  ShmRecord* next;  // >= end: take a chunk
  ShmRecord* end;
  uint64_t open_bits;  // lap of the chunk << 32, with the bits of an open event that is timed by the cycle counter
  uint64_t lap_bits() const { return open_bits & ~uint64_t{kRecordOpen | kRecordTimed}; }
};

// An open wait that has a record.
struct OpenWait {
  ShmWaitRecord* record;
  const void* frame;  // stack frame in which it began, to find a wait that a longjmp left. Calls on locks do not store it
  bool operator==(const ShmWaitRecord* other) const { return record == other; }
};

// A full chunk that is still needed: by the thread's history, or by an open event in it.
struct HeldChunk {
  uint32_t chunk;
  uint64_t until;  // value of ChunkHold::chunks_taken at which the chunk may be given away
};

// The chunks of a kind that a thread holds.
struct ChunkHold {
  uint32_t chunk;  // the one being written, 0 = none
  uint64_t chunks_taken;
  uint64_t traced;             // number of traced events in the full chunks of these (ShmChunk::traced)
  uint32_t trace_wish;         // value of g_trace_wish when the chunk being written was taken
  bool has_traced;             // the chunk being written has a traced event, whatever the wish says
  bool is_changing;            // the thread gives or takes a chunk: a longjmp out of that may lose it
  uint32_t takes_until_check;  // chunks to take before the pool checks another queue (queue_to_check)
  uint32_t queue_to_check;
  uint32_t held_count;
  static constexpr uint32_t kMaxHeld = 1024 / 8 + 48;
  HeldChunk* held;  // kMaxHeld, of ThreadState
};

// The running stage.
struct OpenStage {
  ShmStageRecord* record;  // nullptr = not recorded
  uint64_t begun_state;    // of the record
  uint64_t event_id;       // 0 = not recorded
  uint64_t start_ticks;
  uint32_t flags;
  uint32_t class_index;  // 0 = no stage runs
};

// A running statement. Its statistics are in the caller's pfs_statement_t, which may be gone.
struct OpenStatement {
  ShmStatementRecord* record;
  uint64_t begun_state;
  uint64_t event_id;  // 0 = not recorded
  uint64_t serial;    // unique among the statements of the thread
  const void* place;  // address of the caller's pfs_statement_t
  uint32_t buffer;    // index of its text buffer
  bool is_on_stack;   // on the thread's stack: pfs can tell when that memory has been released
  bool is_overtaken;  // a statement that began before it has ended
};

// The active transaction.
struct OpenTransaction {
  ShmTransactionRecord* record;
  uint64_t begun_state;
  uint64_t event_id;
  uint64_t serial;  // 0 = none
};

// What every event uses of the private memory of one instrumentation: two lines.
// Threads: only the thread that it is attached to, including its signal handlers (see `nesting`).
struct HotThreadState {
  RecordCursor waits;
  uint64_t event_id;  // last EVENT_ID given
  uint64_t thread_id;
  ShmThread* shared;
  ShmCell* cells;       // the thread's row of kThreadCells
  uint32_t cell_count;  // columns that are safe to store to
  // Bytes of these columns, or 0: an event has begun while another one was open, or a task with open waits goes on. Then
  // the next end takes the slow path, which sets it right. So the fast path finds both cases by one comparison.
  uint32_t fast_bytes;
  // Returns the next EVENT_ID. The store is atomic: another thread that ends an event of this one reads the word (EndRecordOf).
  PFS_ALWAYS_INLINE uint64_t TakeEventId() {
    const uint64_t id = event_id + 1;
    __atomic_store_n(&event_id, id, __ATOMIC_RELAXED);
    return id;
  }
  void EndFastAgain() { fast_bytes = cell_count * static_cast<uint32_t>(sizeof(ShmCell)); }
  // Number of open waits that have records. While a probe of this thread runs, the probe's stack address is added. A
  // signal handler that comes then must not touch the other fields, and a later probe notices a longjmp out of this
  // one. One comparison with 0 finds every uncommon case.
  uint64_t nesting;
  // TIMED = 'SAMPLED': the thread times the event that makes this 0, whatever its instrument is; 0 = no such event yet.
  uint32_t until_sample;
  bool waits_have_details;  // some waits in the chunk that is being written have details
  // The event that an outermost wait is nested in: the stage, else the innermost statement. Its type is kNesting...
  // << 24.
  alignas(16) uint64_t parent_event_id;
  uint64_t no_end_info = 0;  // a pair with parent_event_id, as in a record
  uint64_t parent_type;
  // The index into kThreads, with zeros before it: one load of both is FirstCell(0, slot) (OwnMark).
  alignas(8) uint32_t before_slot = 0;
  uint32_t slot;
  OpenWait open_waits[kMaxNestedWaits];  // outermost first
};
static_assert(offsetof(HotThreadState, open_waits) + sizeof(OpenWait) <= 128);

// What a thread does: all of its private memory but the caches of its slot.
struct ThreadWork : HotThreadState {
  // The cells that the thread used last of objects that it held shared, by the lowest bits of the object's index: most
  // often the read lock that it releases next. A few take turns in some programs, such as those of OpenSSL. Another
  // thread may own the cell by now; cell.owner and cell.instance tell.
  static constexpr uint32_t kSharedCells = 8;
  ShmCell* shared_cells[kSharedCells] = {&no_cell, &no_cell, &no_cell, &no_cell, &no_cell, &no_cell, &no_cell, &no_cell};
  // The thread's cells of the classes whose waits have no object, metadata locks and idle, by the lowest bit of the class. A class does not
  // die and a cell stays the thread's, so an entry holds as long as the thread.
  uint32_t known_classes[2] = {};  // 0 = none
  ShmCell* class_cells[2];

  // Peak memory of the session since the peaks were last lowered (record/family/memory.h).
  uint64_t controlled_memory_peak, total_memory_peak;

  // The words of an event go here if no chunk is available, by the number of waits around it; no reader reads them.
  ShmWaitRecord scratch[kMaxNestedWaits][kPools[0].most_places];

  static constexpr uint64_t kDepthMask = 7;  // stack addresses are multiples of 8
  static_assert(kMaxNestedWaits <= kDepthMask);
  static constexpr int kNestingTypeShift = 24;
  static constexpr uint64_t kInWait = uint64_t{kNestingWait} << kNestingTypeShift;
  uint32_t wait_depth() const { return static_cast<uint32_t>(nesting & kDepthMask); }
  static constexpr bool IsInside(uint64_t nesting) { return nesting > kDepthMask; }
  bool inside() const { return IsInside(nesting); }
  uint64_t outside() const { return nesting & kDepthMask; }  // value of `nesting` after the probe has ended

  // Fields of stages, statements and transactions.
  RecordCursor cursors[kEventKinds];  // [0] is not used: waits use `waits`
  RecordCursor& CursorOf(Kind kind) { return kind == Kind::kWait ? waits : cursors[static_cast<uint32_t>(kind)]; }
  ChunkHold holds[kEventKinds];
  ShmCell* global_cells;  // the thread's row of kGlobalCells
  uint32_t global_cell_count;
  uint64_t serials;  // statements and transactions so far, of all threads of the slot
  OpenStage stage;
  OpenTransaction transaction;
  uint32_t statement_depth;  // number of running statements that are recorded
  uint32_t suspended_used;   // of `suspended`
  // Text buffers of the running statements (record/family/text_buffers.h).
  char* texts;
  // The running task (record/context/tasks.h); nullptr = the thread's own work. `own_work` exists once the thread has
  // had a task.
  struct Task* task;
  struct Task* own_work;
  struct Task* tasks;
  const void* identity;  // the `identity` that pfs_thread_new() was given
  uint64_t sample_seed;  // of the next pseudo-random distance between two events that are timed
};

// Slots of files that are ready for the thread's next files (record/family/files.h). The more a thread needs, the more it takes.
// Threads: the owner, on the lock-free path or under the cold lock; any under the cold lock while that path is closed.
struct ReadyFiles {
  static constexpr uint32_t kMost = 16;
  uint32_t wanted;  // how many were taken last
  HalfWord count;
  uint32_t slots[kMost];
};

// Never-used chunks of a kind, made in advance (record/probe/chunk_pool.cpp).
struct ReadyChunks {
  static constexpr uint32_t kMost = 3;
  uint32_t count;
  uint32_t chunks[kMost];
};

// Private memory of one instrumentation.
// Threads: only the thread that it is attached to, including its signal handlers (see `nesting`).
struct ThreadState : ThreadWork {
  // These stay for the next thread of the slot, as its cells do: a short thread would take the cold lock for each of them. A cell that
  // leaves the slot leaves `found_cells` (record/probe/cells.cpp), so a new thread need not look at all of them.
  Buckets* histogram;  // the slot's part of the histogram of all statements (record/family/histograms.h); nullptr = not chosen yet
  SourceCache sources;
  CellCache found_cells;
  static constexpr uint32_t kReads = 8;
  KnownRead reads[kReads];  // by the lowest bits of the tag, which are those of the instance's index
  // Maps a digest, program or prepared statement to this thread's cell.
  static constexpr uint32_t kStatementCellEntries = 64;
  struct {
    const ShmStatementObject* object;
    ShmStatementCell* cell;
  } statement_cells[kStatementCellEntries];
  // A chunk of each kind that the slot's last thread has left and that no view shows (KeepSpare); 0 = none. The next thread writes it
  // while it is in the cache.
  uint32_t spare_chunks[kEventKinds];
  ReadyChunks ready_chunks[kEventKinds];
  bool has_lost_cell;  // the event's object found no cell, which is counted; if its class finds none either, that is the same loss
  uint32_t forks;      // of the process when they were filled: a forked child has other cells and chunks
  NameStash names;     // zeros at first, both
  ReadyFiles ready_files;
  // Of these two, what `holds` and `statement_depth` count is in use. A new thread leaves the rest as it is: clearing it takes longer
  // than all else that makes a thread.
  HeldChunk held_chunks[kEventKinds][ChunkHold::kMaxHeld];
  OpenStatement statements[kMaxStatementStack];  // outermost first; statements beyond max_statement_stack are not kept
  // Rows of suspended statements whose chunks the thread holds: another thread may end them. A place whose row has ended is free. More
  // rows at a time are not held.
  static constexpr uint32_t kMostSuspended = 16;
  struct {
    const ShmStatementRecord* record;
    uint64_t begun_state;
  } suspended[kMostSuspended];

  // What other threads read and write when they end a statement or transaction of this one (record/family/elsewhere.h).
  uint64_t first_serial;  // all events up to it are those of earlier threads of the slot; guarded by the cold lock
  // Serials of events that ended without a row. The newest few suffice: of an older one, the thread counts a loss too many.
  static constexpr uint32_t kEnded = 16;
  Word ended[kEnded];
  uint32_t ended_used;  // guarded by the cold lock
};

// The process's own state of a thread slot. `use` is one word, so an attachment is one compare-exchange. THREAD_IDs
// are never reused, so a handle of an ended instrumentation never matches a living one.
// Threads: `state` is written under the cold lock before `use`; `retired` is guarded by the cold lock. Any thread changes `use`. A thread
// that sets kAttached (acquire) sees all that the thread that cleared it (release) did.
struct ThreadSlot {
  ThreadState* state;  // stays for the next thread of the slot
  Word use;            // THREAD_ID << 2 | bits below; 0 = free
  uint32_t retired;    // first ShmRetired that waits for this thread (record/probe/cells.h)
  static constexpr uint64_t kAttached = 1;
  static constexpr uint64_t kOwn = 2;  // owned by a thread of the system, which alone may attach it
};
ThreadSlot& SlotAt(uint32_t slot);

// The initial values of an instrumentation.
struct Birth {
  uint32_t class_index = 0;  // class of its thread instrument; 0 = none
  std::string_view name;     // full name, if it differs from that of the instrument
  uint64_t parent_thread_id = 0;
  std::string_view user, host;
  uint64_t processlist_id = 0;  // 0 = its THREAD_ID
  const void* identity = nullptr;
  uint64_t time = 0;  // when its thread was created, in picoseconds since the epoch; 0 = not known
};

// Makes the private tables. Called once under the cold lock.
bool StartThreads();

// Makes the calling thread's own instrumentation. Returns nullptr if the thread is ending, is detached, or there is
// no free slot. Without a slot, the event is counted as lost, and the thread, once. Preserves errno. Cold.
// REQUIRES: the thread has no instrumentation of its own.
[[gnu::noinline]] ThreadState* RegisterThisThread();
ThreadState* RegisterThisThread(const Birth& birth);

// Attaches an instrumentation to the calling thread; nullptr: none. A signal handler that comes in between finds none in `probed`.
inline void SetAttached(ThreadState* thread) {
  t_locals.probed = &g_no_thread;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_locals.state = thread;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (thread != nullptr) t_locals.probed = thread;
}
// Returns the attached instrumentation if it is in no wait and in no probe, else nullptr.
PFS_ALWAYS_INLINE ThreadState* FreeThread() {
  HotThreadState* const thread = t_locals.probed;
  return __builtin_expect(thread->nesting == 0, 1) ? static_cast<ThreadState*>(thread) : nullptr;
}

// Returns the instrumentation that is attached to the calling thread, and makes one if needed.
inline ThreadState* CurrentThread() {
  ThreadState* state = t_locals.state;
  return __builtin_expect(state != nullptr, 1) ? state : RegisterThisThread();
}

inline uint64_t CurrentThreadId() {  // 0 = not instrumented
  const ThreadState* thread = CurrentThread();
  return thread == nullptr ? 0 : thread->thread_id;
}

// Makes an instrumentation that the calling thread owns, or one that is attached to no thread. Returns nullptr if
// there is no free slot. REQUIRES: cold lock.
ThreadState* MakeThread(const Birth& birth, bool is_own);
// Moves up its statistics, leaves its records in history_long and frees its slot. REQUIRES: cold lock; no thread has
// it attached.
void EndInstrumentation(ThreadState& thread);

// Returns the system's id of the calling thread. Cached.
uint64_t OsIdOfThisThread();
// Returns the name of a thread of the system that was there before this library, of less than 128 bytes, or nullptr. nullptr: nobody knows.
using NameOfThread = const char*(uint64_t os_id);
extern NameOfThread* g_name_of_early_thread PFS_HIDDEN;
// Arranges that EndThread() runs when the calling thread ends.
void HearOfThreadEnd();

// Returns the INSTRUMENTED and HISTORY flags of a new thread of an instrument (0 = none) with account (user, host).
// The instrument (setup_threads) decides; setup_actors does, too, if the account has a user or the thread is a
// foreground thread. REQUIRES: cold lock.
uint32_t FlagsAtBirth(uint32_t class_index, std::string_view user, std::string_view host);
// Returns kThreadForeground if the instrument has the user flag, or if there is no instrument and a user; else 0.
// REQUIRES: cold lock.
uint32_t ForegroundFlag(uint32_t class_index, std::string_view user);

// Makes columns up to `end` of the thread's row, or of its slot's row of kGlobalCells, safe to store to. Returns
// false if the segment is full. Preserves errno. Cold.
[[gnu::noinline]] bool GrowCells(ThreadState& thread, uint32_t end);
[[gnu::noinline]] bool GrowGlobalCells(ThreadState& thread, uint32_t end);

// Stops writing to the parent's records. Called at once in a forked child.
void ForgetWorkInChild(ThreadState& thread);
// Continues threads in a forked child. The forking thread's attached and own instrumentations keep their THREAD_IDs;
// so do those of pfs_thread_new(), which are attached to no thread. `was_closed`: no thread of the parent was on the lock-free path.
void ContinueThreadsInChild(const ThreadState* own, const ThreadState* attached, bool was_closed);

// A slot gets its THREAD_ID last and loses it first. Returns true if no thread has the slot. REQUIRES: cold lock.
inline bool SlotIsFree(uint32_t slot) { return g_runtime.threads[slot].thread_id.load(kAcquire) == 0; }

}  // namespace perfschema
