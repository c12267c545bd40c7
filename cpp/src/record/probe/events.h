// record/probe/events.h: the pool of event records: chunks that threads take, fill and give back to the pool.
#pragma once

#include "record/context/threads.h"

namespace perfschema {

// Gives the thread a new chunk of records of a kind, and the oldest one that it no longer needs to the pool. Preserves errno. False: no chunk
// could be had, the event counts as lost. Called once a chunk: lock-free once the pool has its size. `flags`: of the event that it is taken for.
[[gnu::noinline]] bool NextChunk(ThreadState& thread, Kind kind, uint32_t flags);
// The same for waits: where no chunk can be had the next record is the thread's scratch record.
[[gnu::noinline]] void NextWaitChunk(ThreadState& thread, uint32_t flags);

// A wait ends that is not the innermost: users' begin/end pairs may overlap, and a longjmp may have left others open. Takes it out of the
// open waits (if it is there) and returns the nesting without it.
[[gnu::noinline]] uint64_t NestingWithout(ThreadState& thread, const ShmWaitRecord* record);

// A record outside the chunk being written ended: its chunk must stay for a history's length from now on.
[[gnu::noinline]] void KeepChunkOf(ThreadState& thread, Kind kind, const ShmRecord* record);

// Drops and counts the innermost open waits that began below `frame`: a longjmp has passed over them.
void DropAbandonedWaits(ThreadState& thread, const void* frame);

// The event that the thread is in: the innermost open one, else its last one. 0: it has had none. REQUIRES: the calling thread.
inline uint64_t CurrentEventId(const ThreadState& thread) {
  const uint32_t depth = thread.wait_depth();
  return depth == 0 ? thread.event_id : thread.open_waits[depth - 1]->event_id.load(kRelaxed);
}

// At the end of a thread. REQUIRES: cold lock.
void GiveAllChunks(ThreadState& thread);

}  // namespace perfschema
