// record/context/threads.h: the instrumentation of threads: what events of a thread are counted and recorded with.
//
// A thread of the system makes one for itself at its first event and ends it when it ends: its own. One that pfs_thread_new() made
// (record/context/attach.h) is attached to one thread of the system after the other. Chunks, cells and open waits belong to the instrumentation.
//
// ThreadSlot.use is one word. A thread takes it by one compare-exchange (acquire) and gives it back with a release, so an
// instrumentation has one writer at a time. A detached thread counts nothing until something is attached.
#pragma once

#include <cstdint>
#include <string_view>

#include "record/engine/runtime.h"
#include "record/engine/sources.h"

namespace perfschema {

// Which cell of an object is this thread's: a cache in front of the object's lists. See cells.h.
inline constexpr int kKeyIndexBits = 25;  // of a key: options limit each array of objects to fewer elements
struct CellCache {
  static constexpr uint32_t kEntries = 256;
  struct Entry {
    uint64_t key;  // CellKey(); 0 = empty
    uint32_t cell;
  } entries[kEntries];
  // Lanes of one object are neighbours' neighbours: (index << 2) keeps the first four apart.
  static uint32_t Place(uint64_t key) { return static_cast<uint32_t>((key << 2) ^ (key >> 6) ^ (key >> kKeyIndexBits)) & (kEntries - 1); }
};

// Of no object and no thread.
inline ShmCell no_cell{};

// Where the next record of a kind goes.
struct RecordCursor {
  ShmRecord* next;    // == end: take a chunk
  ShmRecord* end;
  uint64_t lap_bits;  // lap of the chunk << 32
};

// A chunk that is full but still needed: by the thread's history, or by an event in it that has not ended.
struct HeldChunk {
  uint32_t chunk;
  uint64_t until;  // value of ChunkHold::chunks_taken at which it may be given away
};

// The chunks of a kind that a thread has.
struct ChunkHold {
  uint32_t chunk;  // the one being written, 0 = none
  uint64_t chunks_taken;
  uint64_t traced;  // traced events in the full ones of these (ShmChunk::traced)
  uint32_t trace_wish;  // when the one being written was taken
  bool has_traced;      // it has such an event, whatever the wish
  uint32_t takes_to_look;  // until the pool looks into another queue, and which
  uint32_t queue_to_look;
  uint32_t held_count;
  static constexpr uint32_t kMaxHeld = 1024 / 8 + 48;
  HeldChunk held[kMaxHeld];
};

// The stage that runs.
struct OpenStage {
  ShmStageRecord* record;  // nullptr = not recorded
  uint64_t begun_state;    // of the record
  uint64_t event_id;       // 0 = not recorded
  uint64_t start_ticks;
  uint32_t flags;
  uint32_t class_index;    // 0 = none runs
};

// A statement that runs; its numbers are in the caller's pfs_statement_t, which may be gone.
struct OpenStatement {
  ShmStatementRecord* record;
  uint64_t begun_state;
  uint64_t event_id;  // 0 = not recorded
  uint64_t serial;    // tells it from all others of the thread
  const void* place;  // of the caller's pfs_statement_t
  uint32_t room;      // where its texts are
  bool is_on_stack;   // of the thread: it can be told when that memory has been given back
  bool is_overtaken;  // one that began before it has ended
};

// The transaction that is active.
struct OpenTransaction {
  ShmTransactionRecord* record;
  uint64_t begun_state;
  uint64_t event_id;
  uint64_t serial;  // 0 = none
};

// Private memory of one instrumentation. The hot part comes first.
// Threads: the thread that it is attached to only (signal handlers on it included: see `nesting`).
struct ThreadState {
  // Every event.
  RecordCursor waits;
  uint64_t event_id;           // last EVENT_ID given
  uint64_t thread_id;
  ShmThread* shared;
  ShmCell* cells;              // its row of kThreadCells
  uint32_t cell_count;         // columns that may be stored to
  bool waits_have_details;     // some in the chunk that is being written
  // Number of open waits that have records. While a probe of this thread is inside, its place on the stack is added: a signal handler that comes then must
  // not touch the rest, and a longjmp out of the probe is noticed. One comparison with 0 finds all that is unusual.
  uint64_t nesting;
  uint32_t slot;               // index into kThreads
  // The cell that it last used of an object that it did not hold exclusively: that of the read lock which it is about to let go, mostly. May be
  // another's by now; cell.owner and cell.instance tell.
  ShmCell* shared_cell = &no_cell;
  // What a wait that is in no other wait is nested in: the stage, else the innermost statement. Its type (kNesting...) << 24.
  uint64_t parent_event_id;
  uint64_t parent_type;
  // Most memory of its session since the peaks were last lowered (record/family/memory.h).
  uint64_t controlled_memory_peak, total_memory_peak;

  ShmWaitRecord* open_waits[kMaxNestedWaits];  // outermost first
  const void* wait_frames[kMaxNestedWaits];  // stack frames they began in, to find those that a longjmp left behind

  // Where the words of an event go when no chunk can be had: nobody reads them.
  ShmWaitRecord scratch[kPools[0].most_places];

  static constexpr uint64_t kDepthMask = 7;  // places on the stack are multiples of 8
  static_assert(kMaxNestedWaits <= kDepthMask);
  static constexpr int kNestingTypeShift = 24;
  static constexpr uint64_t kInWait = uint64_t{kNestingWait} << kNestingTypeShift;
  uint32_t wait_depth() const { return static_cast<uint32_t>(nesting & kDepthMask); }
  static constexpr bool IsInside(uint64_t nesting) { return nesting > kDepthMask; }
  bool inside() const { return IsInside(nesting); }
  uint64_t outside() const { return nesting & kDepthMask; }  // what `nesting` is when the probe is left

  // Stages, statements and transactions.
  RecordCursor cursors[kEventKinds];  // [0] is not used: `waits` is
  RecordCursor& CursorOf(Kind kind) { return kind == Kind::kWait ? waits : cursors[static_cast<uint32_t>(kind)]; }
  ChunkHold holds[kEventKinds];
  ShmCell* global_cells;              // its row of kGlobalCells
  uint32_t global_cell_count;
  uint64_t serials;                   // statements and transactions so far
  OpenStage stage;
  OpenTransaction transaction;
  uint32_t statement_depth;           // of those that run and are recorded
  // Texts of the statements that run (record/family/text_buffers.h).
  char* texts;
  // What it does by turns (record/context/tasks.h): nullptr = its own. `own_work` is there as soon as it has had a task.
  struct Task* task;
  struct Task* own_work;
  struct Task* tasks;
  // Which cell of a digest, program or prepared statement is this thread's.
  static constexpr uint32_t kStatementCellEntries = 64;
  struct {
    const ShmStatementObject* object;
    ShmStatementCell* cell;
  } statement_cells[kStatementCellEntries];
  OpenStatement statements[kMaxStatementStack];  // outermost first; [max_statement_stack...] are not kept

  SourceCache sources;
  CellCache found_cells;
  const void* identity;        // what pfs_thread_new() was given
};

// What the process itself knows of a thread slot. `use` is one word, so that an attachment is one compare-exchange, and a handle of an
// instrumentation that is gone is told from a living one: THREAD_IDs are never given twice.
// Threads: `state` is written under the cold lock before `use`; `use`: any thread. Whoever sets kAttached (acquire) has all that was done by the
// thread that took it away (release).
struct ThreadSlot {
  ThreadState* state;  // kept for the next thread of the slot
  Word use;            // THREAD_ID << 2 | bits below; 0 = free
  static constexpr uint64_t kAttached = 1;
  static constexpr uint64_t kOwn = 2;  // of a thread of the system, which alone may attach it
};
ThreadSlot& SlotAt(uint32_t slot);

// What an instrumentation begins with.
struct Birth {
  uint32_t class_index = 0;  // of its thread instrument; 0 = none
  std::string_view name;     // full name, if it is not its instrument's
  uint64_t parent_thread_id = 0;
  std::string_view user, host;
  uint64_t processlist_id = 0;  // 0 = its THREAD_ID
  const void* identity = nullptr;
};

// Under the cold lock, once.
bool StartThreads();

// The calling thread's own instrumentation, which it has none of yet. nullptr: the thread is ending, or it was detached; or no room, and then the event
// that asked is counted as lost, and the thread, once.
// Preserves errno. Cold.
[[gnu::noinline]] ThreadState* RegisterThisThread();
ThreadState* RegisterThisThread(const Birth& birth);

// What is attached to the calling thread.
inline ThreadState* CurrentThread() {
  ThreadState* state = t_locals.state;
  return __builtin_expect(state != nullptr, 1) ? state : RegisterThisThread();
}

inline uint64_t CurrentThreadId() {  // 0 = not instrumented
  const ThreadState* thread = CurrentThread();
  return thread == nullptr ? 0 : thread->thread_id;
}

// A new instrumentation: the calling thread's own, or one that is attached to nobody. nullptr: no room. REQUIRES: cold lock.
ThreadState* MakeThread(const Birth& birth, bool is_own);
// Its numbers move up, its records stay in history_long, its slot is free. REQUIRES: cold lock; it is attached to nobody.
void EndInstrumentation(ThreadState& thread);

// What the calling thread is in the system. Cached.
uint64_t OsIdOfThisThread();
// EndThread will be called when the calling thread ends.
void HearOfThreadEnd();

// INSTRUMENTED and HISTORY of a thread of an instrument (0 = none) that works for (user, host) from its birth on: its instrument says
// (setup_threads), and setup_actors if it works for somebody or is a foreground thread. REQUIRES: cold lock.
uint32_t FlagsAtBirth(uint32_t class_index, std::string_view user, std::string_view host);
// kThreadForeground or 0: its instrument has the user flag; one without an instrument works for a user. REQUIRES: cold lock.
uint32_t ForegroundFlag(uint32_t class_index, std::string_view user);

// Makes columns up to `end` of the thread's row, or of its slot's row of kGlobalCells, safe to store to. False: no room. Preserves errno. Cold.
[[gnu::noinline]] bool GrowCells(ThreadState& thread, uint32_t end);
[[gnu::noinline]] bool GrowGlobalCells(ThreadState& thread, uint32_t end);

// In a forked child, at once: nothing of the parent's is written through this one any more.
void ForgetWorkInChild(ThreadState& thread);
// In a forked child. With their THREAD_IDs live on: what the forking thread had attached, its own, and those of pfs_thread_new(), attached to
// nobody.
void ContinueThreadsInChild(const ThreadState* own, const ThreadState* attached);

// THREAD_IDs are set free of their slots in the order of death. True if nobody has the slot. REQUIRES: cold lock.
inline bool SlotIsFree(uint32_t slot) { return g_runtime.threads[slot].thread_id.load(kAcquire) == 0; }

}  // namespace perfschema
