// record/probe/events.h: the pool of event records: chunks that threads take, fill and give back to the pool.
#pragma once

#include "record/context/threads.h"

namespace perfschema {

// Gives the thread a new chunk of records of a kind, and puts the oldest chunk that it no longer needs into the pool.
// Preserves errno. Returns false if no chunk is available; the event counts as lost. Called once a chunk; lock-free
// once the pool has its size. `flags`: those of the event that needs the chunk.
[[gnu::noinline]] bool NextChunk(ThreadState& thread, Kind kind, uint32_t flags);
// Does the same for waits. If no chunk is available, the next record is a scratch record of the thread; the one after it comes here again.
[[gnu::noinline]] void NextWaitChunk(ThreadState& thread, uint32_t flags);

// Removes a wait that is not the innermost from the open waits (if it is there), and returns the nesting without it.
// The program's begin/end pairs may overlap, and a longjmp may have left others open.
[[gnu::noinline]] uint64_t NestingWithout(ThreadState& thread, const ShmWaitRecord* record);

// Keeps the chunk of a record for a history's length from now on. The record ended outside the chunk being written.
[[gnu::noinline]] void KeepChunkOf(ThreadState& thread, Kind kind, const ShmRecord* record);

// Drops and counts the innermost open waits that began below `frame`: a longjmp has passed over them.
void DropAbandonedWaits(ThreadState& thread, const void* frame);

// Returns the innermost open event of the thread, else its last one; 0: it has had none. REQUIRES: the calling
// thread.
inline uint64_t CurrentEventId(const ThreadState& thread) {
  const uint32_t depth = thread.wait_depth();
  return depth == 0 ? thread.event_id : thread.open_waits[depth - 1].record->event_id.load(kRelaxed);
}

// Gives back all chunks when a thread ends. REQUIRES: cold lock.
void GiveAllChunks(ThreadState& thread);

}  // namespace perfschema
