#include "record/probe/events.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "record/context/principals.h"
#include "record/context/tasks.h"
#include "record/family/digests.h"
#include "record/probe/chunk_pool.h"
#include "record/probe/nested.h"
#include "record/probe/trace.h"
#include "record/probe/wait.h"

namespace perfschema {
namespace {

// Returns whether a record is one of a chunk's.
bool IsIn(Kind kind, uint32_t chunk, const ShmRecord* record) {
  const Pool& pool = g_runtime.pool(kind);
  const auto first = reinterpret_cast<uintptr_t>(pool.RecordsOf(chunk));
  return reinterpret_cast<uintptr_t>(record) - first < pool.chunks[chunk].Ready(PerChunk(kind)) * pool.record_bytes;
}

// Returns true if the chunk has an open event, also of a suspended task. An open event keeps its chunk, whatever its
// place in history.
[[gnu::noinline]] bool HasOpenEvent(const ThreadState& thread, Kind kind, uint32_t chunk) {
  const auto is_in = [&](const ShmRecord* record) { return IsIn(kind, chunk, record); };
  if (AnyOpenInTasks(thread, kind, is_in)) return true;
  switch (kind) {
    case Kind::kWait:
      return std::any_of(thread.open_waits, thread.open_waits + thread.wait_depth(),
                         [&](const OpenWait& open) { return is_in(open.record); });
    case Kind::kStage:
      return is_in(thread.stage.record);
    case Kind::kStatement:
#if defined(PFS_BREAK_SUSPENDED)  // negative control of the test of other threads: nobody holds the chunks of suspended statements
      return false;
#endif
      return std::any_of(thread.statements, thread.statements + thread.statement_depth,
                         [&](const OpenStatement& open) { return is_in(open.record); }) ||
             std::any_of(thread.suspended, thread.suspended + thread.suspended_used,
                         [&](const auto& held) { return is_in(held.record) && StillHas(held.record, held.begun_state); });
    default:
      return is_in(thread.transaction.record);
  }
}

// Takes the records of a chunk away from their open events. The cold lock lets another thread that ends one finish.
[[gnu::noinline, gnu::cold]] void LoseOpenEvents(Kind kind, uint32_t chunk) {
  const Pool& pool = g_runtime.pool(kind);
  char* record = pool.RecordsOf(chunk);
  const uint32_t ready = pool.chunks[chunk].Ready(PerChunk(kind));
  const ColdLock lock;
  for (uint32_t i = 0; i < ready; ++i, record += pool.record_bytes) {
    Word& state = reinterpret_cast<ShmRecord*>(record)->state;
    if ((state.load(kRelaxed) & kRecordOpen) != 0) state.store(0, kRelease);
  }
}

// Takes the oldest unneeded chunk out of the thread's hold; 0 = none.
PFS_ALWAYS_INLINE uint32_t TakeOneToGive(ThreadState& thread, Kind kind, ChunkHold& hold) {
  // In the common case the thread is in no wait, and nothing else is checked.
  const bool any_open = kind != Kind::kWait || thread.wait_depth() != 0 || thread.tasks != nullptr;
  const bool is_full = hold.held_count == ChunkHold::kMaxHeld;
  for (uint32_t i = 0; i < hold.held_count; ++i) {
    const HeldChunk held = hold.held[i];
    if (!is_full && (held.until > hold.chunks_taken || (any_open && HasOpenEvent(thread, kind, held.chunk)))) continue;
    if (is_full && kind != Kind::kWait && HasOpenEvent(thread, kind, held.chunk)) LoseOpenEvents(kind, held.chunk);
    --hold.held_count;
    for (uint32_t j = i; j < hold.held_count; ++j) hold.held[j] = hold.held[j + 1];
    return held.chunk;
  }
  return 0;
}

// A handler may leave with a longjmp between two stores: until the last one, the cursor has no place left, and the next event comes here.
void SetCursor(RecordCursor& cursor, ShmRecord* next, ShmRecord* end, uint64_t lap_bits) {
  cursor.end = nullptr;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  cursor.next = next;
  cursor.open_bits = lap_bits | kRecordOpen | kRecordTimed;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  cursor.end = end;
}

// Returns an approximate cycle counter. The last event dates a chunk well enough, and reading the counter costs as
// much as two events.
// REQUIRES: the chunk that is being written, if there is one, is full.
uint64_t LastTicks(const ThreadState& thread, Kind kind) {
  if (kind == Kind::kWait && thread.waits.end != nullptr && thread.holds[0].chunk != 0) {
    const ShmRecord& last = static_cast<const ShmWaitRecord*>(thread.waits.next)[-1];
    const uint64_t state = last.state.load(kRelaxed);
    if ((state & kRecordTimed) != 0 && (state & kFlagTimerMask) == 0) return last.start_ticks.load(kRelaxed);
  }
  return ReadCycle();
}

// Counts the traced events of a chunk that is complete: once a chunk, and not in probes of single events.
[[gnu::noinline]] void CountTraced(ChunkHold& hold, Kind kind) {
  const Pool& pool = g_runtime.pool(kind);
  const uint64_t lap = pool.chunks[hold.chunk].lap.load(kRelaxed);
  const char* record = pool.RecordsOf(hold.chunk);
  const uint32_t ready = pool.chunks[hold.chunk].Ready(PerChunk(kind));
  for (uint32_t i = 0; i < ready; ++i, record += pool.record_bytes) {
    const uint64_t state = reinterpret_cast<const ShmRecord*>(record)->state.load(kRelaxed);
    if (state >> 32 == lap && (state & kRecordTraced) != 0) ++hold.traced;
  }
}

// Returns true if a view or the trace shows records of a chunk that its thread gives back when it ends: the thread's own views end with it.
bool HasLastingRecord(Kind kind, uint32_t chunk) {
  const Pool& pool = g_runtime.pool(kind);
  [[maybe_unused]] const uint64_t lap = pool.chunks[chunk].lap.load(kRelaxed);
  const char* record = pool.RecordsOf(chunk);
  const uint32_t ready = pool.chunks[chunk].Ready(PerChunk(kind));
  for (uint32_t i = 0; i < ready; ++i, record += pool.record_bytes) {
    [[maybe_unused]] const uint64_t state = reinterpret_cast<const ShmRecord*>(record)->state.load(kRelaxed);
#if !defined(PFS_BREAK_SPARES)  // negative control of the test of short threads: all chunks go on
    if (state >> 32 == lap && (state & (kRecordHistoryLong | kRecordTraced)) != 0) return true;
#endif
  }
  return false;
}

// Keeps a chunk for the slot's next thread. Returns false if the slot has one, or the pool must keep the chunk's records.
bool KeepSpare(ThreadState& thread, Kind kind, uint32_t chunk) {
  uint32_t& spare = thread.spare_chunks[static_cast<uint32_t>(kind)];
  if (spare != 0 || HasLastingRecord(kind, chunk)) return false;
  spare = chunk;
  return true;
}

// Returns true if OpenWait::frame says where the wait began. Calls on locks do not store it: no longjmp leaves them.
bool HasFrame(const ShmWaitRecord& record) {
  const auto class_index = static_cast<uint16_t>(record.what.load(kRelaxed));
  const auto family = static_cast<Family>(g_runtime.classes[class_index].family);
  return family < Family::kMutex || family > Family::kSxlock;
}

// Removes duplicates from the hold: an abandoned probe may have stopped between two steps.
void ForgetTwins(ChunkHold& hold) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < hold.held_count; ++i) {
    const HeldChunk held = hold.held[i];
    const auto is_it = [&](const HeldChunk& other) { return other.chunk == held.chunk; };
    if (held.chunk != hold.chunk && std::none_of(hold.held, hold.held + kept, is_it)) hold.held[kept++] = held;
  }
  hold.held_count = kept;
}

bool MayHaveTraced(const ChunkHold& hold) {
  const uint32_t wish = g_trace_wish.load(kRelaxed);
  return hold.chunk != 0 && (hold.has_traced || (wish & 1) != 0 || wish != hold.trace_wish);
}

}  // namespace

bool IsInterruptedInProbe(ThreadState& thread, const void* frame) {
  if (!thread.inside()) return false;
  if (!WasLeft(reinterpret_cast<const void*>(thread.nesting - thread.outside()), AboveHandlersOf(frame))) return true;
  CountLoss(Loss::kLockers);
  uint64_t depth = thread.outside();
  // The probe may have been the end of the innermost wait: that wait is closed, or a call on a lock, inside which no
  // other event begins.
  if (depth > 0) {
    ShmWaitRecord* const record = thread.open_waits[depth - 1].record;
    const uint64_t state = record->state.load(kRelaxed);
    if ((state & kRecordOpen) == 0 || !HasFrame(*record)) {
      DropRecord(record, state);
      --depth;
    }
  }
  for (uint32_t kind = 0; kind < kEventKinds; ++kind) {
    ChunkHold& hold = thread.holds[kind];
    ForgetTwins(hold);
    if (std::exchange(hold.is_changing, false)) NoteLostChunk(static_cast<Kind>(kind));
  }
  EndLeftSample();
  thread.nesting = depth;
  return false;
}

bool MayBeginInWait(ThreadState& thread, const void* frame) {
  if (!IsInterruptedInProbe(thread, frame)) {
    DropAbandonedWaits(thread, frame);
    if (thread.wait_depth() < kMaxNestedWaits) return true;
  }
  CountLoss(Loss::kLockers);
  return false;
}

void AddToStaleThreadCell(ShmCell& cell, bool timed, uint64_t wait_ps, uint64_t count) {
  if (BeginEpochOfCell(*t_locals.state, Kind::kWait, cell, false)) AddEventsToCell(cell, timed, wait_ps, count);
}

namespace {
// Returns a number below `limit`, pseudo-random.
uint32_t NextRandom(ThreadState& thread, uint32_t limit) {
  thread.sample_seed = thread.sample_seed * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX; its upper bits are good
  return static_cast<uint32_t>((thread.sample_seed >> 32) * limit >> 32);
}
}  // namespace

bool IsSampleDue(ThreadState& thread) {
  const uint32_t distances = 2 * g_runtime.sampling_interval - 1;  // 1 .. 2N - 1: N on average
  uint32_t left = thread.until_sample;
  if (left == 0) {
    // The first of them comes as if the thread had begun long ago: the smaller of two draws has that distribution.
    thread.sample_seed = (thread.thread_id ^ ReadCycle()) * 0x9e3779b97f4a7c15u;
    left = 1 + std::min(NextRandom(thread, distances), NextRandom(thread, distances));
  }
  --left;
  thread.until_sample = left != 0 ? left : 1 + NextRandom(thread, distances);
  return left == 0;
}

// Inlined, so that the kind is a constant for waits.
PFS_ALWAYS_INLINE bool NextChunkOf(ThreadState& thread, Kind kind, uint32_t flags) {
  const Pool& pool = g_runtime.pool(kind);
  RecordCursor& cursor = thread.CursorOf(kind);
  ChunkHold& hold = thread.holds[static_cast<uint32_t>(kind)];
  const uint64_t now = LastTicks(thread, kind);
  if (__builtin_expect(MayHaveTraced(hold), 0)) CountTraced(hold, kind);
  ++hold.chunks_taken;
  if (hold.chunk != 0) {
    hold.held[hold.held_count] = {hold.chunk, hold.chunks_taken + pool.chunks_held};
    ++hold.held_count;
    hold.chunk = 0;
  }
  hold.is_changing = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // with NoteLostChunk of this thread, which a handler has left
  if (const uint32_t give = TakeOneToGive(thread, kind, hold); give != 0) GiveChunk(kind, thread.slot, give, 0);
  const uint32_t chunk = TakeChunk(kind, thread, now);
  if (__builtin_expect(chunk == 0, 0)) {
    --hold.chunks_taken;  // the history keeps its chunks
    hold.is_changing = false;
    SetCursor(cursor, nullptr, nullptr, 0);
    CountLoss(Loss::kEvents);
    return false;
  }
  hold.chunk = chunk;  // from here on the thread has it, whatever a longjmp leaves out below
  std::atomic_signal_fence(std::memory_order_seq_cst);
  hold.is_changing = false;
  ShmChunk& shared = pool.chunks[chunk];
  const uint32_t lap = shared.lap.load(kRelaxed) & ~1u;
  shared.lap.store(lap + 1, kRelaxed);  // odd: ordered before the words below by their release stores
  shared.thread.store(thread.slot, kRelease);
  shared.thread_id.store(thread.thread_id, kRelease);
  shared.taken.store(now, kRelease);
  shared.sequence.store(hold.chunks_taken, kRelease);
  shared.traced.store(hold.traced, kRelease);
  shared.lap.store(lap + 2, kRelease);  // pairs with Snapshot: even lap, then the words, then lap again
  hold.has_traced = (flags & kFlagTrace) != 0;
  hold.trace_wish = g_trace_wish.load(kRelaxed);  // before the flags of events to come
  char* const first = pool.RecordsOf(chunk);
  const uint64_t ready = shared.ready.load(kRelaxed);
  SetCursor(cursor, reinterpret_cast<ShmRecord*>(first), reinterpret_cast<ShmRecord*>(first + ready * pool.record_bytes),
            static_cast<uint64_t>(lap + 2) << 32);
  return true;
}

bool NextChunk(ThreadState& thread, Kind kind, uint32_t flags) { return NextChunkOf(thread, kind, flags); }

void NextWaitChunk(ThreadState& thread, uint32_t flags) {
  thread.sources.NoteChunk();
  if (thread.waits_have_details) NoteWideChunk(Kind::kWait);
  thread.waits_have_details = false;
  if (NextChunkOf(thread, Kind::kWait, flags)) return;
  ShmWaitRecord* const place = thread.scratch[thread.wait_depth()];
  SetCursor(thread.waits, place, place, 0);  // the next event has no place: it looks for a chunk again, or is counted, too
}

uint64_t NestingWithout(ThreadState& thread, const ShmWaitRecord* record) {
  const uint32_t depth = thread.wait_depth();
  uint32_t at = 0;
  while (at < depth && thread.open_waits[at].record != record) ++at;
  if (at == depth) return thread.outside();
  for (uint32_t i = at + 1; i < depth; ++i) thread.open_waits[i - 1] = thread.open_waits[i];
  return depth - 1;
}

void KeepChunkOf(ThreadState& thread, Kind kind, const ShmRecord* record) {
  ChunkHold& hold = thread.holds[static_cast<uint32_t>(kind)];
  for (uint32_t i = 0; i < hold.held_count; ++i) {
    if (IsIn(kind, hold.held[i].chunk, record)) hold.held[i].until = hold.chunks_taken + 1 + g_runtime.pool(kind).chunks_held;
  }
}

void DropAbandonedWaits(ThreadState& thread, const void* frame) {
  // The stack grows down: a running frame lies above ours. On a stack that the program has made and switched to,
  // either no wait looks abandoned or all do. CloseRecord shows a wait that was dropped by mistake and ends after
  // all.
  for (uint32_t depth = thread.wait_depth(); depth > 0; --depth) {
    ShmWaitRecord* const record = thread.open_waits[depth - 1].record;
    if (!HasFrame(*record) || !WasLeft(thread.open_waits[depth - 1].frame, frame)) return;
    DropRecord(record, record->state.load(kRelaxed));
    CountLoss(Loss::kLockers);
    thread.nesting = depth - 1;
  }
}

// Returns the places that are left in the chunk that is being written. A cursor that a longjmp left half set has none.
static uint32_t PlacesLeft(Kind kind, const ChunkHold& hold, const RecordCursor& cursor) {
  if (hold.chunk == 0) return 0;
  const Pool& pool = g_runtime.pool(kind);
  const char* const end = pool.RecordsOf(hold.chunk) + pool.chunks[hold.chunk].Ready(PerChunk(kind)) * pool.record_bytes;
  if (reinterpret_cast<const char*>(cursor.end) != end || cursor.next > cursor.end) return 0;
  return static_cast<uint32_t>(static_cast<uint64_t>(end - reinterpret_cast<const char*>(cursor.next)) / pool.record_bytes);
}

void GiveAllChunks(ThreadState& thread) {
  for (uint32_t i = 0; i < kEventKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    ChunkHold& hold = thread.holds[i];
    if (MayHaveTraced(hold)) CountTraced(hold, kind);
    const uint32_t idle = KeepsShortThreads(kind) ? PlacesLeft(kind, hold, thread.CursorOf(kind)) : 0;
    const uint32_t last = hold.chunk;
    if (last != 0) hold.held[hold.held_count++] = {last, 0};
    hold.chunk = 0;
    SetCursor(thread.CursorOf(kind), nullptr, nullptr, 0);
    // The youngest first: its records are the most likely to be in the cache.
    const uint32_t spare = hold.held_count != 0 && KeepSpare(thread, kind, hold.held[hold.held_count - 1].chunk) ? 1 : 0;
    for (uint32_t at = 0; at + spare < hold.held_count; ++at) {
      const uint32_t chunk = hold.held[at].chunk;
      GiveChunk(kind, thread.slot, chunk, chunk == last ? idle : 0);
    }
    hold.held_count = 0;
  }
}

}  // namespace perfschema
