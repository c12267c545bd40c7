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
        long_texts_(records_),
        per_chunk_(PerChunk(kind)),
        record_bytes_(view.header().record_bytes[static_cast<uint32_t>(kind)]),
        long_text_bytes_(view.header().long_text_bytes) {
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
  // The texts of a statement.
  struct Texts {
    const void* first;
    uint64_t capacity;  // bytes that may be read; 0 = none
  };
  // `record`: one of records(). The sizes may be damaged, or those of another statement.
  Texts TextsOf(const ShmStatementRecord& record, uint64_t sql_bytes, uint64_t digest_bytes) const {
    if (!HasLongTexts(sql_bytes, digest_bytes, record_bytes_)) return {&record + 1, record_bytes_ - sizeof record};
    const auto at = static_cast<uint64_t>(reinterpret_cast<const char*>(&record) - records_.base());
    const uint64_t place = PlaceOfLongTexts(at, records_.stride(), record_bytes_, long_text_bytes_);
    const ShmRecord* const first = long_texts_.Bytes(place, long_text_bytes_);
    return {first, first != nullptr ? long_text_bytes_ : 0};
  }
  // Returns the record `i` places behind the first of a chunk. REQUIRES: i < per_chunk().
  const ShmRecord& Next(const ShmRecord* first, uint32_t i) const {
    return *reinterpret_cast<const ShmRecord*>(reinterpret_cast<const char*>(first) + i * record_bytes_);
  }

 private:
  ArrayView<ShmChunk> chunks_;
  ArrayView<ShmRecord> records_;
  ArrayView<ShmRecord> long_texts_;  // the same array: each view remembers where it has found memory
  uint32_t per_chunk_ = 1;
  uint64_t record_bytes_ = 0;
  uint64_t long_text_bytes_ = 0;
  bool ok_ = false;
};

}  // namespace perfschema
