// record/probe/chunk_pool.h: queues of full chunks that wait to be recycled, the oldest first.
//
// One queue for all threads would hand every chunk to another core: a cache miss on each line that is written, and
// two threads slower than one. So the pool has several queues: one for each four processors, at least 16. A thread
// uses the queue of its slot. Now and then it compares that queue's oldest chunk with another queue's. If the other
// chunk is clearly older (its thread is slower, or gone) the thread takes that one. The pool keeps the newest records
// of the whole process, within the extra quarter that ChunksInPool adds.
//
// Small chunks (shm/records.h) pass through the same queues, so that the chunks of a thread are taken in their order.
// But only a thread that begins writes to one. Another taker empties it, puts it aside for such a thread, and takes
// the next. A thread that begins takes a small chunk that was put aside, or a fresh one if it is the first thread of
// its slot (or, if KeepsShortThreads(), while the pool grows), or the oldest chunk that TakeFirst finds. So a thread that goes
// on fills chunks of the full size, and a thread has no earlier event than those in its small chunk: what it holds for
// its history is as much as without small chunks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "record/context/threads.h"

namespace perfschema {

// Beyond 512 processors more than four share a queue.
inline constexpr uint32_t kLeastQueues = 16, kMostQueues = 128;
// Returns the number of queues, a power of two: a thread finds its own by a mask.
constexpr uint32_t QueuesFor(uint32_t processors) {
  return std::clamp(std::bit_ceil((std::min(processors, 4 * kMostQueues) + 3) / 4), kLeastQueues, kMostQueues);
}
// What tests set before pfs starts: QueuesFor() this many processors; 0 = those that the system has.
extern uint32_t g_assumed_processors PFS_HIDDEN;
// Returns the number of queues of each kind of events. REQUIRES: StartChunkPools().
uint32_t ChunkQueues();

// Makes a pool for each kind of events. Called once under the cold lock. The pools are private memory: readers find
// records by scanning the chunks.
bool StartChunkPools();
// Empties the pools in a forked child: all chunks are gone.
void EmptyChunkPools();

// Notes that records of a full chunk took more than one place: history_long needs more chunks.
// Threads: any thread.
void NoteWideChunk(Kind kind);
// Notes that a longjmp has left a change of chunks. One may be lost, in no queue and with no thread: the pool may grow by it. If none was,
// it has one more than it needs.
// Threads: any thread.
void NoteLostChunk(Kind kind);
// Puts a chunk last in its queue. `idle`: its places without an event, if its thread has ended and KeepsShortThreads().
// Threads: any thread.
void GiveChunk(Kind kind, uint32_t queue, uint32_t chunk, uint32_t idle);
// Returns the place for long texts of a statement's record, with memory; nullptr if there is none. Preserves errno. Cold at the first call
// for a space.
// Threads: any thread; the caller has the record's chunk.
char* LongTextsOf(const ShmStatementRecord& record);
// Returns the chunk to write next, 0 if there is none. `now`: the approximate cycle counter.
// Threads: any thread; `thread` is the caller.
uint32_t TakeChunk(Kind kind, ThreadState& thread, uint64_t now);

}  // namespace perfschema
