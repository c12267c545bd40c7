#include "record/events.h"
#include "record/wait.h"

#include <cerrno>

namespace perfschema {
namespace {

uint32_t ChunkOf(const ShmWaitRecord* record) {
  return static_cast<uint32_t>(static_cast<uint64_t>(record - g_runtime.records) / kRecordsPerChunk);
}

// Puts a chunk in the pool's ring and takes out what lay in that place: the chunk given longest ago, or 0.
uint32_t ExchangeInRing(uint32_t chunk) {
  const uint64_t place = g_runtime.header->wait_ring_head.fetch_add(1, kRelaxed) % g_runtime.ring_places;
  // acq_rel: the next owner sees this thread's last stores to the chunk, and we the last stores of the one we take.
  return g_runtime.ring[place].chunk.exchange(chunk, std::memory_order_acq_rel);
}

// While the pool still grows. REQUIRES: cold lock.
uint32_t TakeFreshChunk() {
  Segment& segment = g_runtime.segment;
  ShmArray& array = segment.array(ArrayId::kWaitChunks);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(g_runtime.chunks[free].thread.load(kRelaxed), kRelaxed);
    return static_cast<uint32_t>(free);
  }
  const uint64_t next = array.used.load(kRelaxed);
  if (next >= array.capacity || !segment.ReserveUpTo(ArrayId::kWaitRecords, (next + 1) * kRecordsPerChunk)) return 0;
  const int64_t fresh = segment.TakeFresh(ArrayId::kWaitChunks);
  return fresh < 0 ? 0 : static_cast<uint32_t>(fresh);
}

// REQUIRES: cold lock.
void PutOnFreeList(uint32_t chunk) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kWaitChunks);
  g_runtime.chunks[chunk].thread.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(chunk, kRelaxed);
}

bool HasOpenWait(const ThreadState& thread, uint32_t chunk) {
  for (uint32_t i = 0; i < thread.wait_depth(); ++i) {
    if (ChunkOf(thread.open_waits[i]) == chunk) return true;
  }
  return false;
}

// Takes the oldest chunk that nothing needs out of the thread's hold, or 0.
uint32_t TakeOneToGive(ThreadState& thread, bool hold_is_full) {
  for (uint32_t i = 0; i < thread.held_count; ++i) {
    const HeldChunk held = thread.held[i];
    if (!hold_is_full && (held.until > thread.chunks_taken || HasOpenWait(thread, held.chunk))) continue;
    for (uint32_t j = i + 1; j < thread.held_count; ++j) thread.held[j - 1] = thread.held[j];
    --thread.held_count;
    return held.chunk;
  }
  return 0;
}

}  // namespace

bool MayBeginAfterAll(ThreadState& thread, const void* mark) {
  if (!thread.inside() && DropAbandonedWaits(thread, mark)) return true;
  CountLoss(Loss::kLockers);
  return false;
}

void NextChunk(ThreadState& thread) {
  ++thread.chunks_taken;
  if (thread.chunk != 0) {
    thread.held[thread.held_count++] = {thread.chunk, thread.chunks_taken + g_runtime.chunks_held};
    thread.chunk = 0;
  }
  thread.next_record = thread.records_end = nullptr;
  const bool hold_is_full = thread.held_count == ThreadState::kMaxHeld;
  const uint32_t give = TakeOneToGive(thread, hold_is_full);
  uint32_t chunk = give == 0 ? 0 : ExchangeInRing(give);
  if (chunk == 0) {
    const int error = errno;
    if (ColdLock lock; lock) chunk = TakeFreshChunk();
    errno = error;
    // No memory for another chunk: turn the ring once. What it gives is younger than the histories promise, but whole.
    for (uint64_t turn = 0; chunk == 0 && turn < g_runtime.ring_places; ++turn) chunk = ExchangeInRing(0);
    if (chunk == 0) {
      CountLoss(Loss::kEvents);
      thread.lap_bits = 0;
      thread.next_record = &thread.scratch;
      thread.records_end = &thread.scratch + 1;
      return;
    }
  }
  ShmChunk& shared = g_runtime.chunks[chunk];
  const uint32_t lap = shared.lap.load(kRelaxed);
  shared.lap.store(lap + 1, kRelaxed);  // odd: ordered before the words below by their release stores
  shared.thread.store(thread.slot, kRelease);
  shared.thread_id.store(thread.thread_id, kRelease);
  shared.taken.store(g_runtime.header->wait_ring_head.load(kRelaxed), kRelease);
  shared.lap.store(lap + 2, kRelease);  // pairs with Snapshot: even lap, then the words, then lap again
  thread.chunk = chunk;
  thread.lap_bits = static_cast<uint64_t>(lap + 2) << 32;
  thread.next_record = g_runtime.records + static_cast<uint64_t>(chunk) * kRecordsPerChunk;
  thread.records_end = thread.next_record + kRecordsPerChunk;
}

void KeepChunkOf(ThreadState& thread, const ShmWaitRecord* record) {
  const uint32_t chunk = ChunkOf(record);
  for (uint32_t i = 0; i < thread.held_count; ++i) {
    if (thread.held[i].chunk == chunk) thread.held[i].until = thread.chunks_taken + 1 + g_runtime.chunks_held;
  }
}

bool DropAbandonedWaits(ThreadState& thread, const void* frame) {
  // The stack grows down: a frame that still runs lies above ours. (On another stack, a signal stack say, none looks abandoned or
  // all do; every End puts the depth back to what its own Begin found, so a wrong guess ends with the outermost event.)
  const uint32_t before = thread.wait_depth();
  uint32_t depth = before;
  while (depth > 0 && thread.wait_frames[depth - 1] < frame) --depth;
  if (depth == before) return false;
  thread.nesting_event_id = depth == 0 ? 0 : thread.open_waits[depth - 1]->event_id.load(kRelaxed);
  thread.nesting = depth == 0 ? 0 : static_cast<uint64_t>(kNestingWait) << ThreadState::kNestingTypeShift | depth;
  return true;
}

void GiveAllChunks(ThreadState& thread) {
  if (thread.chunk != 0) thread.held[thread.held_count++] = {thread.chunk, 0};
  thread.chunk = 0;
  thread.next_record = thread.records_end = nullptr;
  for (uint32_t i = 0; i < thread.held_count; ++i) {
    if (const uint32_t old = ExchangeInRing(thread.held[i].chunk); old != 0) PutOnFreeList(old);
  }
  thread.held_count = 0;
}

}  // namespace perfschema
