// record/threads.h: what the library knows of a thread. Registered at its first event, given back when it ends.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "record/runtime.h"
#include "record/sources.h"

namespace perfschema {

// Which cell of an object is this thread's: a cache in front of the object's lists. See cells.h.
struct CellCache {
  static constexpr uint32_t kEntries = 256;
  struct Entry {
    uint64_t key;  // kind, lane, version and index of the object; 0 = empty
    uint32_t cell;
  } entries[kEntries];
  // Lanes of one object are neighbours' neighbours: (index << 2) keeps the first four apart.
  static uint32_t Place(uint64_t key) { return static_cast<uint32_t>((key << 2) ^ (key >> 6) ^ (key >> 48)) & (kEntries - 1); }
};

// Of no object and no thread.
inline ShmCell no_cell{};

// A chunk that is full but still needed: by the thread's history, or by an event in it that has not ended.
struct HeldChunk {
  uint32_t chunk;
  uint64_t until;  // value of ThreadState::chunks_taken at which it may be given away
};

// Private memory of one thread. The hot part comes first.
// Threads: owner thread only (signal handlers on it included: see `guard`).
struct ThreadState {
  // Every event.
  ShmWaitRecord* next_record;  // == records_end: take a chunk
  ShmWaitRecord* records_end;
  uint64_t lap_bits;           // lap of the chunk << 32
  uint64_t event_id;           // last EVENT_ID given
  uint64_t thread_id;
  ShmThread* shared;
  ShmCell* cells;              // its row of kThreadCells
  uint32_t cell_count;         // columns that may be stored to
  // Type (kNesting...) of the innermost open event << 24 | number of open waits that have records | kInside while a probe of this thread is inside: a signal
  // handler that comes then must not touch the rest. One comparison finds both "inside" and "too deep".
  uint64_t nesting;
  uint32_t slot;               // index into kThreads
  // The cell that it last used of an object that it did not hold exclusively: that of the read lock which it is about to let go, mostly. May be
  // another's by now; cell.owner and cell.instance tell.
  ShmCell* shared_cell = &no_cell;

  // Every chunk.
  uint32_t chunk;              // the one being written, 0 = none
  uint64_t chunks_taken;
  uint32_t takes_to_look;      // until the pool looks into another lane, and which
  uint32_t lane_to_look;
  uint32_t held_count;
  static constexpr uint32_t kMaxHeld = 32 + 4 * kMaxNestedWaits;
  HeldChunk held[kMaxHeld];
  ShmWaitRecord* open_waits[kMaxNestedWaits];  // outermost first
  const void* wait_frames[kMaxNestedWaits];  // stack frames they began in, to find those that a longjmp left behind

  // Where the words of an event go when no chunk can be had: nobody reads it.
  ShmWaitRecord scratch;

  static constexpr uint64_t kInside = 0x80;
  static constexpr uint64_t kDepthMask = 0x7f;
  static constexpr int kNestingTypeShift = 24;
  uint32_t wait_depth() const { return static_cast<uint32_t>(nesting & kDepthMask); }
  bool inside() const { return (nesting & kInside) != 0; }

  SourceCache sources;
  CellCache found_cells;
  uint32_t end_calls;          // times the thread-exit destructor was put off
};

// Under the cold lock, once.
bool StartThreads();

// This thread's state, registering it if it is new. nullptr: no room, or the thread is ending. Preserves errno. Cold.
[[gnu::noinline]] ThreadState* RegisterThisThread();

inline ThreadState* CurrentThread() {
  ThreadState* state = t_locals.state;
  return __builtin_expect(state != nullptr, 1) ? state : RegisterThisThread();
}

// Makes column `class_index` of the thread's row safe to store to. False: no room. Preserves errno. Cold.
[[gnu::noinline]] bool GrowCells(ThreadState& thread, uint32_t class_index);

// In a forked child: only the calling thread lives on, with its THREAD_ID.
void ContinueThreadInChild();

// Of the calling thread. The name "component/name" is shown as thread/component/name.
Status SetThreadName(std::string_view name);
Status SetAccount(std::string_view user, std::string_view host);
uint64_t CurrentThreadId();  // 0 = not instrumented

// THREAD_IDs are set free of their slots in the order of death. True if nobody has the slot. REQUIRES: cold lock.
inline bool SlotIsFree(uint32_t slot) { return g_runtime.threads[slot].thread_id.load(kAcquire) == 0; }

}  // namespace perfschema
