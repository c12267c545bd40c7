// The reader against segments whose every byte the test has chosen.
#include <sys/mman.h>

#include <functional>
#include <map>
#include <random>
#include <vector>

#include "aggregate/resets.h"
#include "live.h"
#include "shm/fact.h"
#include "snapshot/blocked.h"
#include "snapshot/events.h"
#include "snapshot/objects.h"
#include "snapshot/program.h"
#include "snapshot/program_tables.h"
#include "snapshot/rules.h"
#include "snapshot/state.h"
#include "snapshot/sums.h"
#include "snapshot/threads.h"
#include "synthetic_segment.h"

namespace perfschema {
namespace {

std::vector<WaitRow> Waits(const Snapshot& snapshot, uint32_t view) {
  std::vector<WaitRow> rows;
  ForEachWait(snapshot, view, [&](const WaitRow& row) { rows.push_back(row); });
  return rows;
}
std::vector<uint64_t> Ids(const std::vector<WaitRow>& rows) {
  std::vector<uint64_t> ids;
  for (const WaitRow& row : rows) ids.push_back(row.event.event_id);
  return ids;
}
constexpr uint32_t kCurrent = kViewCurrent, kHistory = kViewHistory, kHistoryLong = kViewHistoryLong;
constexpr uint32_t kRecordsPerChunk = PerChunk(Kind::kWait);
using Idlist = std::vector<uint64_t>;

std::map<std::string, Lanes> Totals(const Snapshot& snapshot) {
  std::map<std::string, Lanes> totals;
  ForEachClassTotal(snapshot, [&](const ClassTotalRow& row) { totals[std::string(row.instrument->name.view())] = row.lanes; });
  return totals;
}

void HideAll(SyntheticSegment& shm, uint32_t view) { HideEventsOf(shm.segment, Kind::kWait, view); }

TEST(Circles, are_the_shortest_through_each_thread) {
  using Found = std::map<uint64_t, std::vector<uint64_t>>;
  EXPECT_EQ(Circles({}), Found());
  EXPECT_EQ(Circles({{1, 2}, {2, 3}}), Found());
  EXPECT_EQ(Circles({{7, 7}, {8, 7}}), Found({{7, {7, 7}}}));
  EXPECT_EQ(Circles({{3, 1}, {1, 2}, {2, 3}, {9, 1}}), Found({{1, {1, 2, 3, 1}}, {2, {1, 2, 3, 1}}, {3, {1, 2, 3, 1}}}));
  EXPECT_EQ(Circles({{1, 2}, {1, 3}, {3, 1}}), Found({{1, {1, 3, 1}}, {3, {1, 3, 1}}}));
}

TEST(Text, is_cut_at_its_width_but_not_inside_a_character) {
  EXPECT_EQ(Text<4>("abcdef").view(), "abcd");
  EXPECT_EQ(Text<4>("abc\xc3\xa9").view(), "abc");
  EXPECT_EQ(Text<4>("ab\xc3\xa9").view(), "ab\xc3\xa9");
  EXPECT_EQ(Text<2>("\x80\x80\x80\x80").view(), "\x80\x80");
}

TEST(Snapshot, without_a_segment_is_empty) {
  const Snapshot snapshot{SegmentView()};
  EXPECT_FALSE(snapshot.ok());
  EXPECT_TRUE(snapshot.classes().empty());
  EXPECT_TRUE(Threads(snapshot).empty());
  EXPECT_TRUE(Waits(snapshot, kCurrent).empty());
  EXPECT_TRUE(Waits(snapshot, kHistory).empty());
  EXPECT_TRUE(Waits(snapshot, kHistoryLong).empty());
  EXPECT_TRUE(Totals(snapshot).empty());
}

TEST(Snapshot, lists_classes_by_family_then_key) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kFile, "wait/io/file/a/x", 1);
  shm.AddClass(2, Family::kMutex, "wait/synch/mutex/a/second", 2);
  shm.AddClass(3, Family::kMutex, "wait/synch/mutex/a/first", 1);
  shm.AddClass(4, Family::kMutex, "wait/synch/mutex/a/half_made", 3).ready.store(0);
  const Snapshot snapshot(shm.view());
  // Rows that the reader makes up do not count.
  EXPECT_EQ(std::count_if(snapshot.classes().begin(), snapshot.classes().end(),
                          [](const ClassRow& row) { return row.family != Family::kOwnMemory; }),
            3);
  EXPECT_EQ(snapshot.classes()[0].name.view(), "wait/synch/mutex/a/first");
  EXPECT_EQ(snapshot.classes()[1].name.view(), "wait/synch/mutex/a/second");
  EXPECT_EQ(snapshot.classes()[2].name.view(), "wait/io/file/a/x");
}

TEST(Snapshot, threads_and_their_texts) {
  SyntheticSegment shm;
  ShmThread& thread = shm.AddThread(1, 7, "thread/python/worker");
  thread.os_id.store(4711);
  shm.AddThread(2, 0, "thread/native/ended");
  const auto rows = Threads(Snapshot(shm.view()));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].thread_id, 7u);
  EXPECT_EQ(rows[0].os_id, 4711u);
  EXPECT_FALSE(rows[0].user);
  EXPECT_FALSE(rows[0].parent_thread_id);
}

TEST(Snapshot, a_row_that_stays_torn_is_skipped_and_counted) {
  SyntheticSegment shm;
  shm.AddThread(1, 7).seq.store(3);
  shm.AddThread(2, 8);
  const Snapshot snapshot(shm.view());
  EXPECT_EQ(Threads(snapshot).size(), 1u);
  EXPECT_EQ(snapshot.skipped(), 1u);
}

TEST(Snapshot, mutexes_add_failed_locks_to_their_cell) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddMutex(1, 1, 0xabc, 4).owner.store((uint64_t{2} << 48) | 7);
  SyntheticSegment::Fill(shm.at<ShmCell>(ArrayId::kCells, 5).stat, 2, 6, 1, 30);
  shm.at<ShmCell>(ArrayId::kCells, 5).held.store(3);
  shm.at<ShmInstanceList>(ArrayId::kInstanceLists, 1).cells.first.store(5);
  std::vector<InstanceRow> rows;
  const Snapshot snapshot(shm.view());
  ForEachInstance(snapshot, [&](const InstanceRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].identity, 0xabcu);
  EXPECT_EQ(rows[0].owner_thread_id, 7u);
  EXPECT_EQ(rows[0].wait.count, 6u);
  EXPECT_EQ(rows[0].shared_count, 3u);
  EXPECT_EQ(rows[0].wait.sum_ps, 46u);
  EXPECT_EQ(rows[0].wait.min_ps(), 1u);
  EXPECT_EQ(rows[0].wait.max_ps, 30u);
}

// ---- Sums of times saturate ---------------------------------------------------------------------------------------------------------

constexpr uint64_t kDay = 86'400'000'000'000'000u;  // picoseconds

TEST(Sums, of_more_than_213_days_stop_at_the_largest_number) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  for (uint32_t i = 1; i <= 3; ++i) SyntheticSegment::Fill(shm.AddMutex(i, 1, i, 0).stat, 100, 100 * kDay, kDay / 2, 2 * kDay);
  // One object has its own cell and cells of threads.
  SyntheticSegment::Fill(shm.at<ShmCell>(ArrayId::kCells, 5).stat, 7, 150 * kDay, kDay, kDay);
  shm.at<ShmInstanceList>(ArrayId::kInstanceLists, 1).cells.first.store(5);
  std::map<uint64_t, Stat> waits;
  const Snapshot snapshot(shm.view());
  ForEachInstance(snapshot, [&](const InstanceRow& row) { waits[row.identity] = row.wait; });
  EXPECT_EQ(waits[1].sum_ps, kMostPicos);
  EXPECT_EQ(waits[1].count, 107u);
  EXPECT_EQ(waits[2].sum_ps, 100 * kDay);
  const Stat total = Totals(snapshot)["wait/synch/mutex/a/m"].total();
  EXPECT_EQ(total.sum_ps, kMostPicos);
  EXPECT_EQ(total.count, 307u);
  EXPECT_EQ(total.min_ps(), kDay / 2);
  EXPECT_EQ(total.max_ps, 2 * kDay);
}

TEST(Sums, saturate_where_numbers_move_to_other_rows) {
  // Adds to a class's statistics of dead objects; the minimum and maximum are as before, also of a statistic that is
  // stored as a large one.
  ShmStat dead{};
  for (int i = 1; i <= 3; ++i) {
    MergeIntoStat(dead, {10, 100 * kDay, ~kDay, 3 * kDay});
    const Stat now = LoadStat(dead);
    EXPECT_EQ(now.sum_ps, i < 3 ? static_cast<uint64_t>(i) * 100 * kDay : kMostPicos);
    EXPECT_EQ(now.count, static_cast<uint64_t>(i) * 10);
    EXPECT_EQ(now.min_ps(), kDay);
    EXPECT_EQ(now.max_ps, 3 * kDay);
  }
  // Adds to an account, a user, a host and the total, with any kind. Sums other than those of times wrap around, such
  // as values that may be negative.
  const Shape& shape = ShapeOf(Kind::kStatement);
  constexpr uint32_t kLockTime = kCounterWords + static_cast<uint32_t>(StatementCounter::kLockTime);
  constexpr uint32_t kCpuTime = kCounterWords + static_cast<uint32_t>(StatementCounter::kCpuTime);
  constexpr uint32_t kRows = kCounterWords + static_cast<uint32_t>(StatementCounter::kRowsSent);
  Numbers thread{}, account{};
  PutStatIn(&thread, 0, {1, 150 * kDay, ~kDay, kDay});
  thread[kLockTime] = thread[kCpuTime] = thread[kRows] = 150 * kDay;
  MergeNumbers(shape, thread, &account);
  EXPECT_EQ(StatIn(account, 0).sum_ps, 150 * kDay);
  MergeNumbers(shape, thread, &account);
  EXPECT_EQ(StatIn(account, 0).sum_ps, kMostPicos);
  EXPECT_EQ(account[kLockTime], kMostPicos);
  EXPECT_EQ(account[kCpuTime], kMostPicos);
  EXPECT_EQ(account[kRows], 300 * kDay);
  ShmCell row[ColumnsOf(Kind::kStatement)] = {};
  StoreNumbers(shape, account, row[0]);
  Numbers again{};
  ASSERT_TRUE(LoadNumbers(shape, row[0], &again));
  EXPECT_EQ(again, account);
  Numbers value{}, sum{};
  value[0] = static_cast<uint64_t>(-5);
  sum[0] = 3;
  MergeNumbers(ShapeOf(Kind::kStatus), value, &sum);
  EXPECT_EQ(sum[0], static_cast<uint64_t>(-2));
}

TEST(Sums, saturate_where_events_are_added_to_a_large_one) {
  struct {
    HalfWord seq{0};
    ShmStat stat{};
  } cell;
  AddTimed(cell.seq, cell.stat, kDay);
  AddTimed(cell.seq, cell.stat, 10);
  SyntheticSegment::Fill(cell.stat, 2, 213 * kDay, 10, kDay);
  // A long wait is neither a new minimum nor a new maximum: the check for that finds the large sum.
  WatchSum(cell.seq, cell.stat);
  EXPECT_TRUE(WidensRange(cell.stat, kDay / 2));
  EXPECT_EQ(LoadStat(cell.stat).min_ps(), 10u);
  AddTimed(cell.seq, cell.stat, kDay / 2);
  EXPECT_EQ(LoadStat(cell.stat).sum_ps, 213 * kDay + kDay / 2);
  for (int i = 0; i < 3; ++i) AddEvents(cell.seq, cell.stat, true, kDay, i == 0 ? 5 : 1);
  AddCounted(cell.seq, cell.stat);
  AddTimed(cell.seq, cell.stat, 10);
  const Stat all = LoadStat(cell.stat);
  EXPECT_EQ(all.sum_ps, kMostPicos);
  EXPECT_EQ(all.count, 2u + 1 + 5 + 2 + 1 + 1);
  EXPECT_EQ(all.min_ps(), 10u);
  EXPECT_EQ(all.max_ps, kDay);
  // After TRUNCATE the sum is small again, and on the fast path if there is one.
  ClearStat(cell.stat);
  AddTimed(cell.seq, cell.stat, 7);
  EXPECT_EQ(LoadStat(cell.stat).sum_ps, 7u);
  EXPECT_EQ(WidensRange(cell.stat, 7), !StoresPairs());
}

#if defined(PFS_WIDE_STAT)
// ---- A processor that cannot store a count and a sum at once -----------------------------------------------------------------------

TEST(WithoutPairs, each_event_has_a_section_around_it) {
  g_pairs = Pairs::kAvoided;
  struct {
    HalfWord seq{0};
    ShmStat stat{};
  } cell;
  std::mt19937_64 random(3);
  Stat expected;
  uint32_t seq = 0;
  for (uint64_t i = 1; i <= 2000; ++i) {
    const uint64_t wait = random() >> (random() % 64) >> 2;  // 0 among them
    const Stat one{1, wait, ~wait, wait};
    EXPECT_TRUE(WidensRange(cell.stat, wait));  // so no event on the fast path adds to it either
    EXPECT_FALSE(HasWaitOfZero(cell.stat));
    AddTimed(cell.seq, cell.stat, wait);
    expected.Merge(one);
    seq += 2;
    ASSERT_EQ(cell.seq.load(), seq);
    const Stat seen = LoadStat(cell.stat);
    ASSERT_EQ(seen.count, expected.count);
    ASSERT_EQ(seen.sum_ps, expected.sum_ps);
    ASSERT_EQ(seen.min_ps(), expected.min_ps());
    ASSERT_EQ(seen.max_ps, expected.max_ps);
  }
  // Numbers that were moved here behave in the same way.
  ShmStat moved{};
  StoreStat(moved, expected);
  EXPECT_TRUE(WidensRange(moved, expected.max_ps));
  ShmCell row[ColumnsOf(Kind::kTransaction)] = {};
  Numbers numbers{};
  PutStatIn(&numbers, kReadOnlyWord, expected);
  StoreNumbers(ShapeOf(Kind::kTransaction), numbers, row[0]);
  EXPECT_TRUE(WidensRange(StatAt(row[0], kReadOnlyWord), expected.max_ps));
  EXPECT_EQ(LoadStat(StatAt(row[0], kReadOnlyWord)).min_ps(), expected.min_ps());
  g_pairs = Pairs::kNotAsked;
}
#endif

TEST(Snapshot, cells_of_an_older_generation_are_zero) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddMutex(1, 1, 1, 4);
  shm.segment.header()->resets[ObjectDomain(ResetGroup::kSync)].store(1);
  shm.AddMutex(2, 1, 2, 5).gen.store(1);
  std::map<uint64_t, uint64_t> counts;
  const Snapshot snapshot(shm.view());
  ForEachInstance(snapshot, [&](const InstanceRow& row) { counts[row.identity] = row.wait.count; });
  EXPECT_EQ(counts, (std::map<uint64_t, uint64_t>{{1, 0}, {2, 5}}));
}

TEST(Snapshot, thread_waits_list_every_wait_instrument) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddClass(2, Family::kFile, "wait/io/file/a/f");
  shm.AddClass(3, Family::kThread, "thread/a/t");
  shm.AddThread(1, 7).cells.store(2);  // column 2 is not there yet
  const uint64_t width = shm.segment.array(ArrayId::kThreadCells).capacity / shm.segment.array(ArrayId::kThreads).capacity;
  SyntheticSegment::Fill(shm.segment.element<ShmCell>(ArrayId::kThreadCells, width + 1)->stat, 3, 9, 2, 4);
  SyntheticSegment::Fill(shm.segment.element<ShmCell>(ArrayId::kThreadCells, width + 2)->stat, 99, 9, 2, 4);
  std::vector<std::pair<std::string, uint64_t>> rows;
  const Snapshot snapshot(shm.view());
  ForEachSum(snapshot, Kind::kWait, Level::kThread,
             [&](const SumRow& row) { rows.emplace_back(row.instrument->name.view(), row.numbers[0]); });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], std::make_pair(std::string("wait/synch/mutex/a/m"), uint64_t{3}));
  EXPECT_EQ(rows[1], std::make_pair(std::string("wait/io/file/a/f"), uint64_t{0}));
}

TEST(Snapshot, files_have_names_of_any_length) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kFile, "wait/io/file/a/f");
  const std::string longest = "/" + std::string(511, 'x');
  shm.AddFile(1, 1, shm.AddName(1, "/tmp/short"), 0).open_count.store(2);
  shm.AddFile(2, 1, shm.AddName(10, longest), 0);
  shm.AddFile(3, 1, 0, 0);  // its name was lost
  shm.AddFile(4, 1, shm.AddName(30, "/gone"), 0).state.store(kFileDead);
  std::vector<FileRow> rows;
  const Snapshot snapshot(shm.view());
  ForEachFile(snapshot, kFileNumbers | kFileName, [&](const FileRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name.view(), "/tmp/short");
  EXPECT_EQ(rows[0].open_count, 2u);
  EXPECT_EQ(rows[1].name.view(), longest);
  EXPECT_EQ(rows[2].name.view(), "");
  EXPECT_EQ(rows[0].identity, static_cast<uint64_t>(reinterpret_cast<char*>(&shm.at<ShmFile>(ArrayId::kFiles, 1)) -
                                                    reinterpret_cast<char*>(shm.segment.header())));
}

TEST(Snapshot, class_totals_add_dead_class_live_and_graves) {
  SyntheticSegment shm;
  ShmClass& files = shm.AddClass(1, Family::kFile, "wait/io/file/a/f");
  ShmClass& mutexes = shm.AddClass(2, Family::kMutex, "wait/synch/mutex/a/m");
  mutexes.dead.store(11);
  SyntheticSegment::Fill(shm.at<ShmCell>(ArrayId::kCells, 11).stat, 1000, 1, 1, 1);
  shm.AddMutex(1, 2, 1, 7);
  shm.AddMutex(2, 2, 2, 8);
  files.dead.store(12);
  SyntheticSegment::Fill(shm.at<ShmCell>(ArrayId::kCells, 12 + kReadLane).stat, 1, 1, 1, 1);
  shm.AddCell(12 + kWriteLane, 0, 0, 0);
  shm.AddCell(1, 0, 10, 0);
  files.lanes[kReadLane].head.store(1);
  shm.AddCell(3, 0, 100, 0);
  shm.AddCell(2, 3, 200, 77);
  shm.AddFile(1, 1, shm.AddName(1, "/f"), 2);
  shm.AddCell(4, 0, 4000, 0).gen.store(9);
  auto& retired = shm.at<ShmRetired>(ArrayId::kRetired, 1);
  retired.lanes[kReadLane].head.store(4);
  retired.object_gen.store(9);
  retired.class_index.store(1);
  const Snapshot snapshot(shm.view());
  auto totals = Totals(snapshot);
  EXPECT_EQ(totals["wait/synch/mutex/a/m"].total().count, 1015u);
  EXPECT_EQ(totals["wait/io/file/a/f"].stats[kReadLane].count, 4311u);
  EXPECT_EQ(totals["wait/io/file/a/f"].amounts[kReadLane], 77u);
  EXPECT_EQ(snapshot.skipped(), 0u);

  // TRUNCATE of objects keeps the dead objects, also in retired cells; TRUNCATE of classes keeps nothing.
  shm.segment.header()->resets[ObjectDomain(ResetGroup::kFile)].fetch_add(1);
  EXPECT_EQ(Totals(Snapshot(shm.view()))["wait/io/file/a/f"].stats[kReadLane].count, 4011u);
  shm.segment.header()->resets[ClassDomain(ResetGroup::kFile)].fetch_add(1);
  EXPECT_EQ(Totals(Snapshot(shm.view()))["wait/io/file/a/f"].stats[kReadLane].count, 0u);
}

TEST(Snapshot, class_that_folds_all_the_time_is_skipped_or_read_in_quiet) {
  SyntheticSegment shm;
  ShmClass& entry = shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddClass(2, Family::kMutex, "wait/synch/mutex/a/n", 2);
  shm.AddMutex(1, 1, 1, 7);
  entry.fold_seq.store(1);
  {
    const Snapshot snapshot(shm.view());
    auto totals = Totals(snapshot);
    EXPECT_EQ(totals.size(), 1u);
    EXPECT_EQ(snapshot.skipped(), 1u);
  }
  const Snapshot snapshot(shm.view(), [&](const std::function<void()>& run) {
    entry.fold_seq.store(2);
    run();
    return true;
  });
  EXPECT_EQ(Totals(snapshot)["wait/synch/mutex/a/m"].total().count, 7u);
  EXPECT_EQ(snapshot.skipped(), 0u);
}

TEST(Snapshot, current_shows_open_events_or_the_last_outer_one) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7);
  shm.AddChunk(1, 2, 1, 7, 0);
  shm.AddRecord(1, 0, 1, 100, 10);
  shm.AddRecord(1, 1, 2, 200, 50, kRecordClosed, 1);
  auto& nested = shm.AddRecord(1, 2, 3, 210, 10);
  nested.nesting_event_id.store(2);
  nested.what.store(nested.what.load() | uint64_t{kNestingWait} << 24);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kCurrent)), (Idlist{2}));
  shm.AddRecord(1, 3, 4, 300, 0, kRecordOpen);
  shm.AddRecord(1, 4, 5, 310, 0, kRecordOpen);
  const Snapshot snapshot(shm.view());
  const auto rows = Waits(snapshot, kCurrent);
  EXPECT_EQ(Ids(rows), (Idlist{4, 5}));
  EXPECT_EQ(rows[0].event.timer_start, 300u);
  EXPECT_FALSE(rows[0].event.timer_end);
  EXPECT_FALSE(rows[0].event.timer_wait);
  EXPECT_FALSE(rows[0].event.end_event_id);
  EXPECT_EQ(rows[0].operation.view(), "lock");
  EXPECT_EQ(rows[0].event.event_name.view(), "wait/synch/mutex/a/m");
}

TEST(Snapshot, history_is_the_last_to_finish_of_live_threads) {
  SyntheticSegment shm("performance_schema_events_waits_history_size=3,performance_schema_max_thread_instances=8");
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7);
  shm.AddChunk(2, 2, 1, 7, 0);  // `taken` may say nothing: event numbers do
  shm.AddChunk(1, 2, 1, 7, 0);
  constexpr uint64_t kMost = kRecordsPerChunk;
  shm.AddRecord(2, 0, 1, 100, 5000, kRecordClosed, kMost);  // outer: ends last, with END_EVENT_ID kMost + 1
  for (uint32_t i = 1; i < kRecordsPerChunk; ++i) shm.AddRecord(2, i, 1 + i, 100 + i, 1);
  shm.AddRecord(1, 0, kMost + 1, 200, 1);
  shm.AddChunk(3, 2, 2, 8, 0);  // of a thread that ended
  shm.AddRecord(3, 0, 1, 100, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{1, kMost, kMost + 1}));
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistoryLong).size(), kMost + 2);
  // A record is not in the view if the consumer, or the thread's HISTORY, was off.
  auto& record = shm.Record(1, 0);
  record.state.fetch_and(~kRecordHistory);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{1, kMost - 1, kMost}));
}

TEST(Snapshot, history_has_no_hole_where_a_chunk_is_missing_but_keeps_what_was_open) {
  constexpr uint64_t kMost = kRecordsPerChunk;
  SyntheticSegment shm("performance_schema_events_waits_history_size=" + std::to_string(3 * kMost + 4) +
                       ",performance_schema_max_thread_instances=8");
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7);
  for (uint32_t chunk = 1; chunk <= 3; ++chunk) {
    shm.AddChunk(chunk, 2, 1, 7, 0, chunk == 1 ? 1 : chunk + 1);
    // The events of the first, third and fourth chunk: those between are another thread's chunk by now.
    const uint64_t before = chunk == 1 ? 0 : kMost * chunk;
    for (uint32_t i = 0; i < kMost; ++i) shm.AddRecord(chunk, i, before + 1 + i, 100 * (before + i), 10);
  }
  shm.AddRecord(1, 4, 5, 450, 1'000'000, kRecordClosed, 4 * kMost - 8);  // event 5 ended in the last chunk
  const Idlist ids = Ids(Waits(Snapshot(shm.view()), kHistory));
  ASSERT_EQ(ids.size(), 2 * kMost + 1);
  EXPECT_EQ(ids[0], 5u);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(ids[i], 2 * kMost + i);
}

TEST(Snapshot, history_long_is_limited_and_ordered_by_end) {
  SyntheticSegment shm("performance_schema_events_waits_history_long_size=4,performance_schema_max_thread_instances=8");
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddChunk(1, 4, 1, 7, 5);
  shm.AddChunk(2, 2, 2, 8, 3);
  for (uint32_t i = 0; i < 4; ++i) shm.AddRecord(1, i, 1 + i, 100 * i, 10);
  for (uint32_t i = 0; i < 3; ++i) shm.AddRecord(2, i, 11 + i, 100 * i + 50, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistoryLong)), (Idlist{12, 3, 13, 4}));
}

TEST(Snapshot, records_of_another_lap_are_not_there) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7);
  ShmChunk& chunk = shm.AddChunk(1, 2, 1, 7, 0);
  for (uint32_t i = 0; i < 5; ++i) shm.AddRecord(1, i, 1 + i, 100 * i, 10);
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistory).size(), 5u);
  chunk.lap.store(3);  // it is being recycled
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistory).size(), 0u);
  chunk.lap.store(4);  // taken again, nothing in it
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistory).size(), 0u);
  shm.AddRecord(1, 0, 6, 900, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{6}));
}

TEST(Snapshot, truncated_views_hide_what_existed_and_only_there) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7);
  ShmChunk& chunk = shm.AddChunk(1, 2, 1, 7, 0);
  shm.AddRecord(1, 0, 1, 100, 10);
  shm.AddRecord(1, 1, 2, 200, 10, kRecordOpen);
  HideAll(shm, kViewHistory);
  HideAll(shm, kViewCurrent);
  EXPECT_TRUE(Waits(Snapshot(shm.view()), kHistory).empty());
  EXPECT_TRUE(Waits(Snapshot(shm.view()), kCurrent).empty());
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistoryLong).size(), 1u);
  shm.AddRecord(1, 1, 2, 200, 10);  // the event that ran ends: it stays hidden
  shm.AddRecord(1, 2, 3, 300, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{3}));
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistoryLong)), (Idlist{1, 2, 3}));
  HideAll(shm, kViewHistory);  // a second time
  EXPECT_TRUE(Waits(Snapshot(shm.view()), kHistory).empty());
  // The last record of the chunk, whose bit is in another mask than the first one's.
  shm.AddRecord(1, kRecordsPerChunk - 2, 4, 310, 10);
  HideAll(shm, kViewHistory);
  shm.AddRecord(1, kRecordsPerChunk - 1, 5, 320, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{5}));
  chunk.lap.store(4);
  shm.AddRecord(1, 0, 40, 400, 10);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistory)), (Idlist{40}));
}

TEST(Snapshot, words_of_a_record_are_null_unless_its_state_says_so) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kFile, "wait/io/file/a/f");
  shm.AddChunk(1, 2, 1, 7, 0);
  auto& source = shm.at<ShmSource>(ArrayId::kSources, 3);
  std::memcpy(source.text, "main.c:12", 9);
  source.bytes.store(9);
  const uint32_t name = shm.AddName(5, "/tmp/data");
  auto& record = shm.AddRecord(1, 0, 1, 100, 10);
  record.what.store(1 | static_cast<uint64_t>(Operation::kWrite) << 16 | uint64_t{3} << 32);
  ShmWaitDetails& details = record.details();
  details.state.store(uint64_t{2} << 32);
  details.bytes.store(123);
  details.flags_and_name.store(uint64_t{name} << 32 | 5);
  details.version_and_type.store(2);
  auto row = Waits(Snapshot(shm.view()), kHistoryLong).at(0);
  EXPECT_FALSE(row.number_of_bytes || row.object_name || row.spins || row.event.nesting_event_id || row.event.nesting_type);
  EXPECT_EQ(row.flags, 0u);  // of a file operation that has none
  EXPECT_EQ(row.event.end_event_id, 1u);
  record.end_info.store(EndInfoWithSpins(0, 9));
  record.state.fetch_or(kRecordHasBytes | kRecordHasFlags | kRecordHasName | kRecordHasSpins);
  const Snapshot snapshot(shm.view());
  row = Waits(snapshot, kHistoryLong).at(0);
  EXPECT_EQ(row.number_of_bytes, 123);
  EXPECT_EQ(row.flags, 5u);
  EXPECT_EQ(row.spins, 9u);
  EXPECT_EQ(row.object_name->view(), "/tmp/data");
  EXPECT_EQ(row.object_type->view(), "FILE");
  EXPECT_EQ(row.event.source->view(), "main.c:12");
  EXPECT_EQ(row.operation.view(), "write");
  EXPECT_EQ(*row.event.timer_end - *row.event.timer_start, row.event.timer_wait);
  // Another file has taken the name meanwhile.
  details.version_and_type.store(4);
  EXPECT_FALSE(Waits(Snapshot(shm.view()), kHistoryLong).at(0).object_name);
  record.state.fetch_and(~kRecordTimed);
  row = Waits(Snapshot(shm.view()), kHistoryLong).at(0);
  EXPECT_FALSE(row.event.timer_start || row.event.timer_end || row.event.timer_wait);
}

TEST(Snapshot, end_event_id_is_right_after_more_events_inside_than_32_bits_count) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kIdle, "idle");
  shm.AddChunk(1, 2, 1, 7, 0);
  constexpr uint64_t kMany = (uint64_t{1} << 33) + 5;
  auto& record = shm.AddRecord(1, 0, 40, 100, 10, kRecordClosed, kMany);
  EXPECT_EQ(Waits(Snapshot(shm.view()), kHistoryLong).at(0).event.end_event_id, 40 + kMany);
  // A wait with spins has 32 bits for its bytes: a larger number is capped, and the spins are right.
  record.state.fetch_or(kRecordHasSpins);
  record.end_info.store(EndInfoWithSpins(kMany, 7));
  const auto row = Waits(Snapshot(shm.view()), kHistoryLong).at(0);
  EXPECT_EQ(row.event.end_event_id, 40 + kMostEventsBesideSpins);
  EXPECT_EQ(row.spins, 7u);
}

// ---- Damaged segments: any bytes give rows or none, never a crash or a hang
// -----------------------------------------------------------

void ReadAll(const SegmentView& view) {
  const Snapshot snapshot(view);
  (void)Threads(snapshot);
  (void)Arrays(snapshot.view());
  (void)TimerOf(snapshot, TimedClass::kWait);
  (void)StatusReasonIn(snapshot);
  ForEachInstance(snapshot, [](const InstanceRow&) {});
  ForEachFile(snapshot, kFileNumbers | kFileName, [](const FileRow&) {});
  for (const Kind kind : {Kind::kWait, Kind::kStage, Kind::kStatement, Kind::kTransaction}) {
    for (const Level level : {Level::kThread, Level::kAccount, Level::kUser, Level::kHost, Level::kGlobal})
      ForEachSum(snapshot, kind, level, [](const SumRow&) {});
  }
  ForEachTable(snapshot, kTableRows | kTableLocks, [](const TableRow&) {});
  ForEachTableHandle(snapshot, [](const TableHandleRow&) {});
  ForEachMetadataLock(snapshot, [](const MetadataLockRow&) {});
  ForEachObjectRule(snapshot, [](const ObjectRuleRow&) {});
  ForEachFact(snapshot, FactKind::kHostSeen, [](const FactRow&) {});
  ForEachLogEvent(snapshot, [](const LogRow&) {});
  (void)Totals(snapshot);
  (void)Waits(snapshot, kCurrent);
  (void)Waits(snapshot, kHistory);
  (void)Waits(snapshot, kHistoryLong);
}

// A host of two blocks, and two events of the log.
void AddProgramRows(SyntheticSegment& shm) {
  const std::string bytes = EncodeFact({{1, 2, 3}, {std::string(100, 'i'), std::string(60, 'h')}});
  for (uint32_t i = 1; i <= 2; ++i) {
    auto& block = shm.at<ShmFactBlock>(ArrayId::kFactBlocks, i);
    const std::string part = bytes.substr((i - 1) * kFactBlockBytes, kFactBlockBytes);
    CopyToShared(block.words, part.data(), part.size());
    block.next.store(i == 1 ? 2 : 0);
  }
  auto& fact = shm.at<ShmFact>(ArrayId::kFacts, 1);
  fact.block.store(1);
  fact.bytes.store(static_cast<uint32_t>(bytes.size()));
  fact.kind.store(static_cast<uint32_t>(FactKind::kHostSeen));
  for (uint64_t place = 0; place < 2; ++place) {
    auto& unit = shm.at<ShmLogUnit>(ArrayId::kErrorLog, 1 + place);
    unit.words[0].store(place);
    unit.words[1].store(5 + place);
    unit.words[3].store(2 | uint64_t{3} << 32);
  }
  shm.segment.header()->program.log_end.store(2);
}

void FillSegment(SyntheticSegment& shm) {
  AddProgramRows(shm);
  shm.AddClass(1, Family::kFile, "wait/io/file/a/f");
  shm.AddClass(2, Family::kMutex, "wait/synch/mutex/a/m");
  shm.AddThread(1, 7).cells.store(64);
  for (uint32_t i = 1; i < 20; ++i) shm.AddCell(i, i == 19 ? 0 : i + 1, 1, 1);
  shm.AddFile(1, 1, shm.AddName(1, "/tmp/some/file/with/a/name/that/is/longer/than/one/granule/of/the/segment"), 1);
  shm.AddMutex(1, 2, 1, 1);
  shm.at<ShmInstanceList>(ArrayId::kInstanceLists, 1).cells.first.store(3);
  shm.AddTable(1, shm.AddName(4, std::string_view("shop\0orders", 11)), shm.AddName(5, "PRIMARY")).lock_lanes[3].first.store(5);
  shm.at<ShmIndex>(ArrayId::kIndexes, 1).lanes[kFetchLane].first.store(6);
  shm.at<ShmObjectRule>(ArrayId::kObjectRules, 1).type.store(4);
  shm.AddChunk(1, 2, 1, 7, 0);
  auto& retired = shm.at<ShmRetired>(ArrayId::kRetired, 1);
  retired.lanes[kReadLane].head.store(4);
  retired.class_index.store(1);
  for (uint32_t i = 0; i < 20; ++i) {
    auto& record = shm.AddRecord(1, 2 * i, 1 + i, 100, 10, kRecordClosed | kRecordHasName | kRecordHasBytes);
    record.details().flags_and_name.store(uint64_t{1} << 32);
    record.details().version_and_type.store(2);
  }
}

TEST(DamagedSegment, circular_lists_end) {
  SyntheticSegment shm;
  FillSegment(shm);
  shm.at<ShmCell>(ArrayId::kCells, 19).next.store(1);
  shm.at<ShmIndex>(ArrayId::kIndexes, 1).next.store(1);
  ReadAll(shm.view());
  const Snapshot snapshot(shm.view());
  ForEachFile(snapshot, kFileNumbers | kFileName, [](const FileRow&) { ADD_FAILURE(); });
  EXPECT_EQ(snapshot.skipped(), 1u);
  ForEachTable(snapshot, kTableRows | kTableLocks, [](const TableRow&) { ADD_FAILURE(); });
  EXPECT_EQ(snapshot.skipped(), 2u);
}

TEST(DamagedSegment, a_record_in_the_last_place_has_no_details) {
  SyntheticSegment shm;
  shm.AddClass(1, Family::kFile, "wait/io/file/a/f");
  shm.AddChunk(1, 2, 1, 7, 0);
  shm.AddRecord(1, 0, 1, 100, 10);
  shm.AddRecord(1, kRecordsPerChunk - 2, 2, 200, 10, kRecordClosed | kRecordHasBytes);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistoryLong)), (Idlist{1, 2}));
  // The reader does not read behind the chunk's memory.
  shm.AddRecord(1, kRecordsPerChunk - 1, 3, 300, 10, kRecordClosed | kRecordHasBytes);
  EXPECT_EQ(Ids(Waits(Snapshot(shm.view()), kHistoryLong)), (Idlist{1, 2}));
}

TEST(DamagedSegment, rows_of_the_program_are_whole_or_left_out) {
  const auto read = [](SyntheticSegment& shm, uint64_t* skipped) {
    const Snapshot snapshot(shm.view());
    uint64_t hosts = 0, events = 0;
    ForEachFact(snapshot, FactKind::kHostSeen, [&](const FactRow& row) {
      ++hosts;
      EXPECT_TRUE(row.numbers.size() == 3 && row.text(0).size() == 100 && row.text(1).size() == 60);
    });
    ForEachLogEvent(snapshot, [&](const LogRow& row) {
      EXPECT_TRUE(row.logged == 5 + events && row.data.view().size() == 3 && row.priority == 2);
      ++events;
    });
    *skipped = snapshot.skipped();
    return 10 * hosts + events;
  };
  uint64_t skipped = 0;
  SyntheticSegment good;
  AddProgramRows(good);
  EXPECT_EQ(read(good, &skipped), 12u);
  EXPECT_EQ(skipped, 0u);
  const auto damage = [&](auto change) {
    SyntheticSegment shm;
    AddProgramRows(shm);
    change(shm);
    return read(shm, &skipped);
  };
  const auto fact = [](SyntheticSegment& shm) -> ShmFact& { return shm.at<ShmFact>(ArrayId::kFacts, 1); };
  for (const uint32_t bad : {0u, 3u, 1000000u, ~0u}) {
    EXPECT_EQ(damage([&](auto& shm) { fact(shm).block.store(bad); }), 2u) << bad;
    EXPECT_EQ(skipped, 1u);
    EXPECT_EQ(damage([&](auto& shm) { fact(shm).bytes.store(bad); }), 2u) << bad;
  }
  // A cycle: more bytes than all blocks have.
  EXPECT_EQ(damage([&](auto& shm) {
              shm.template at<ShmFactBlock>(ArrayId::kFactBlocks, 2).next.store(1);
              fact(shm).bytes.store(kMostFactBytes);
            }),
            2u);
  EXPECT_EQ(skipped, 1u);
  EXPECT_EQ(damage([](auto& shm) { shm.template at<ShmFactBlock>(ArrayId::kFactBlocks, 1).words[0].store(~uint64_t{0}); }), 2u);
  for (const uint64_t bad : {uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_EQ(damage([&](auto& shm) { shm.segment.header()->program.log_end.store(bad); }), 10u);
    EXPECT_EQ(damage([&](auto& shm) { shm.segment.header()->program.log_begin.store(bad); }), 10u);
    EXPECT_EQ(damage([&](auto& shm) { shm.template at<ShmLogUnit>(ArrayId::kErrorLog, 1).words[3].store(bad); }), 10u);
    EXPECT_EQ(damage([&](auto& shm) { shm.template at<ShmLogUnit>(ArrayId::kErrorLog, 2).words[0].store(bad); }), 11u);
  }
}

TEST(DamagedSegment, indices_out_of_range_are_refused) {
  for (const uint32_t bad : {0x7fffffffu, 0xffffffffu, 1000000u}) {
    SyntheticSegment shm;
    FillSegment(shm);
    shm.at<ShmFile>(ArrayId::kFiles, 1).lanes[kReadLane].first.store(bad);
    shm.at<ShmFile>(ArrayId::kFiles, 1).name.store(bad);
    shm.at<ShmInstanceList>(ArrayId::kInstanceLists, 1).cells.first.store(bad);
    shm.at<ShmTable>(ArrayId::kTables, 1).lock_lanes[3].first.store(bad);
    ReadAll(shm.view());
    shm.at<ShmTable>(ArrayId::kTables, 1).lock_lanes[3].first.store(0);
    shm.at<ShmTable>(ArrayId::kTables, 1).indexes.store(bad);
    shm.at<ShmTableHandle>(ArrayId::kTableHandles, 1).table.store(bad);
    shm.at<ShmMetadataLock>(ArrayId::kMetadataLocks, 1).state.store(bad);
    shm.at<ShmMetadataLock>(ArrayId::kMetadataLocks, 1).source.store(bad);
    shm.at<ShmObjectRule>(ArrayId::kObjectRules, 1).type.store(bad);
    ReadAll(shm.view());
    shm.at<ShmTable>(ArrayId::kTables, 1).name.store(bad);
    shm.at<ShmTable>(ArrayId::kTables, 1).type.store(static_cast<uint16_t>(bad));
    ReadAll(shm.view());
  }
}

TEST(DamagedSegment, directory_that_lies_is_clamped) {
  Sample sample;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    for (int field = 0; field < 7; ++field) {
      for (const uint64_t bad : {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} / 3}) {
        if (!sample.TakesNext()) continue;
        SyntheticSegment shm;
        FillSegment(shm);
        shm.MapAll();
        ShmArray& array = shm.segment.header()->arrays[i];
        if (field == 0) array.offset = bad;
        if (field == 1) array.stride = bad;
        if (field == 2) array.capacity = bad;
        if (field == 3) array.used.store(bad);
        if (field == 4) array.reserved.store(bad);
        if (field == 5) array.first_extent = bad;
        if (field == 6) array.mapped.store(bad);
        if (field == 3) array.capacity = bad;
        ReadAll(shm.view());
        munmap(shm.segment.header(), shm.view().bytes());
      }
    }
  }
}

TEST(DamagedSegment, random_bytes_never_crash_the_reader) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    SyntheticSegment shm;
    FillSegment(shm);
    shm.MapAll();
    auto* bytes = reinterpret_cast<uint8_t*>(shm.segment.header());
    // Half of the damage in the header, half at the start of the arrays.
    for (int i = 0; i < 200; ++i) {
      uint64_t at = random() % sizeof(ShmHeader);
      if (i % 2 == 1) {
        const ShmArray& array = shm.segment.header()->arrays[random() % kArrayCount];
        at = array.offset + random() % 4096;
        if (round % 2 == 0 && array.stride != 0) at = array.offset + random() % (20 * array.stride);
      } else if (round % 2 == 0) {
        continue;
      }
      if (at < shm.view().bytes()) bytes[at] = static_cast<uint8_t>(random());
    }
    ReadAll(shm.view());
    munmap(bytes, shm.view().bytes());
  }
}

}  // namespace
}  // namespace perfschema
