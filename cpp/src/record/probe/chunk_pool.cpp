#include "record/probe/chunk_pool.h"

#include <cerrno>
#include <sys/mman.h>

namespace perfschema {
namespace {

constexpr uint32_t kQueues = 16;

// A place of a queue. `sequence` is relative to the position p that uses the place: 0 = free for the giver of p, 1 =
// filled for the taker of p. The taker stores the size of the queue, which is 0 for position p + size. It is stored
// minus p, so that zero bytes are an empty queue.
struct Place {
  HalfWord sequence;
  HalfWord chunk;
  Word given;  // cycle counter
};

// A bounded queue of many givers and takers (D. Vyukov's algorithm): a compare-exchange claims a position, and
// `sequence` hands it over.
// Threads: any thread.
struct alignas(128) Queue {
  alignas(64) HalfWord tail;  // next position to give to
  alignas(64) HalfWord head;  // next position to take from
  alignas(64) Place* places;
};

// The pool of one kind of events.
struct Queues {
  Queue queues[kQueues];
  uint32_t places_per_queue;  // a power of two
  uint64_t least_chunks, most_chunks;  // number of chunks for the rows of history_long: if all records take one place; if all take the most
  Word wide_chunks;  // full chunks with larger records, counted up to the difference
};
Queues pools[kEventKinds];

Queues& QueuesOf(Kind kind) { return pools[static_cast<uint32_t>(kind)]; }

uint32_t SequenceOf(const Place& place, uint32_t index) { return place.sequence.load(kAcquire) + index; }

bool Give(Queue& queue, uint32_t places_per_queue, uint32_t chunk, uint64_t now) {
  uint32_t position = queue.tail.load(kRelaxed);
  for (;;) {
    const uint32_t index = position & (places_per_queue - 1);
    Place& place = queue.places[index];
    const auto ahead = static_cast<int32_t>(SequenceOf(place, index) - position);
    if (ahead < 0) return false;  // full
    if (ahead > 0) {
      position = queue.tail.load(kRelaxed);
      continue;
    }
    if (!queue.tail.compare_exchange_weak(position, position + 1, kRelaxed)) continue;
    place.chunk.store(chunk, kRelaxed);
    place.given.store(now, kRelaxed);
    place.sequence.store(position + 1 - index, kRelease);  // pairs with SequenceOf in Take: the chunk and all stores to it
    return true;
  }
}

uint32_t Take(Queue& queue, uint32_t places_per_queue) {
  uint32_t position = queue.head.load(kRelaxed);
  for (;;) {
    const uint32_t index = position & (places_per_queue - 1);
    Place& place = queue.places[index];
    const auto ahead = static_cast<int32_t>(SequenceOf(place, index) - (position + 1));
    if (ahead < 0) return 0;  // empty
    if (ahead > 0) {
      position = queue.head.load(kRelaxed);
      continue;
    }
    if (!queue.head.compare_exchange_weak(position, position + 1, kRelaxed)) continue;
    const uint32_t chunk = place.chunk.load(kRelaxed);
    place.sequence.store(position + places_per_queue - index, kRelease);  // pairs with SequenceOf in Give
    return chunk;
  }
}

// Returns when the queue's oldest chunk was given; 0 = the queue is empty. The answer may be outdated.
uint64_t OldestIn(const Queue& queue, uint32_t places_per_queue) {
  const uint32_t position = queue.head.load(kRelaxed);
  if (position == queue.tail.load(kRelaxed)) return 0;
  const uint32_t index = position & (places_per_queue - 1);
  const Place& place = queue.places[index];
  return SequenceOf(place, index) == position + 1 ? place.given.load(kRelaxed) : 0;
}

// Returns true if a never-used chunk may be taken instead of one that holds events.
bool MayGrow(Kind kind) {
  const uint64_t used = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).used.load(kRelaxed);
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  const Queues& all = QueuesOf(kind);
  return used < all.least_chunks + all.wide_chunks.load(kRelaxed) + threads * ChunksOfThread(g_runtime.pool(kind).chunks_held);
}

uint32_t AllocateFresh(Kind kind) {
  const int error = errno;
  uint32_t chunk = 0;
  if (ColdLock lock; lock) {
    Segment& segment = g_runtime.segment;
    const Pool& pool = g_runtime.pool(kind);
    const ArrayId chunks = kChunksOf[static_cast<uint32_t>(kind)];
    const uint64_t next = segment.array(chunks).used.load(kRelaxed);
    const uint64_t begin = next * pool.pitch;
    if (next < segment.array(chunks).capacity &&
        segment.ReserveRange(kRecordsOf[static_cast<uint32_t>(kind)], begin, begin + PerChunk(kind) * pool.record_bytes)) {
      if (const int64_t fresh = segment.AllocateFresh(chunks); fresh > 0) chunk = static_cast<uint32_t>(fresh);
    }
  }
  errno = error;
  return chunk;
}

// Takes the oldest chunk of another queue, if it is clearly older than the own queue's. Each call checks another
// queue.
uint32_t TakeIfOlder(Queues& all, ChunkHold& hold, const Queue& own, uint64_t now) {
  const uint64_t own_oldest = OldestIn(own, all.places_per_queue);
  const uint64_t own_age = own_oldest == 0 ? 0 : now - own_oldest;
  for (uint32_t tried = 0; tried < kQueues; ++tried) {
    Queue& other = all.queues[hold.queue_to_check % kQueues];
    const uint64_t oldest = &other == &own ? 0 : OldestIn(other, all.places_per_queue);
    if (oldest != 0 && now - oldest > own_age + own_age / 8) return Take(other, all.places_per_queue);
    ++hold.queue_to_check;
    if (oldest != 0) break;
  }
  return 0;
}

bool StartQueues(Kind kind) {
  Queues& all = QueuesOf(kind);
  const auto rows = static_cast<uint64_t>(StartOptionsLocked().Get(kPools[static_cast<uint32_t>(kind)].history_long_size));
  all.least_chunks = ChunksInPool(ChunksFor(rows, PerChunk(kind)));
  all.most_chunks = ChunksInPool(MostChunksFor(kind, rows));
  const uint64_t capacity = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).capacity;
  all.places_per_queue = 64;
  while (all.places_per_queue < all.most_chunks + 64 || all.places_per_queue * kQueues < capacity * 2) all.places_per_queue *= 2;
  const size_t bytes = static_cast<size_t>(kQueues) * all.places_per_queue * sizeof(Place);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  for (uint32_t i = 0; i < kQueues; ++i) all.queues[i].places = static_cast<Place*>(memory) + static_cast<size_t>(i) * all.places_per_queue;
  return true;
}

}  // namespace

bool StartChunkPools() {
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    if (!StartQueues(static_cast<Kind>(kind))) return false;
  }
  return true;
}

void EmptyChunkPools() {
  // Another thread may have been in the middle of a give or take when fork() copied the queues: their content is
  // useless.
  for (Queues& all : pools) {
    madvise(all.queues[0].places, static_cast<size_t>(kQueues) * all.places_per_queue * sizeof(Place), MADV_DONTNEED);
    for (Queue& queue : all.queues) {
      queue.head.store(0, kRelaxed);
      queue.tail.store(0, kRelaxed);
    }
  }
}

void NoteWideChunk(Kind kind) {
  Queues& all = QueuesOf(kind);
  // Each wide chunk raises the limit by one, until all chunks could be wide. Threads that do so at once may add as
  // many chunks too many.
  if (all.wide_chunks.load(kRelaxed) < all.most_chunks - all.least_chunks) all.wide_chunks.fetch_add(1, kRelaxed);
}

void GiveChunk(Kind kind, uint32_t queue, uint32_t chunk, uint64_t now) {
  Queues& all = QueuesOf(kind);
  while (!Give(all.queues[queue % kQueues], all.places_per_queue, chunk, now)) ++queue;  // all queues together hold twice as many chunks as there are
}

uint32_t TakeChunk(Kind kind, ThreadState& thread, uint64_t now) {
  if (MayGrow(kind)) {
    if (const uint32_t chunk = AllocateFresh(kind); chunk != 0) return chunk;
  }
  Queues& all = QueuesOf(kind);
  ChunkHold& hold = thread.holds[static_cast<uint32_t>(kind)];
  Queue& own = all.queues[thread.slot % kQueues];
  // Checking another queue costs cache misses on both sides, so it is rare. But it happens at least once before this
  // thread recycles a quarter of its own queue: that quarter is the slack of the pool over history_long. Other
  // threads may have emptied the queue meanwhile.
  const uint32_t quarter = (own.tail.load(kRelaxed) - own.head.load(kRelaxed)) / 4;
  if (hold.takes_until_check > quarter) hold.takes_until_check = quarter;
  if (hold.takes_until_check == 0) {
    if (const uint32_t chunk = TakeIfOlder(all, hold, own, now); chunk != 0) return chunk;  // there may be more: check again at the next take
    hold.takes_until_check = quarter;
  } else {
    --hold.takes_until_check;
  }
  if (const uint32_t chunk = Take(own, all.places_per_queue); chunk != 0) return chunk;
  for (Queue& queue : all.queues) {
    if (const uint32_t chunk = Take(queue, all.places_per_queue); chunk != 0) return chunk;
  }
  return AllocateFresh(kind);  // running events keep all chunks
}

}  // namespace perfschema
