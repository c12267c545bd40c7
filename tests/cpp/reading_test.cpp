// Many rows: columns that are made in batches, and their building blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "base/number_map.h"
#include "snapshot/sort_by_time.h"
#include "synthetic_segment.h"
#include "table/table_def.h"

namespace perfschema {
namespace {

using Cells = std::vector<std::vector<std::string>>;

// The slow reference: each cell by itself, as a literal.
// Threads: external lock.
class SlowSink final : public RawSink {
 public:
  SlowSink(const TableDef& def, Cells* cells) : def_(def), cells_(*cells) {}
  void OnRow(const void* row) override {
    std::vector<std::string>& texts = cells_.emplace_back();
    for (const Column& column : def_.columns) {
      SqlText out(texts.emplace_back());
      out.Begin(column.type);
      column.AppendSql(row, out);
    }
  }

 private:
  const TableDef& def_;
  Cells& cells_;
};

Cells SlowCells(const TableDef& def, const SegmentView& view) {
  Cells cells;
  SlowSink sink(def, &cells);
  const Snapshot snapshot(view);
  def.scan.call(snapshot, sink);
  return cells;
}

Cells FastCells(const NamedTable& table, const SegmentView& view) {
  const TableDef& def = *table.def;
  TableData data;
  EXPECT_TRUE(ReadTable(table, view, {}, &data).ok());
  Cells cells(data.rows);
  for (size_t r = 0; r < data.rows; ++r) {
    for (size_t c = 0; c < def.columns.size(); ++c) {
      const ColumnData& column = data.columns[c];
      SqlText out(cells[r].emplace_back());
      out.Begin(def.columns[c].type);
      if (!column.nulls.empty() && column.nulls.at(r) != 0)
        out.AddNullWord();
      else if (!column.words.empty())
        out.AddWord(column.words.at(r));
      else if (def.columns[c].type.kind == ColumnKind::kEnum)
        out.AddCode(column.codes.at(r));
      else
        out.AddText(column.texts[column.codes.at(r)]);
    }
  }
  return cells;
}

TEST(ReadTable, batches_of_rows_are_the_rows_one_by_one) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937_64 random(seed);
    SyntheticSegment shm;
    shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m", 1);
    shm.AddClass(2, Family::kFile, "wait/io/file/a/data", 2);
    for (uint32_t i = 0; i < 20; ++i) shm.AddName(1 + 4 * i, "/a/file " + std::to_string(i * 7919));
    for (uint32_t chunk = 1; chunk < 25; ++chunk) {
      shm.AddChunk(chunk, 2, 1 + chunk % 3, 7 + chunk % 3, chunk);
      for (uint32_t i = 0; i < 63; ++i) {
        const uint64_t times = random() % 7 == 0 ? random() : random() % 100'000;  // far apart, or nearly in order
        ShmWaitRecord& record = shm.AddRecord(chunk, i, chunk * 64 + i, times, random() % 1000);
        const bool is_file = random() % 2 == 0;
        record.what.store((is_file ? 2 : 1) | static_cast<uint64_t>(is_file ? Operation::kRead : Operation::kLock) << 16 |
                          (random() % 6) << 24);
        record.nesting_event_id.store(random() % 3);
        if (!is_file) continue;
        ++i;
        ShmWaitDetails& details = record.details();
        details.state.store(uint64_t{2} << 32);
        details.bytes.store(random());
        details.flags_and_name.store((1 + 4 * (random() % 20)) << 32 | (random() & 0xffffffff));
        details.version_and_type.store(2);
        uint64_t bits = 0;
        for (const uint64_t bit : {kRecordHasBytes, kRecordHasFlags, kRecordHasName, kRecordHasSpins}) bits |= random() % 2 == 0 ? bit : 0;
        record.state.store((record.state.load() | bits) & ~(random() % 5 == 0 ? kRecordTimed : 0));
      }
    }
    for (uint16_t i = 1; i < 200; ++i) shm.AddFile(i, 2, 1 + 4 * (i % 20), 0);
    size_t rows = 0;
    for (const NamedTable& table : AllTables()) {
      if (table.name == "performance_timers" || table.name == "thread_time") continue;  // measured again each time
      SCOPED_TRACE(std::string(table.name));
      const Cells slow = SlowCells(*table.def, shm.view());
      rows += slow.size();
      EXPECT_EQ(FastCells(table, shm.view()), slow);
    }
    EXPECT_GT(rows, 24u * 32u);
  }
}

TEST(SortByTime, is_a_stable_sort) {
  std::mt19937_64 random(1);
  for (const uint32_t bits : {0, 1, 10, 11, 12, 22, 23, 40, 63, 64}) {
    for (const size_t size : {0, 1, 2, 100, 5000}) {
      for (const uint64_t base : {uint64_t{0}, uint64_t{1} << 62}) {
        LargeVector<TimedPlace> items, cached;
        for (size_t i = 0; i < size; ++i) items.push_back({base + (bits == 0 ? 0 : random() >> (64 - bits)), i});
        std::vector<TimedPlace> expected(items.begin(), items.end());
        std::stable_sort(expected.begin(), expected.end(), [](const TimedPlace& a, const TimedPlace& b) { return a.time < b.time; });
        SortByTime(&items, &cached);
        ASSERT_EQ(items.size(), expected.size());
        for (size_t i = 0; i < size; ++i) {
          ASSERT_EQ(items[i].time, expected[i].time) << bits;
          ASSERT_EQ(items[i].place, expected[i].place) << bits;
        }
      }
    }
  }
}

TEST(NumberMap, finds_what_was_added_and_nothing_else) {
  for (const uint64_t stride : {uint64_t{1}, uint64_t{4} << 32, uint64_t{1} << 40}) {  // of names: granule << 32
    NumberMap<uint64_t> map;
    EXPECT_EQ(map.Find(0), nullptr);
    for (uint64_t i = 0; i < 3000; ++i) map.Add(i * stride, i);
    for (uint64_t i = 0; i < 3000; ++i) {
      ASSERT_NE(map.Find(i * stride), nullptr);
      EXPECT_EQ(*map.Find(i * stride), i);
    }
    for (uint64_t i = 3000; i < 6000; ++i) EXPECT_EQ(map.Find(i * stride), nullptr);
  }
}

TEST(LargeVector, keeps_its_values_wherever_they_lie) {
  LargeVector<uint64_t> kept;
  {
    const auto region = std::make_shared<LargeRegion>(kLargeBlock);
    const LargeAllocator<uint64_t> allocator(region);
    LargeVector<uint64_t> first(allocator), second(allocator);
    first.reserve(1000);  // of the region
    EXPECT_TRUE(region->Has(first.data()));
    for (uint64_t i = 0; i < 2'000'000; ++i) {  // ... which they outgrow, and become large by themselves
      first.push_back(i);
      second.push_back(~i);
    }
    EXPECT_FALSE(region->Has(first.data()));
    for (uint64_t i = 0; i < first.size(); ++i) ASSERT_EQ(first[i], ~second[i]);
    LargeVector<uint64_t> small(allocator);
    small.reserve(1);
    kept = std::move(first);
    EXPECT_EQ(region->Take(kLargeBlock), nullptr);
  }
  EXPECT_EQ(kept.size(), 2'000'000u);
  EXPECT_EQ(std::accumulate(kept.begin(), kept.end(), uint64_t{0}), uint64_t{1'999'999} * 1'000'000);
}

}  // namespace
}  // namespace perfschema
