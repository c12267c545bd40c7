// record/probe/chunk_queue.h: a bounded queue of chunks, for many givers and takers.
//
//   give at position p       place p:  sequence p -> p + 1, with the chunk           then tail: p -> p + 1
//   take at position p       place p:  sequence p + 1 -> p + size, without it        then head: p -> p + 1
//
// A change of a place is the whole operation. `tail` and `head` follow: a thread that finds one behind moves it on. So a thread may stop at
// any instruction for ever, also by a longjmp out of a signal handler, and the queue works on.
#pragma once

#include "shm/cell.h"

namespace perfschema {

// The sequence in the upper half, the chunk in the lower one. The sequence is relative to the position p that uses the place: 0 = free for
// the giver of p, 1 = filled for the taker of p. It is stored minus the place's index, so that zero bytes are an empty queue.
using ChunkPlace = Word;

// Threads: any thread.
struct alignas(128) ChunkQueue {
  alignas(64) HalfWord tail;  // next position to give to, or one that has been filled
  alignas(64) HalfWord head;  // next position to take from, or one that has been emptied
  alignas(64) ChunkPlace* places;
};

constexpr uint64_t PlaceWith(uint32_t sequence, uint32_t chunk) { return uint64_t{sequence} << 32 | chunk; }

// Returns how far the place is ahead of the position that uses it: 0 = free, 1 = filled, more = emptied again.
inline int32_t Ahead(uint64_t place, uint32_t index, uint32_t position) {
  return static_cast<int32_t>(static_cast<uint32_t>(place >> 32) + index - position);
}

// Puts a chunk last. Returns false if the queue is full. `size`: number of places, a power of two.
inline bool Give(ChunkQueue& queue, uint32_t size, uint32_t chunk) {
  for (;;) {
    uint32_t position = queue.tail.load(kAcquire);  // pairs with the moves of tail
    const uint32_t index = position & (size - 1);
    uint64_t place = queue.places[index].load(kAcquire);
    const int32_t ahead = Ahead(place, index, position);
    if (ahead < 0) return false;  // full
    // Release: pairs with the load in Take: the chunk, and all stores to it.
    const bool is_given = ahead == 0 && queue.places[index].compare_exchange_strong(place, PlaceWith(position + 1 - index, chunk),
                                                                                    std::memory_order_acq_rel, kRelaxed);
    if (is_given || ahead > 0) queue.tail.compare_exchange_strong(position, position + 1, std::memory_order_acq_rel, kRelaxed);
    if (is_given) return true;
  }
}

// Takes the first chunk if may_take(chunk) is true. Returns 0 if it is not, or the queue is empty.
template <typename MayTake>
PFS_ALWAYS_INLINE uint32_t TakeIf(ChunkQueue& queue, uint32_t size, MayTake may_take) {
  for (;;) {
    uint32_t position = queue.head.load(kAcquire);  // pairs with the moves of head
    const uint32_t index = position & (size - 1);
    uint64_t place = queue.places[index].load(kAcquire);
    const uint64_t filled = place;
    const int32_t ahead = Ahead(place, index, position) - 1;
    if (ahead < 0) return 0;  // empty
    // If another thread takes the chunk meanwhile, the exchange below fails, and the next one is asked about.
    if (ahead == 0 && !may_take(static_cast<uint32_t>(place))) return 0;
    const bool is_taken = ahead == 0 && queue.places[index].compare_exchange_strong(place, PlaceWith(position + size - index, 0),
                                                                                    std::memory_order_acq_rel, kRelaxed);
    if (is_taken || ahead > 0) queue.head.compare_exchange_strong(position, position + 1, std::memory_order_acq_rel, kRelaxed);
    if (is_taken) return static_cast<uint32_t>(filled);
  }
}

// Takes the first chunk. Returns 0 if the queue is empty.
inline uint32_t Take(ChunkQueue& queue, uint32_t size) {
  return TakeIf(queue, size, [](uint32_t) { return true; });
}

}  // namespace perfschema
