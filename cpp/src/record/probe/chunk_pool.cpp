#include "record/probe/chunk_pool.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "record/probe/chunk_queue.h"

namespace perfschema {
namespace {

// The pool of one kind of events.
struct Queues {
  ChunkQueue queues[kMostQueues];      // the first ones are in use
  uint32_t last_queue;                 // their number, a power of two, less one
  uint32_t places_per_queue;           // a power of two
  uint64_t least_chunks, most_chunks;  // number of chunks for the rows of history_long: if all records take one place; if all take the most
  Word wide_chunks;                    // full chunks with larger records, counted up to the difference
};
constinit Queues pools[kEventKinds] = {};

Queues& QueuesOf(Kind kind) { return pools[static_cast<uint32_t>(kind)]; }

// Returns the number of processors that the calling thread may run on; 0 = unknown.
uint32_t CountProcessors() {
  if (g_assumed_processors != 0) return g_assumed_processors;
  uint64_t allowed[128] = {};  // for the 8,192 processors that a kernel may have
  const int error = errno;
  const int64_t bytes = syscall(SYS_sched_getaffinity, 0, sizeof allowed, allowed);
  errno = error;
  uint32_t processors = 0;
  for (int64_t i = 0; i < bytes / 8; ++i) processors += static_cast<uint32_t>(std::popcount(allowed[i]));
  return processors;
}

// Returns when the queue's oldest chunk was taken for its events; 0 = the queue is empty. The answer may be outdated.
uint64_t OldestIn(Kind kind, const ChunkQueue& queue, uint32_t places_per_queue) {
  const uint32_t position = queue.head.load(kRelaxed);
  const uint32_t index = position & (places_per_queue - 1);
  const uint64_t place = queue.places[index].load(kAcquire);  // pairs with Give
  return Ahead(place, index, position) == 1 ? g_runtime.pool(kind).chunks[static_cast<uint32_t>(place)].taken.load(kRelaxed) : 0;
}

// Returns true if a never-used chunk may be taken instead of one that holds events.
bool MayGrow(Kind kind) {
  const uint64_t used = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).used.load(kRelaxed);
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  const Queues& all = QueuesOf(kind);
  return used < all.least_chunks + all.wide_chunks.load(kRelaxed) + threads * ChunksOfThread(g_runtime.pool(kind).chunks_held);
}

static_assert(PerChunk(Kind::kWait) * sizeof(ShmWaitRecord) <= 4096, "NextChunk relies on it: a chunk of waits has memory for all at once");

// Returns how many records fit into the pages that the first one needs.
uint32_t RecordsAtFirst(Kind kind, uint64_t record_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(PerChunk(kind), (record_bytes + 4095) / 4096 * 4096 / record_bytes));
}

uint32_t AllocateFresh(Kind kind, bool is_first_of_thread) {
  const int error = errno;
  uint32_t chunk = 0;
  if (ColdLock lock; lock) {
    Segment& segment = g_runtime.segment;
    const Pool& pool = g_runtime.pool(kind);
    const ArrayId chunks = kChunksOf[static_cast<uint32_t>(kind)];
    const uint64_t next = segment.array(chunks).used.load(kRelaxed);
    const uint64_t begin = next * pool.pitch;
    const uint32_t ready = is_first_of_thread ? RecordsAtFirst(kind, pool.record_bytes) : PerChunk(kind);
    if (next < segment.array(chunks).capacity &&
        segment.ReserveRange(kRecordsOf[static_cast<uint32_t>(kind)], begin, begin + ready * pool.record_bytes)) {
      if (const int64_t fresh = segment.AllocateFresh(chunks); fresh > 0) {
        chunk = static_cast<uint32_t>(fresh);
        pool.chunks[chunk].without_memory.store(PerChunk(kind) - ready, kRelease);  // before the lap; pairs with ShmChunk::Ready
      }
    }
  }
  errno = error;
  return chunk;
}

// Takes the oldest chunk of another queue, if it is clearly older than the own queue's. Each call checks another
// queue.
uint32_t TakeIfOlder(Kind kind, ChunkHold& hold, const ChunkQueue& own, uint64_t now) {
  Queues& all = QueuesOf(kind);
  const uint64_t own_oldest = OldestIn(kind, own, all.places_per_queue);
  const uint64_t own_age = own_oldest == 0 ? 0 : now - own_oldest;
  // A thread gives to the queue of its slot: those behind the last slot are empty.
  const uint64_t slots = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  const auto in_use = static_cast<uint32_t>(std::min<uint64_t>(slots, all.last_queue + 1));
  for (uint32_t tried = 0; tried < in_use; ++tried) {
    if (hold.queue_to_check >= in_use) hold.queue_to_check = 0;
    ChunkQueue& other = all.queues[hold.queue_to_check];
    const uint64_t oldest = &other == &own ? 0 : OldestIn(kind, other, all.places_per_queue);
    if (oldest != 0 && now - oldest > own_age + own_age / 8) return Take(other, all.places_per_queue);
    ++hold.queue_to_check;
    if (oldest != 0) break;
  }
  return 0;
}

bool StartQueues(Kind kind, uint32_t queues) {
  Queues& all = QueuesOf(kind);
  all.last_queue = queues - 1;
  const auto rows = static_cast<uint64_t>(StartOptionsLocked().Get(kPools[static_cast<uint32_t>(kind)].history_long_size));
  all.least_chunks = ChunksInPool(ChunksFor(rows, PerChunk(kind)));
  all.most_chunks = ChunksInPool(MostChunksFor(kind, rows));
  const uint64_t capacity = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).capacity;
  all.places_per_queue = 64;
  while (all.places_per_queue < all.most_chunks + 64 || all.places_per_queue * queues < capacity * 2) all.places_per_queue *= 2;
  const size_t bytes = static_cast<size_t>(queues) * all.places_per_queue * sizeof(ChunkPlace);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  for (uint32_t i = 0; i < queues; ++i)
    all.queues[i].places = static_cast<ChunkPlace*>(memory) + static_cast<size_t>(i) * all.places_per_queue;
  return true;
}

}  // namespace

uint32_t g_assumed_processors = 0;

uint32_t ChunkQueues() { return pools[0].last_queue + 1; }

bool StartChunkPools() {
  const uint32_t queues = QueuesFor(CountProcessors());
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    if (!StartQueues(static_cast<Kind>(kind), queues)) return false;
  }
  return true;
}

void EmptyChunkPools() {
  // Another thread may have been in the middle of a give or take when fork() copied the queues: their content is
  // useless.
  for (Queues& all : pools) {
    madvise(all.queues[0].places, (size_t{all.last_queue} + 1) * all.places_per_queue * sizeof(ChunkPlace), MADV_DONTNEED);
    for (uint32_t i = 0; i <= all.last_queue; ++i) {
      all.queues[i].head.store(0, kRelaxed);
      all.queues[i].tail.store(0, kRelaxed);
    }
  }
}

void NoteWideChunk(Kind kind) {
  Queues& all = QueuesOf(kind);
  // Each wide chunk raises the limit by one, until all chunks could be wide. Threads that do so at once may add as
  // many chunks too many.
  if (all.wide_chunks.load(kRelaxed) < all.most_chunks - all.least_chunks) all.wide_chunks.fetch_add(1, kRelaxed);
}

void GiveChunk(Kind kind, uint32_t queue, uint32_t chunk) {
  Queues& all = QueuesOf(kind);
  while (!Give(all.queues[queue & all.last_queue], all.places_per_queue, chunk))
    ++queue;  // all queues together hold twice as many chunks as there are
}

bool CompleteChunk(Kind kind, uint32_t chunk) {
  const int error = errno;
  bool is_complete = false;
  if (ColdLock lock; lock) {
    const Pool& pool = g_runtime.pool(kind);
    ShmChunk& shared = pool.chunks[chunk];
    const uint64_t begin = chunk * pool.pitch;
    is_complete =
        g_runtime.segment.ReserveRange(kRecordsOf[static_cast<uint32_t>(kind)], begin + shared.Ready(PerChunk(kind)) * pool.record_bytes,
                                       begin + PerChunk(kind) * pool.record_bytes);
    if (is_complete) shared.without_memory.store(0, kRelease);  // before the records; pairs with ShmChunk::Ready
  }
  errno = error;
  return is_complete;
}

uint32_t TakeChunk(Kind kind, ThreadState& thread, uint64_t now) {
  ChunkHold& hold = thread.holds[static_cast<uint32_t>(kind)];
  if (const uint32_t spare = std::exchange(thread.spare_chunks[static_cast<uint32_t>(kind)], 0); spare != 0) return spare;
  if (MayGrow(kind)) {
    if (const uint32_t chunk = AllocateFresh(kind, hold.chunks_taken == 1); chunk != 0) return chunk;
  }
  Queues& all = QueuesOf(kind);
  ChunkQueue& own = all.queues[thread.slot & all.last_queue];
  // Checking another queue costs cache misses on both sides, so it is rare. But it happens at least once before this
  // thread recycles a quarter of its own queue: that quarter is the slack of the pool over history_long. Other
  // threads may have emptied the queue meanwhile.
  const uint32_t quarter = (own.tail.load(kRelaxed) - own.head.load(kRelaxed)) / 4;
  if (hold.takes_until_check > quarter) hold.takes_until_check = quarter;
  if (hold.takes_until_check == 0) {
    if (const uint32_t chunk = TakeIfOlder(kind, hold, own, now); chunk != 0)
      return chunk;  // there may be more: check again at the next take
    hold.takes_until_check = quarter;
  } else {
    --hold.takes_until_check;
  }
  if (const uint32_t chunk = Take(own, all.places_per_queue); chunk != 0) return chunk;
  for (uint32_t i = 0; i <= all.last_queue; ++i) {
    if (const uint32_t chunk = Take(all.queues[i], all.places_per_queue); chunk != 0) return chunk;
  }
  return AllocateFresh(kind, hold.chunks_taken == 1);  // running events keep all chunks
}

}  // namespace perfschema
