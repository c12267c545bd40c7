// record/probe/chunk_pool.h: chunks of finished records on their way to be written again, the oldest first.
//
// One queue for all threads would hand every chunk to another core: a miss on each line that is written, and two threads slower than
// one. So the pool has queues. A thread gives to and takes from the queue of its slot, and now and then compares that queue's oldest chunk with
// another queue's: if the other is clearly older (its thread is slower, or gone) it takes that one. What is kept is the newest of the
// whole process, within a quarter that ChunksInPool adds.
#pragma once

#include <cstdint>

#include "record/context/threads.h"

namespace perfschema {

// Each kind of events has a pool. Under the cold lock, once. The pools are private memory: readers find records by scanning the chunks.
bool StartChunkPools();
// In a forked child: all chunks are gone.
void EmptyChunkPools();

// A chunk is full in which records took more than one place: history_long needs more chunks.
// Threads: any thread.
void NoteWideChunk(Kind kind);
// Puts a chunk last in its queue. `now`: the cycle counter, about.
// Threads: any thread.
void GiveChunk(Kind kind, uint32_t queue, uint32_t chunk, uint64_t now);
// The chunk to write next, 0 if there is none.
// Threads: any thread; `thread` is the caller.
uint32_t TakeChunk(Kind kind, ThreadState& thread, uint64_t now);

}  // namespace perfschema
