#include "record/events.h"
#include <cerrno>

#include "record/chunk_pool.h"
#include "record/parties.h"
#include "record/wait.h"

namespace perfschema {
namespace {

uint32_t ChunkOf(const ShmWaitRecord* record) {
  return static_cast<uint32_t>(static_cast<uint64_t>(record - g_runtime.records) / kRecordPitch);
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

// The cycle counter, about: a chunk need not be dated better than by its last event, and reading the counter costs as much as two events.
uint64_t LastTicks(const ThreadState& thread) {
  if (thread.chunk != 0) {
    const ShmWaitRecord& last = thread.next_record[-1];
    const uint64_t state = last.state.load(kRelaxed);
    if ((state & kRecordTimed) != 0 && (state & kFlagTimerMask) == 0) return last.start_ticks.load(kRelaxed);
  }
  return ReadCycle();
}

}  // namespace

bool MayBeginAfterAll(ThreadState& thread, const void* mark) {
  if (!thread.inside() && DropAbandonedWaits(thread, mark)) return true;
  CountLoss(Loss::kLockers);
  return false;
}

void AddToStaleThreadCell(ShmCell& cell, bool timed, uint64_t wait_ps, uint64_t count) {
  ThreadState& thread = *t_locals.state;
  const int error = errno;
  if (IsEmpty(cell.stat)) {  // nothing to move
    const CellWriter writer(cell.seq);
    cell.gen.store(g_runtime.header->thread_waits.now.load(kRelaxed), kRelease);
    AddToStat(cell.stat, timed, wait_ps, count);
  } else if (const ColdLock lock; lock) {
    const CellWriter writer(cell.seq);
    RollOver(*thread.shared, static_cast<uint32_t>(&cell - thread.cells), cell);
    AddToStat(cell.stat, timed, wait_ps, count);
  } else {
    CountLoss(Loss::kThreadStatistics);
  }
  errno = error;
}

void NextChunk(ThreadState& thread) {
  const uint64_t now = LastTicks(thread);
  ++thread.chunks_taken;
  if (thread.chunk != 0) {
    thread.held[thread.held_count++] = {thread.chunk, thread.chunks_taken + g_runtime.chunks_held};
    thread.chunk = 0;
  }
  thread.next_record = thread.records_end = nullptr;
  const bool hold_is_full = thread.held_count == ThreadState::kMaxHeld;
  if (const uint32_t give = TakeOneToGive(thread, hold_is_full); give != 0) GiveChunk(thread.slot, give, now);
  const uint32_t chunk = TakeChunk(thread, now);
  if (chunk == 0) {
    CountLoss(Loss::kEvents);
    thread.lap_bits = 0;
    thread.next_record = &thread.scratch;
    thread.records_end = &thread.scratch + 1;
    return;
  }
  ShmChunk& shared = g_runtime.chunks[chunk];
  const uint32_t lap = shared.lap.load(kRelaxed);
  shared.lap.store(lap + 1, kRelaxed);  // odd: ordered before the words below by their release stores
  shared.thread.store(thread.slot, kRelease);
  shared.thread_id.store(thread.thread_id, kRelease);
  shared.taken.store(now, kRelease);
  shared.lap.store(lap + 2, kRelease);  // pairs with Snapshot: even lap, then the words, then lap again
  thread.chunk = chunk;
  thread.lap_bits = static_cast<uint64_t>(lap + 2) << 32;
  thread.next_record = g_runtime.records + static_cast<uint64_t>(chunk) * kRecordPitch;
  thread.records_end = thread.next_record + kRecordsPerChunk;
}

uint64_t NestingWithout(ThreadState& thread, const ShmWaitRecord* record) {
  const uint32_t depth = thread.wait_depth();
  uint32_t at = 0;
  while (at < depth && thread.open_waits[at] != record) ++at;
  if (at == depth) return thread.nesting & ~ThreadState::kInside;
  for (uint32_t i = at + 1; i < depth; ++i) {
    thread.open_waits[i - 1] = thread.open_waits[i];
    thread.wait_frames[i - 1] = thread.wait_frames[i];
  }
  return depth == 1 ? 0 : static_cast<uint64_t>(kNestingWait) << ThreadState::kNestingTypeShift | (depth - 1);
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
  thread.nesting = depth == 0 ? 0 : static_cast<uint64_t>(kNestingWait) << ThreadState::kNestingTypeShift | depth;
  return true;
}

void GiveAllChunks(ThreadState& thread) {
  const uint64_t now = LastTicks(thread);
  if (thread.chunk != 0) thread.held[thread.held_count++] = {thread.chunk, 0};
  thread.chunk = 0;
  thread.next_record = thread.records_end = nullptr;
  for (uint32_t i = 0; i < thread.held_count; ++i) {
    GiveChunk(thread.slot, thread.held[i].chunk, now);
  }
  thread.held_count = 0;
}

}  // namespace perfschema
