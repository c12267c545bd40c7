// snapshot/pool_view.h: a view of the chunks and records of one kind of events; their sizes are checked once.
#pragma once

#include "shm/records.h"
#include "snapshot/array_view.h"

namespace perfschema {

// Threads: external lock. Valid as long as the mapping.
class PoolView {
 public:
  PoolView() = default;
  PoolView(const SegmentView& view, Kind kind)
      : chunks_(view, kChunksOf[static_cast<uint32_t>(kind)]),
        records_(view, kRecordsOf[static_cast<uint32_t>(kind)],
                 ArrayView<ShmRecord>::Extent::kWhole),  // used chunks say which bytes may be read
        per_chunk_(PerChunk(kind)),
        record_bytes_(view.header().record_bytes[static_cast<uint32_t>(kind)]) {
    constexpr uint64_t kLeast[kEventKinds] = {sizeof(ShmWaitRecord), sizeof(ShmStageRecord), sizeof(ShmStatementRecord),
                                              sizeof(ShmTransactionRecord)};
    const uint64_t least = kLeast[static_cast<uint32_t>(kind)];
    ok_ = records_.ok() && record_bytes_ >= least && record_bytes_ % alignof(ShmRecord) == 0 &&
          record_bytes_ <= records_.stride() / per_chunk_;
  }

  bool ok() const { return ok_; }
  uint64_t used() const { return ok_ ? chunks_.used() : 0; }  // chunks to scan: [1, used)
  uint32_t per_chunk() const { return per_chunk_; }
  uint64_t record_bytes() const { return record_bytes_; }
  const ShmChunk* chunk(uint64_t i) const { return chunks_.at(i); }
  // The records of a chunk that have memory. Those behind them have not begun.
  struct Records {
    const ShmRecord* first;  // nullptr: none. The others follow in steps of record_bytes
    uint32_t count;
  };
  Records records(uint64_t index) const {
    const ShmChunk* const chunk = chunks_.at(index);
    const uint32_t count = chunk == nullptr ? 0 : chunk->Ready(per_chunk_);
    const ShmRecord* const first = count == 0 ? nullptr : records_.Bytes(chunk->begin.load(kAcquire), count * record_bytes_);  // MakeChunk
    if (first == nullptr) return {nullptr, 0};
    return {first, count};
  }
  // Returns the bytes from record `i` to the last one's end. REQUIRES: i < records.count.
  uint64_t Capacity(const Records& records, uint32_t i) const { return (records.count - i) * record_bytes_; }
  // Returns the record `i` places behind the first of a chunk. REQUIRES: i < per_chunk().
  const ShmRecord& Next(const ShmRecord* first, uint32_t i) const {
    return *reinterpret_cast<const ShmRecord*>(reinterpret_cast<const char*>(first) + i * record_bytes_);
  }

 private:
  ArrayView<ShmChunk> chunks_;
  ArrayView<ShmRecord> records_;
  uint32_t per_chunk_ = 1;
  uint64_t record_bytes_ = 0;
  bool ok_ = false;
};

}  // namespace perfschema
