#include "record/probe/chunk_pool.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/private_memory.h"
#include "record/probe/chunk_queue.h"
#include "record/probe/trace.h"
#include "shm/plan.h"

namespace perfschema {
namespace {

// The pool of one kind of events.
struct Queues {
  ChunkQueue queues[kMostQueues];      // the first ones are in use
  uint32_t last_queue;                 // their number, a power of two, less one
  uint32_t places_per_queue;           // a power of two
  uint32_t small_places;               // of `small`, likewise
  ChunkQueue small;                    // small chunks without rows, put aside
  Word aside;                          // their number
  uint64_t least_chunks, most_chunks;  // number of chunks for the rows of history_long: if all records take one place; if all take the most
  uint64_t traced_chunks;              // as least_chunks, while the trace is on
  Word wide_chunks;                    // full chunks with larger records, counted up to the difference
  Word lost_chunks;                    // changes of chunks that a longjmp has left
  HalfWord* idle_of;                   // by chunk: places without a row, while it is in a queue
  Word idle;                           // their sum, with the places of chunks that are ready for a thread
  std::atomic<bool>* has_long_texts;   // by space: its places for long texts have memory
};
constinit Queues pools[kEventKinds] = {};

// What has been taken of the arrays of a kind. Threads: changed under the cold lock; other threads read the counts.
struct Taken {
  Word chunks, small_chunks;  // that there are; the former counts from 1
  uint64_t spaces;            // from 1
};
constinit Taken taken[kEventKinds] = {};

Taken& TakenOf(Kind kind) { return taken[static_cast<uint32_t>(kind)]; }
void ForgetTaken() {
  for (Taken& of_kind : taken) {
    of_kind.chunks.store(1, kRelaxed);
    of_kind.small_chunks.store(0, kRelaxed);
    of_kind.spaces = 1;
  }
}

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

// Returns true if a never-used chunk may be taken instead of one that holds events: history_long lacks places. Each thread has a small
// chunk besides. Where rows of short threads are kept, small chunks of ended threads count, and a chunk that its thread has left half empty
// lets the pool grow by what it lacks. So does a chunk that is ready for a thread.
bool MayGrow(Kind kind) {
  const Queues& all = QueuesOf(kind);
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  const uint64_t for_rows = (g_trace_wish.load(kRelaxed) & 1) != 0 ? all.traced_chunks : all.least_chunks;
  const uint64_t more = all.wide_chunks.load(kRelaxed) + all.lost_chunks.load(kRelaxed);
  const uint64_t most = for_rows + more + threads * ChunksOfThread(g_runtime.pool(kind).chunks_held);
  uint64_t places = TakenOf(kind).chunks.load(kRelaxed) * PerChunk(kind);
  if (KeepsShortThreads(kind)) {
    const uint64_t small = TakenOf(kind).small_chunks.load(kRelaxed), besides = threads + all.aside.load(kRelaxed);
    if (small > besides) places += (small - besides) * SmallChunk(kind);
  }
  return places < most * PerChunk(kind) + all.idle.load(kRelaxed);
}

// Notes the places of a chunk that hold no row. REQUIRES: the caller has the chunk, and puts it into a queue.
void NoteIdle(Kind kind, uint32_t chunk, uint32_t idle) {
  Queues& all = QueuesOf(kind);
  all.idle_of[chunk].store(idle, kRelaxed);
  all.idle.fetch_add(idle, kRelaxed);
}
// Returns a chunk that the caller has taken out of a queue; 0 = it has taken none.
PFS_ALWAYS_INLINE uint32_t NotIdle(Kind kind, uint32_t chunk) {
  Queues& all = QueuesOf(kind);
  if (KeepsShortThreads(kind) && all.idle_of[chunk].load(kRelaxed) != 0)
    all.idle.fetch_sub(all.idle_of[chunk].exchange(0, kRelaxed), kRelaxed);
  return chunk;
}

// Keeps a small chunk without rows for a thread that begins. REQUIRES: the caller has the chunk.
void PutAside(Kind kind, uint32_t chunk) {
  Queues& all = QueuesOf(kind);
  all.aside.fetch_add(1, kRelaxed);
  (void)Give(all.small, all.small_places, chunk);  // it holds twice as many as there are
}
uint32_t TakeAside(Kind kind) {
  Queues& all = QueuesOf(kind);
  const uint32_t chunk = Take(all.small, all.small_places);
  if (chunk != 0) all.aside.fetch_sub(1, kRelaxed);
  return chunk;
}

// Gives memory to a never-used space. Returns false if there is none. REQUIRES: cold lock.
bool ReserveSpace(Kind kind) {
  Segment& segment = g_runtime.segment;
  const Pool& pool = g_runtime.pool(kind);
  const ArrayId records = kRecordsOf[static_cast<uint32_t>(kind)];
  const uint64_t space = TakenOf(kind).spaces, begin = space * pool.space_bytes;
  return space < segment.array(records).capacity && segment.ReserveRange(records, begin, begin + PerChunk(kind) * pool.record_bytes);
}

// Gives memory to the places for long texts of a space. Returns false if there is none.
[[gnu::noinline]] bool ReserveLongTexts(uint64_t space) {
  const int error = errno;
  const Pool& pool = g_runtime.pool(Kind::kStatement);
  std::atomic<bool>& is_reserved = QueuesOf(Kind::kStatement).has_long_texts[space];
  if (ColdLock lock; lock && !is_reserved.load(kRelaxed)) {
    const uint64_t begin = space * pool.space_bytes + BytesOfRecords(Kind::kStatement, pool.record_bytes);
    const uint64_t end = begin + PerChunk(Kind::kStatement) * g_runtime.text_sizes.long_place;
    is_reserved.store(g_runtime.segment.ReserveRange(ArrayId::kStatementRecords, begin, end), kRelease);  // pairs with LongTextsOf
  }
  errno = error;
  return is_reserved.load(kRelaxed);
}

// Makes a chunk whose records have memory. Returns 0 if there is none for the chunk itself. REQUIRES: cold lock.
uint32_t MakeChunk(Kind kind, uint64_t begin, uint32_t ready) {
  const int64_t fresh = g_runtime.segment.AllocateFresh(kChunksOf[static_cast<uint32_t>(kind)]);
  if (fresh <= 0) return 0;
  ShmChunk& chunk = g_runtime.pool(kind).chunks[fresh];
  chunk.begin.store(begin, kRelease);  // before the lap, as the next store; pairs with PoolView::records
  chunk.ready.store(ready, kRelease);  // pairs with ShmChunk::Ready
  return static_cast<uint32_t>(fresh);
}

// Makes a chunk of the full size. Returns 0 if there is no memory. REQUIRES: cold lock.
uint32_t MakeFullChunk(Kind kind) {
  Taken& all = TakenOf(kind);
  if (!ReserveSpace(kind)) return 0;
  const uint32_t chunk = MakeChunk(kind, all.spaces * g_runtime.pool(kind).space_bytes, PerChunk(kind));
  if (chunk == 0) return 0;
  ++all.spaces;
  all.chunks.store(all.chunks.load(kRelaxed) + 1, kRelaxed);
  return chunk;
}

// Returns a never-used chunk; 0 = there is none. A thread that has filled many takes an eighth of them in advance, under the same lock.
uint32_t AllocateFresh(Kind kind, ThreadState& thread) {
  ReadyChunks& ready = thread.ready_chunks[static_cast<uint32_t>(kind)];
  Word& idle = QueuesOf(kind).idle;
  if (ready.count != 0) {
    idle.fetch_sub(PerChunk(kind), kRelaxed);
    return ready.chunks[--ready.count];
  }
  const int error = errno;
  uint32_t chunk = 0;
  if (ColdLock lock; lock) {
    chunk = MakeFullChunk(kind);
    const uint64_t wanted = std::min<uint64_t>(ReadyChunks::kMost, thread.holds[static_cast<uint32_t>(kind)].chunks_taken / 8);
    while (chunk != 0 && ready.count < wanted && MayGrow(kind)) {
      const uint32_t next = MakeFullChunk(kind);
      if (next == 0) break;
      ready.chunks[ready.count++] = next;
      idle.fetch_add(PerChunk(kind), kRelaxed);
    }
  }
  errno = error;
  return chunk;
}

// Makes a space of small chunks. Returns one of them, and puts the others aside.
uint32_t AllocateSmall(Kind kind) {
  const int error = errno;
  uint32_t taken_one = 0;
  if (ColdLock lock; lock && ReserveSpace(kind)) {
    const Pool& pool = g_runtime.pool(kind);
    Taken& all = TakenOf(kind);
    const uint64_t begin = all.spaces++ * pool.space_bytes;
    for (uint32_t i = 0; i < SmallPerSpace(kind); ++i) {
      const uint32_t chunk = MakeChunk(kind, begin + i * SmallChunk(kind) * pool.record_bytes, SmallChunk(kind));
      if (chunk == 0) break;
      all.small_chunks.store(all.small_chunks.load(kRelaxed) + 1, kRelaxed);
      if (taken_one == 0) {
        taken_one = chunk;
      } else {
        PutAside(kind, chunk);
      }
    }
  }
  errno = error;
  return taken_one;
}

// Returns the number of queues that may have chunks: a thread gives to the queue of its slot, so those behind the last slot are empty.
uint32_t QueuesInUse(const Queues& all) {
  const uint64_t slots = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  return static_cast<uint32_t>(std::min<uint64_t>(slots, all.last_queue + 1));
}

// Returns the chunk that a thread begins with; 0 = as for other chunks. Short threads take no other chunk, so this looks into more queues
// than TakeIfOlder: those whose threads have ended have the oldest chunks.
[[gnu::noinline]] uint32_t TakeFirst(Kind kind, const ThreadState& thread) {
  Queues& all = QueuesOf(kind);
  if (SmallChunk(kind) != 0) {
    if (const uint32_t chunk = TakeAside(kind); chunk != 0) return chunk;
    const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
    if (TakenOf(kind).small_chunks.load(kRelaxed) + 1 < threads || (KeepsShortThreads(kind) && MayGrow(kind))) {
      if (const uint32_t chunk = AllocateSmall(kind); chunk != 0) return chunk;
    }
  }
  if (MayGrow(kind)) return 0;       // a fresh chunk takes no rows away
#if defined(PFS_BREAK_FIRST_CHUNKS)  // negative control of the test of small chunks: takes any chunk
  for (ChunkQueue& queue : all.queues) {
    if (const uint32_t chunk = queue.places == nullptr ? 0 : Take(queue, all.places_per_queue); chunk != 0) return chunk;
  }
#endif
  ChunkQueue* best = nullptr;
  constexpr uint64_t kNever = ~uint64_t{0};
  uint64_t oldest = kNever, second = kNever;  // when the oldest chunk was taken, and the oldest one of the other queues
  const auto look = [&](ChunkQueue& queue) {
    const uint64_t taken = OldestIn(kind, queue, all.places_per_queue);
    if (taken == 0 || &queue == best) return taken != 0;
    second = std::min(second, std::max(oldest, taken));
    if (taken < oldest) best = &queue;
    oldest = std::min(oldest, taken);
    return true;
  };
  look(all.queues[thread.slot & all.last_queue]);
  constexpr uint32_t kMostLooks = 4;
  const uint32_t in_use = QueuesInUse(all);
  for (uint32_t i = 0, looks = 0; i < in_use && looks < kMostLooks; ++i) {
    if (look(all.queues[(thread.thread_id + i) % in_use])) ++looks;
  }
  if (best == nullptr) return 0;
  // Asks about the chunk that it takes: other threads may have found the same one.
  const ShmChunk* const chunks = g_runtime.pool(kind).chunks;
  return TakeIf(*best, all.places_per_queue, [&](uint32_t chunk) { return chunks[chunk].taken.load(kRelaxed) <= second; });
}

// Empties a small chunk that a thread has taken, and keeps it for a thread that begins. A new lap empties it: no record has that one.
// Readers that are in the chunk notice.
[[gnu::noinline]] void EmptySmall(Kind kind, uint32_t chunk) {
  [[maybe_unused]] HalfWord& lap = g_runtime.pool(kind).chunks[chunk].lap;
#if !defined(PFS_BREAK_FIRST_CHUNKS)
  lap.store((lap.load(kRelaxed) & ~1u) + 2, kRelease);
#endif
  PutAside(kind, chunk);
}

// Takes the oldest chunk of another queue, if it is clearly older than the own queue's. Each call checks another
// queue.
uint32_t TakeIfOlder(Kind kind, ChunkHold& hold, const ChunkQueue& own, uint64_t now) {
  Queues& all = QueuesOf(kind);
  const uint64_t own_oldest = OldestIn(kind, own, all.places_per_queue);
  // A thread may be descheduled after it has read the counter: chunks that are younger than `now` have no age.
  const auto age = [now](uint64_t taken) { return std::max<int64_t>(static_cast<int64_t>(now - taken), 0); };
  const int64_t own_age = own_oldest == 0 ? 0 : age(own_oldest);
  const uint32_t in_use = QueuesInUse(all);
  for (uint32_t tried = 0; tried < in_use; ++tried) {
    if (hold.queue_to_check >= in_use) hold.queue_to_check = 0;
    ChunkQueue& other = all.queues[hold.queue_to_check];
    const uint64_t oldest = &other == &own ? 0 : OldestIn(kind, other, all.places_per_queue);
    const auto is_older = [&](uint64_t taken) { return age(taken) > own_age + own_age / 8; };
    if (oldest != 0 && is_older(oldest)) {
      // Asks again, about the chunk that it takes: other threads may find the same chunk older than theirs.
      const ShmChunk* const chunks = g_runtime.pool(kind).chunks;
      return TakeIf(other, all.places_per_queue, [&](uint32_t chunk) { return is_older(chunks[chunk].taken.load(kRelaxed)); });
    }
    ++hold.queue_to_check;
    if (oldest != 0) break;
  }
  return 0;
}

// The places of the queues are behind each other, then those of the small chunks, then the numbers by chunk, then the state of each space.
size_t BytesOfPlaces(Kind kind, const Queues& all) {
  const uint64_t chunks = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).capacity;
  const uint64_t spaces = g_runtime.segment.array(kRecordsOf[static_cast<uint32_t>(kind)]).capacity;
  return ((size_t{all.last_queue} + 1) * all.places_per_queue + all.small_places) * sizeof(ChunkPlace) + chunks * sizeof(HalfWord) + spaces;
}

bool StartQueues(Kind kind, uint32_t queues) {
  Queues& all = QueuesOf(kind);
  all.last_queue = queues - 1;
  const Options& options = StartOptionsLocked();
  const uint64_t most_rows = g_runtime.segment.MostRows(kind);
  const auto rows = std::min(static_cast<uint64_t>(options.Get(kPools[static_cast<uint32_t>(kind)].history_long_size)), most_rows);
  all.least_chunks = ChunksInPool(ChunksFor(rows, PerChunk(kind)));
  all.traced_chunks = ChunksInPool(ChunksFor(std::min(RowsOfTrace(kind, options), most_rows), PerChunk(kind)));
  all.most_chunks = ChunksInPool(MostChunksFor(kind, rows));
  const uint64_t capacity = g_runtime.segment.array(kChunksOf[static_cast<uint32_t>(kind)]).capacity;
  all.places_per_queue = 64;
  all.small_places = 64;
  while (SmallChunk(kind) != 0 && all.small_places < 2 * capacity) all.small_places *= 2;
  while (all.places_per_queue < all.most_chunks + 64 || all.places_per_queue * queues < capacity * 2) all.places_per_queue *= 2;
  const size_t bytes = BytesOfPlaces(kind, all);
  void* const memory = MapPrivate(bytes);
  if (memory == nullptr) return false;
  for (uint32_t i = 0; i < queues; ++i)
    all.queues[i].places = static_cast<ChunkPlace*>(memory) + static_cast<size_t>(i) * all.places_per_queue;
  all.small.places = static_cast<ChunkPlace*>(memory) + static_cast<size_t>(queues) * all.places_per_queue;
  all.idle_of = reinterpret_cast<HalfWord*>(all.small.places + all.small_places);
  all.has_long_texts = reinterpret_cast<std::atomic<bool>*>(all.idle_of + capacity);
  return true;
}

// Zeroes a word in a forked child. A page whose words are all zero is not stored to: it stays shared with the parent.
template <typename T>
void Clear(std::atomic<T>& word) {
  if (word.load(kRelaxed) != 0) word.store(0, kRelaxed);
}

}  // namespace

uint32_t g_assumed_processors = 0;

uint32_t ChunkQueues() { return pools[0].last_queue + 1; }

bool StartChunkPools() {
  const uint32_t queues = QueuesFor(CountProcessors());
  ForgetTaken();
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    if (!StartQueues(static_cast<Kind>(kind), queues)) return false;
  }
  return true;
}

void EmptyChunkPools() {
  ForgetTaken();
  // Another thread may have been in the middle of a give or take when fork() copied the queues: their content is
  // useless.
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    Queues& all = pools[kind];
    ClearPrivate(all.queues[0].places, BytesOfPlaces(static_cast<Kind>(kind), all));
    Clear(all.idle);
    Clear(all.aside);
    Clear(all.lost_chunks);
    const auto empty = [](ChunkQueue& queue) {
      Clear(queue.head);
      Clear(queue.tail);
    };
    for (uint32_t i = 0; i <= all.last_queue; ++i) empty(all.queues[i]);
    empty(all.small);
  }
}

void NoteWideChunk(Kind kind) {
  Queues& all = QueuesOf(kind);
  // Each wide chunk raises the limit by one, until all chunks could be wide. Threads that do so at once may add as
  // many chunks too many.
  if (all.wide_chunks.load(kRelaxed) < all.most_chunks - all.least_chunks) all.wide_chunks.fetch_add(1, kRelaxed);
}

void NoteLostChunk(Kind kind) { QueuesOf(kind).lost_chunks.fetch_add(1, kRelaxed); }

void GiveChunk(Kind kind, uint32_t queue, uint32_t chunk, uint32_t idle) {
  if (idle != 0) NoteIdle(kind, chunk, idle);
  Queues& all = QueuesOf(kind);
  while (!Give(all.queues[queue & all.last_queue], all.places_per_queue, chunk))
    ++queue;  // all queues together hold twice as many chunks as there are
}

char* LongTextsOf(const ShmStatementRecord& record) {
  const Pool& pool = g_runtime.pool(Kind::kStatement);
  const auto at = static_cast<uint64_t>(reinterpret_cast<const char*>(&record) - pool.records);
  const uint64_t space = at / pool.space_bytes;
  // Pairs with ReserveLongTexts.
  if (!QueuesOf(Kind::kStatement).has_long_texts[space].load(kAcquire) && !ReserveLongTexts(space)) return nullptr;
  return pool.records + PlaceOfLongTexts(at, pool.space_bytes, pool.record_bytes, g_runtime.text_sizes.long_place);
}

// Takes a chunk from the queues; 0 = they are empty.
PFS_ALWAYS_INLINE uint32_t TakeFromQueues(Kind kind, const ThreadState& thread, ChunkHold& hold, uint64_t now) {
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
  return 0;
}

uint32_t TakeChunk(Kind kind, ThreadState& thread, uint64_t now) {
  ChunkHold& hold = thread.holds[static_cast<uint32_t>(kind)];
  if (const uint32_t spare = std::exchange(thread.spare_chunks[static_cast<uint32_t>(kind)], 0); spare != 0) return spare;
  const bool is_first = hold.chunks_taken == 1;
  if (is_first) {
    if (const uint32_t chunk = TakeFirst(kind, thread); chunk != 0) return NotIdle(kind, chunk);
  }
  if (thread.ready_chunks[static_cast<uint32_t>(kind)].count != 0 || MayGrow(kind)) {
    if (const uint32_t chunk = AllocateFresh(kind, thread); chunk != 0) return chunk;
  }
  while (const uint32_t chunk = TakeFromQueues(kind, thread, hold, now)) {
    (void)NotIdle(kind, chunk);
    if (__builtin_expect(is_first || g_runtime.pool(kind).chunks[chunk].ready.load(kRelaxed) != SmallChunk(kind), 1)) return chunk;
    EmptySmall(kind, chunk);
    if (!KeepsShortThreads(kind) || !MayGrow(kind)) continue;
    if (const uint32_t fresh = AllocateFresh(kind, thread); fresh != 0) return fresh;
  }
  return AllocateFresh(kind, thread);  // running events keep all chunks
}

}  // namespace perfschema
