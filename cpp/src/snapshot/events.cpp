#include "snapshot/event_reader.h"

namespace perfschema {

std::vector<ChunkHead> ScanChunks(const Snapshot& snapshot, Kind kind) {
  const PoolView& pool = snapshot.pool(kind);
  std::vector<ChunkHead> heads;
  const uint64_t used = pool.used();
  heads.reserve(used);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmChunk* chunk = pool.chunk(i);
    if (chunk == nullptr) break;
    ChunkHead head;
    head.index = static_cast<uint32_t>(i);
    head.lap = chunk->lap.load(kAcquire);  // pairs with the taker's store of the new lap
    head.slot = chunk->thread.load(kAcquire);
    head.thread_id = chunk->thread_id.load(kAcquire);
    head.taken = chunk->taken.load(kAcquire);
    head.chunk_seq = chunk->sequence.load(kAcquire);
    // In a chunk that changes hands, the words may no longer name its owner. Records that a new owner was about to overwrite are left
    // out.
    if (head.lap > 1 && (head.lap & 1) != 0 && snapshot.WriterRests()) snapshot.NoteLeftOut(chunk);
    if (head.lap == 0 || (head.lap & 1) != 0 || head.thread_id == 0) continue;
    const ShmRecord* first = pool.records(i).first;
    if (first == nullptr || first->state.load(kAcquire) >> 32 != head.lap) continue;  // no record in it yet
    head.first_event_id = first->event_id.load(kAcquire);
    if (chunk->lap.load(kRelaxed) == head.lap) heads.push_back(head);
  }
  return heads;
}

std::unordered_map<uint64_t, uint64_t> NewestEventIds(const Snapshot& snapshot, Kind but) {
  std::unordered_map<uint64_t, uint64_t> newest;
  const auto meet = [&](uint64_t thread_id, uint64_t event_id) {
    uint64_t& id = newest[thread_id];
    id = std::max(id, event_id);
  };
  for (uint64_t slot = 1; slot < snapshot.array<ArrayId::kThreads>().used(); ++slot) {
    const ShmThread* thread = snapshot.array<ArrayId::kThreads>().at(slot);
    if (thread == nullptr) break;
    meet(thread->thread_id.load(kAcquire), thread->event_id.load(kAcquire));  // pairs with BeginRecord
  }
  if (but == Kind::kWait) return newest;
  // Waits are too frequent to store their number in a second place: their youngest chunk tells.
  const PoolView& pool = snapshot.pool(Kind::kWait);
  std::unordered_map<uint64_t, ChunkHead> youngest;
  for (const ChunkHead& head : ScanChunks(snapshot, Kind::kWait)) {
    const auto [found, is_new] = youngest.try_emplace(head.thread_id, head);
    if (!is_new && found->second.chunk_seq < head.chunk_seq) found->second = head;
  }
  for (const auto& [thread_id, head] : youngest) {
    const PoolView::Records records = pool.records(head.index);
    for (uint32_t i = records.count; i-- > 0;) {
      const ShmRecord& record = pool.Next(records.first, i);
      const uint64_t state = record.state.load(kAcquire);
      if (state >> 32 != head.lap || (state & (kRecordOpen | kRecordClosed)) == 0) continue;
      meet(thread_id, record.event_id.load(kAcquire));
      break;
    }
  }
  return newest;
}

void FillRow(const Snapshot& snapshot, const EventHead& head, const ClassRow& instrument, EventRow* row) {
  const bool is_open = head.is_open();
  row->thread_id = head.thread_id;
  row->event_id = head.event_id;
  if (!is_open) row->end_event_id = head.end_event_id();
  row->event_name = instrument.name;
  row->source = snapshot.SourceText(head.what >> 32);
  if (head.is_timed()) {
    row->timer_start = head.StartPicos(snapshot.header());
    if (!is_open) {
      row->timer_wait = head.WaitPicos(snapshot.header());
      row->timer_end = *row->timer_start + *row->timer_wait;
    } else if (ReadMoment::ShowsElapsed()) {
      row->timer_end = std::max(ReadMoment::Now(snapshot.header()), *row->timer_start);
      row->timer_wait = *row->timer_end - *row->timer_start;
    }
  }
  if (head.nesting_event_id != 0) {
    row->nesting_event_id = head.nesting_event_id;
    const uint32_t type = head.nesting_type();
    if (type >= kNestingTransaction && type <= kNestingWait) row->nesting_type = static_cast<NestingType>(type - kNestingTransaction);
  }
}

}  // namespace perfschema
