// tests/cpp/synthetic_segment.h: a segment without a writer. Tests store to it the words that a writer would have
// left, or never would.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "shm/plan.h"
#include "shm/segment.h"
#include "shm/unsampled.h"
#include "snapshot/snapshot.h"

namespace perfschema {

// Threads: external lock.
class SyntheticSegment {
 public:
  explicit SyntheticSegment(std::string_view option_text =
                                "performance_schema_max_thread_instances=8,performance_schema_max_file_instances=64,"
                                "performance_schema_max_mutex_instances=64") {
    setenv("PFS_SEGMENT", "private", 1);
    Options options;
    EXPECT_TRUE(options.Parse(option_text).ok());
    std::string reason;
    EXPECT_TRUE(segment.Create(options, &reason).ok()) << reason;
    for (int i = 0; i < kTimerCount; ++i) {
      segment.header()->timers[i] = {0, uint64_t{1} << TimerScale::kFractionBits, 1'000'000'000'000,
                                     static_cast<uint64_t>(i)};  // a tick is a ps
    }
    segment.header()->magic = kSegmentMagic;
  }

  template <typename T>
  T& at(ArrayId id, uint64_t index) {
    EXPECT_TRUE(segment.ReserveUpTo(id, index + 1));
    ShmArray& array = segment.array(id);
    if (array.used.load() < index + 1) array.used.store(index + 1);
    return *segment.element<T>(id, index);
  }

  ShmClass& AddClass(uint32_t index, Family family, std::string_view name, uint32_t key = 1) {
    auto& entry = at<ShmClass>(ArrayId::kClasses, index);
    entry.family = static_cast<uint32_t>(family);
    entry.key = key;
    entry.name_bytes = static_cast<uint32_t>(name.size());
    std::memcpy(entry.name, name.data(), name.size());
    entry.enabled.store(1);
    entry.timed.store(1);
    entry.ready.store(1);
    return entry;
  }
  ShmThread& AddThread(uint32_t slot, uint64_t thread_id, std::string_view name = "thread/native/main") {
    auto& thread = at<ShmThread>(ArrayId::kThreads, slot);
    char padded[128] = {};
    std::memcpy(padded, name.data(), name.size());
    CopyToShared(thread.name, padded, sizeof padded);
    thread.flags.store(kThreadInstrumented | kThreadHistory);
    thread.thread_id.store(thread_id);
    return thread;
  }
  static void Fill(ShmStat& stat, uint64_t count, uint64_t sum, uint64_t min, uint64_t max) {
    stat.count.store(count);
    stat.sum_ps.store(sum);
    stat.inverted_min_ps.store(~min);
    stat.range_ps.store(max - min);
  }
  ShmInstance& AddMutex(uint32_t index, uint16_t class_index, uint64_t identity, uint64_t count) {
    auto& mutex = at<ShmInstance>(ArrayId::kInstances, index);
    Fill(mutex.stat, count, count * 10, 5, 20);
    mutex.identity.store(identity);
    at<ShmInstanceList>(ArrayId::kInstanceLists, index).version.fetch_add(1);
    mutex.class_index.store(class_index);
    return mutex;
  }
  void AddHold(uint32_t index, uint16_t class_index) {
    auto& hold = at<ShmHold>(ArrayId::kHolds, index);
    Fill(hold.stat, 4, 40, 5, 20);
    hold.what.store(class_index);
    hold.version.store(at<ShmInstanceList>(ArrayId::kInstanceLists, index).version.load());
  }
  ShmCell& AddCell(uint32_t index, uint32_t next, uint64_t events, uint64_t amount) {
    auto& cell = at<ShmCell>(ArrayId::kCells, index);
    cell.next.store(next);
    cell.owner.store(1);
    Fill(cell.stat, events, events * 100, 50, 200);
    StoreUnsampledWord(cell, kUnsampledMark);  // a file's: it has bytes
    cell.amount.store(amount);
    return cell;
  }
  uint32_t AddName(uint32_t granule, std::string_view text) {
    auto& last = at<ShmNameGranule>(ArrayId::kNames, granule + (16 + text.size() - 1) / 64);
    (void)last;
    auto& first = at<ShmNameGranule>(ArrayId::kNames, granule);
    first.bytes = static_cast<uint32_t>(text.size());
    CopyToShared(first.text, text.data(), text.size());
    first.version.store(2);
    return granule;
  }
  ShmFile& AddFile(uint32_t index, uint16_t class_index, uint32_t name, uint32_t read_cells) {
    auto& file = at<ShmFile>(ArrayId::kFiles, index);
    file.name.store(name);
    file.lanes[kReadLane].first.store(read_cells);
    file.state.store(kFileLive);
    file.version.fetch_add(1);
    file.class_index.store(class_index);
    return file;
  }
  // `name` is "SCHEMA\0NAME" or the like, of version 2 as AddName makes it. Adds a table with an index, a handle, and
  // a metadata lock on it.
  ShmTable& AddTable(uint32_t index, uint32_t name, uint32_t index_name) {
    auto& row = at<ShmIndex>(ArrayId::kIndexes, index);
    row.table.store(index);
    row.name.store(index_name);
    row.name_version.store(2);
    auto& table = at<ShmTable>(ArrayId::kTables, index);
    table.bits.store(kTableEnabled | kTableTimed | kTableHasLocks);
    table.name.store(name);
    table.name_version.store(2);
    table.indexes.store(index);
    table.type.store(static_cast<uint16_t>(ObjectType::kTable));
    auto& handle = at<ShmTableHandle>(ArrayId::kTableHandles, index);
    handle.identity.store(0x100 + index);
    handle.type.store(static_cast<uint32_t>(ObjectType::kTable));
    handle.name.store(name);
    handle.name_version.store(2);
    handle.table.store(index);
    auto& lock = at<ShmMetadataLock>(ArrayId::kMetadataLocks, index);
    lock.identity.store(0x200 + index);
    lock.name.store(name);
    lock.name_version.store(2);
    lock.state.store(static_cast<uint32_t>(ObjectType::kTable));
    return table;
  }
  // sequence 0 = the next chunk of its thread.
  ShmChunk& AddChunk(uint32_t index, uint32_t lap, uint32_t slot, uint64_t thread_id, uint64_t taken, uint64_t sequence = 0) {
    auto& chunk = at<ShmChunk>(ArrayId::kWaitChunks, index);
    chunk.sequence.store(sequence != 0 ? sequence : ++sequences_[thread_id]);
    chunk.thread.store(slot);
    chunk.thread_id.store(thread_id);
    chunk.taken.store(taken);
    chunk.begin.store(index * segment.array(ArrayId::kWaitRecords).stride);
    chunk.ready.store(PerChunk(Kind::kWait));
    chunk.lap.store(lap);
    return chunk;
  }
  // Adds a mutex event of class 1 that took `wait` ticks.
  ShmWaitRecord& AddRecord(uint32_t chunk, uint32_t i, uint64_t event_id, uint64_t start, uint64_t wait, uint64_t more_bits = kRecordClosed,
                           uint64_t children = 0) {
    auto& record = Record(chunk, i);
    record.event_id.store(event_id);
    record.start_ticks.store(start);
    record.end_ticks.store(start + wait);
    record.object.store(0x1000 + event_id);
    record.what.store(1 | static_cast<uint64_t>(Operation::kLock) << 16);
    record.nesting_event_id.store(0);
    record.end_info.store(children);
    const uint64_t lap = at<ShmChunk>(ArrayId::kWaitChunks, chunk).lap.load();
    record.state.store(lap << 32 | kRecordTimed | kRecordHistory | kRecordHistoryLong | more_bits);
    return record;
  }

  ShmWaitRecord& Record(uint32_t chunk, uint32_t i) {
    const uint64_t begin = at<ShmChunk>(ArrayId::kWaitChunks, chunk).begin.load();
    return reinterpret_cast<ShmWaitRecord*>(segment.element<char>(ArrayId::kWaitRecords, 0) + begin)[i];
  }

  // Maps memory at all addresses of the segment. A reader of its own segment trusts the directory: a damaged
  // directory leads it anywhere in the segment.
  void MapAll() {
    char* const base = reinterpret_cast<char*>(segment.header());
    for (uint32_t i = 0; i < kArrayCount; ++i) {
      ShmArray& array = segment.header()->arrays[i];
      const uint64_t mapped = array.mapped.load(), whole = RoundToPages(array.capacity * array.stride);
      if (mapped >= whole) continue;
      EXPECT_NE(mmap(base + array.offset + mapped, whole - mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
                MAP_FAILED);
      array.mapped.store(whole);
    }
  }

  SegmentView view() const { return segment.view(); }
  std::map<uint64_t, uint64_t> sequences_;
  Segment segment;
};

}  // namespace perfschema
