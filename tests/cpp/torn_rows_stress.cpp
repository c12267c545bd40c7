// No reader ever sees half of an update.
//
// Contract. A cell, a stripe and a record of an event have one writer and any number of readers that never stop it. A
// reader gets either a state that the writer left, whole, or nothing (the row is skipped and counted). Without a
// TRUNCATE, counters of one row never go back from one reading to the next.
//
// How it is checked. The payload checks itself. In each generation all durations are the same number, all reads move
// 7 bytes, all writes 11, and an event's name, object and source line belong together. A stripe's payload lies in two
// cache lines and a record's in two. Each check runs in one thread first. Built with PFS_BREAK_SEQLOCK the reader
// skips its checks, and cells_ and events_ here must fail with "torn rows: N" (the build's CMakeLists.txt and
// tests/python/programs/test_native_*.py demand it).
#include <fcntl.h>

#include "live.h"
#include "record/probe/cells.h"
#include "snapshot/objects.h"
#include "snapshot/sums.h"
#include "synthetic_segment.h"

namespace perfschema {
namespace {

// Counts the rows that break a rule.
// Threads: external lock.
class Verdict {
 public:
  void Check(bool is_whole, std::string_view what) {
    ++rows_;
    if (is_whole) return;
    if (torn_++ == 0) first_ = what;
  }
  void Report() const {
    std::printf("rows: %llu, torn rows: %llu\n", static_cast<unsigned long long>(rows_), static_cast<unsigned long long>(torn_));
    EXPECT_GT(rows_, 0u);
    EXPECT_EQ(torn_, 0u) << "the first: " << first_;
  }

 private:
  uint64_t rows_ = 0, torn_ = 0;
  std::string first_;
};

// ---- Cells: a synthetic segment whose writers follow cell.h ---------------------------------------------------------------------

constexpr uint64_t kBase = 1'000'003;  // duration in generation 0; each later generation adds one

// In a generation every duration is the same: count * MIN = SUM = count * MAX.
bool IsOfOneGeneration(const Stat& stat) {
  if (stat.count == 0) return stat.sum_ps == 0 && stat.min_ps() == 0 && stat.max_ps == 0;
  return stat.min_ps() >= kBase && stat.min_ps() == stat.max_ps && stat.sum_ps == stat.count * stat.max_ps;
}
// Each lane of a file is a cell of its own.
bool IsWhole(const LanesOf<kFileLanes>& io) {
  return IsOfOneGeneration(io.stats[kMiscLane]) && IsOfOneGeneration(io.stats[kReadLane]) && IsOfOneGeneration(io.stats[kWriteLane]) &&
         io.amounts[kReadLane] == 7 * io.stats[kReadLane].count && io.amounts[kWriteLane] == 11 * io.stats[kWriteLane].count;
}

struct CellSegment : SyntheticSegment {
  static constexpr uint32_t kObjects = 3;

  CellSegment() {
    MapAll();
    AddClass(1, Family::kMutex, "wait/synch/mutex/a/m");
    AddClass(2, Family::kFile, "wait/io/file/a/f");
    for (uint32_t i = 1; i <= kObjects; ++i) {
      AddThread(i, 100 + i).cells.store(64);
      ClearStat(AddMutex(i, 1, i, 0).stat);
      ShmFile& file = AddFile(i, 2, AddName(i, "/f" + std::to_string(i)), 0);
      for (uint32_t lane = 0; lane < 3; ++lane) {
        ClearStat(AddCell(3 * i + lane, 0, 0, 0).stat);
        file.lanes[lane].first.store(3 * i + lane);
      }
    }
  }
  // Records one event on everything that writer i owns, as record/ does it.
  void Write(uint32_t i) {
    ShmHeader* header = segment.header();
    const auto generation = [&](ResetDomain domain) { return header->resets[domain].load(kRelaxed); };
    {
      auto& mutex = *segment.element<ShmInstance>(ArrayId::kInstances, i);
      const uint32_t gen = generation(ObjectDomain(ResetGroup::kSync));
      const CellWriter writer(mutex.seq);
      StartGeneration(mutex.gen, gen, [&] { ClearStat(mutex.stat); });
      AddToStat(mutex.stat, true, kBase + gen);
    }
    {
      const uint64_t width = segment.array(ArrayId::kThreadCells).capacity / segment.array(ArrayId::kThreads).capacity;
      auto& cell = *segment.element<ShmCell>(ArrayId::kThreadCells, i * width + 1);
      const uint32_t gen = header->wait_epochs.now.load(kRelaxed);
      const CellWriter writer(cell.seq);
      StartGeneration(cell.gen, gen, [&] { ClearStat(cell.stat); });
      AddToStat(cell.stat, true, kBase + gen);
    }
    {
      const uint32_t gen = generation(ObjectDomain(ResetGroup::kFile));
      constexpr uint64_t kAmounts[] = {0, 7, 11};
      for (uint32_t lane = 0; lane < 3; ++lane)
        AddToCell(*segment.element<ShmCell>(ArrayId::kCells, 3 * i + lane), gen, true, kBase + gen, kAmounts[lane]);
    }
  }
  // Truncates one of the domains, or begins an epoch of threads.
  static constexpr uint32_t kWays = kResetDomainCount + 1;
  void Truncate(uint32_t way) {
    if (way < kResetDomainCount) {
      segment.header()->resets[way].fetch_add(1);
      return;
    }
    ShmEpochs& epochs = segment.header()->wait_epochs;
    epochs.since[0].store(epochs.now.load() + 1);
    epochs.now.fetch_add(1);
  }
  uint64_t CheckAll(Verdict* verdict) {
    const Snapshot snapshot(view());
    ForEachInstance(snapshot, [&](const InstanceRow& row) { verdict->Check(IsOfOneGeneration(row.wait), "a mutex"); });
    ForEachFile(snapshot, kFileNumbers | kFileName, [&](const FileRow& row) { verdict->Check(IsWhole(row.io), "a file"); });
    ForEachSum(snapshot, Kind::kWait, Level::kThread,
               [&](const SumRow& row) { verdict->Check(IsOfOneGeneration(StatIn(row.numbers, 0)), "a thread's cell"); });
    return snapshot.skipped();
  }
};

TEST(TornRows, cells_of_one_thread) {
  CellSegment shm;
  Verdict verdict;
  for (int i = 0; i < 100; ++i) {
    if (i % 10 == 9) shm.Truncate(static_cast<uint32_t>(i / 10) % CellSegment::kWays);
    shm.Write(1 + i % CellSegment::kObjects);
    EXPECT_EQ(shm.CheckAll(&verdict), 0u);
  }
  verdict.Report();
}

TEST(TornRows, the_check_of_cells_rejects_half_an_update) {
  Stat stat{2, 2 * kBase, ~kBase, kBase};
  EXPECT_TRUE(IsOfOneGeneration(stat));
  stat.count = 3;
  EXPECT_FALSE(IsOfOneGeneration(stat));
  LanesOf<kFileLanes> io;
  for (Stat& lane : io.stats) lane = {2, 2 * kBase, ~kBase, kBase};
  io.amounts[kReadLane] = 14;
  io.amounts[kWriteLane] = 22;
  EXPECT_TRUE(IsWhole(io));
  io.amounts[kWriteLane] = 11;
  EXPECT_FALSE(IsWhole(io));
}

TEST(TornRows, cells_under_concurrent_writers) {
  CellSegment shm;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i <= CellSegment::kObjects; ++i) {
    threads.emplace_back([&, i] {
      while (!stop.load(kRelaxed)) shm.Write(i);
    });
  }
  threads.emplace_back([&, seed = Seed()] {
    std::mt19937_64 random(seed);
    while (!stop.load(kRelaxed)) {
      shm.Truncate(static_cast<uint32_t>(random() % CellSegment::kWays));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
  });
  Verdict verdict;
  uint64_t skipped = 0;
  for (const uint64_t end = NowNanos() + 1'000'000 * StressTime().count(); NowNanos() < end;) skipped += shm.CheckAll(&verdict);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  std::printf("skipped: %llu\n", static_cast<unsigned long long>(skipped));
  verdict.Report();
}

// ---- The real writer ---------------------------------------------------------------------------------------------------------------

constexpr int kMutexes = 4, kWriters = 3;
constexpr const char* kNames[kMutexes] = {"m0", "m1", "m2", "m3"};
// Each mutex has one call site, which its line identifies.
constexpr uint32_t kFirstLine = 1000;
constexpr char kSourceFile[] = "torn.c";

// The program that is read: all parts of an event agree.
class Program {
 public:
  Program() {
    unsetenv("PFS_SEGMENT");  // set for the synthetic segments: this one is a file, which is attached below
    char options[] = "performance_schema_events_waits_history_long_size=64,performance_schema_events_waits_history_size=8";
    pfs_init(options);
    EXPECT_TRUE(pfs_is_on());
    for (int i = 0; i < kMutexes; ++i) pfs_mutex_init(MutexKey(kNames[i]), &mutexes_[i], nullptr);
    const pfs_key_t key = FileKey("data");
    const int fd = open((directory_ / "data").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(write(fd, "0123456789", 10), 10);
    close(fd);
    for (int& each : files_) each = pfs_open(key, (directory_ / "data").c_str(), O_RDWR);
  }
  ~Program() {
    for (pfs_mutex_t& mutex : mutexes_) pfs_mutex_destroy(&mutex);
    for (const int fd : files_) pfs_close(fd);
  }
  void Lock(int which) {
    pfs_mutex_lock_at(&mutexes_[which], kSourceFile, kFirstLine + static_cast<uint32_t>(which));
    pfs_mutex_unlock(&mutexes_[which]);
  }
  void Transfer(int writer, bool reads) {
    char bytes[11] = {};
    if (reads) {
      EXPECT_EQ(pfs_pread_at(files_[writer], bytes, 7, 0, kSourceFile, kFirstLine + 100), 7);
    } else {
      EXPECT_EQ(pfs_pwrite_at(files_[writer], bytes, 11, 0, kSourceFile, kFirstLine + 101), 11);
    }
  }
  int IndexOf(uint64_t object) const {
    for (int i = 0; i < kMutexes; ++i) {
      if (reinterpret_cast<uintptr_t>(&mutexes_[i]) == object) return i;
    }
    return -1;
  }

 private:
  TemporaryDirectory directory_;
  pfs_mutex_t mutexes_[kMutexes];
  int files_[kWriters];
};

Program& TheProgram() {
  static auto* program = new Program;  // events are read in more than one test
  return *program;
}

bool IsStatPossible(const Frame& frame, size_t row, size_t first) {
  const uint64_t count = frame.number(row, first), sum = frame.number(row, first + 1), min = frame.number(row, first + 2),
                 avg = frame.number(row, first + 3), max = frame.number(row, first + 4);
  if (count == 0) return sum == 0 && min == 0 && avg == 0 && max == 0;
  return min <= avg && avg <= max && avg == sum / count && min * count <= sum && sum <= max * count;
}

// Remembers counters by row, to check that they never go back.
// Threads: external lock.
class Memory {
 public:
  bool IsForward(const std::string& key, uint64_t count) {
    uint64_t& last = last_[key];
    const bool forward = count >= last;
    last = std::max(last, count);
    return forward;
  }

 private:
  std::map<std::string, uint64_t> last_;
};

void CheckSummaries(const SegmentView& view, Memory* memory, Verdict* verdict) {
  constexpr const char* kTables[][2] = {{"events_waits_summary_by_instance", "OBJECT_INSTANCE_BEGIN"},
                                        {"events_waits_summary_by_thread_by_event_name", "THREAD_ID"},
                                        {"events_waits_summary_global_by_event_name", "COUNT_STAR"}};
  for (const auto& [table, key] : kTables) {
    const Frame frame(table, {"EVENT_NAME", key, "COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT"},
                      view);
    for (size_t i = 0; i < frame.rows(); ++i) {
      verdict->Check(IsStatPossible(frame, i, 2), table);
      std::string row = std::string(table) + " " + std::string(frame.text(i, 0));
      if (std::string_view(key) != "COUNT_STAR") row += " " + std::to_string(frame.number(i, 1));
      verdict->Check(memory->IsForward(row, frame.number(i, 2)) && memory->IsForward(row + " sum", frame.number(i, 3)), row + " went back");
    }
  }
}

void CheckFiles(const SegmentView& view, Memory* memory, Verdict* verdict) {
  for (const char* table : {"file_summary_by_instance", "file_summary_by_event_name"}) {
    const Frame frame(
        table, {"EVENT_NAME",  "COUNT_STAR",      "SUM_TIMER_WAIT",  "MIN_TIMER_WAIT",  "AVG_TIMER_WAIT",  "MAX_TIMER_WAIT",
                "COUNT_READ",  "SUM_TIMER_READ",  "MIN_TIMER_READ",  "AVG_TIMER_READ",  "MAX_TIMER_READ",  "SUM_NUMBER_OF_BYTES_READ",
                "COUNT_WRITE", "SUM_TIMER_WRITE", "MIN_TIMER_WRITE", "AVG_TIMER_WRITE", "MAX_TIMER_WRITE", "SUM_NUMBER_OF_BYTES_WRITE",
                "COUNT_MISC",  "SUM_TIMER_MISC",  "MIN_TIMER_MISC",  "AVG_TIMER_MISC",  "MAX_TIMER_MISC"},
        view);
    for (size_t i = 0; i < frame.rows(); ++i) {
      const auto n = [&](size_t column) { return frame.number(i, column); };
      verdict->Check(
          IsStatPossible(frame, i, 1) && IsStatPossible(frame, i, 6) && IsStatPossible(frame, i, 12) && IsStatPossible(frame, i, 18),
          table);
      verdict->Check(n(1) == n(6) + n(12) + n(18) && n(2) == n(7) + n(13) + n(19),
                     std::string(table) + ": STAR is not READ + WRITE + MISC");
      verdict->Check(n(11) == 7 * n(6) && n(17) == 11 * n(12), std::string(table) + ": bytes are not those of the counts");
      const std::string row = std::string(table) + " " + std::string(frame.text(i, 0));
      verdict->Check(memory->IsForward(row, n(1)) && memory->IsForward(row + " bytes", n(11)), row + " went back");
    }
  }
}

void CheckEvents(const Program& program, const SegmentView& view, Verdict* verdict) {
  for (const char* table : {"events_waits_history_long", "events_waits_history", "events_waits_current"}) {
    const Frame frame(table,
                      {"THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "SOURCE", "OBJECT_INSTANCE_BEGIN", "OPERATION",
                       "NUMBER_OF_BYTES", "TIMER_START", "TIMER_END", "TIMER_WAIT", "OBJECT_NAME", "NESTING_EVENT_ID"},
                      view);
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> seen;  // start by thread and event
    for (size_t i = 0; i < frame.rows(); ++i) {
      const std::string_view name = frame.text(i, 3), source = frame.text(i, 4), operation = frame.text(i, 6);
      const bool ended = !frame.is_null(i, 2);
      bool good = seen.emplace(std::pair(frame.number(i, 0), frame.number(i, 1)), frame.number(i, 8)).second;
      good = good && frame.is_null(i, 12) && (!ended || frame.number(i, 2) == frame.number(i, 1));
      good = good && (ended ? frame.number(i, 9) - frame.number(i, 8) == frame.number(i, 10) && frame.number(i, 10) < 10'000'000'000'000
                            : frame.is_null(i, 9) && frame.is_null(i, 10));
      if (name.substr(0, 10) == "wait/synch") {
        const int which = program.IndexOf(frame.number(i, 5));
        good = good && which >= 0 && operation == "lock" && frame.is_null(i, 7) && name.substr(name.size() - 2) == kNames[which] &&
               source == kSourceFile + (":" + std::to_string(kFirstLine + static_cast<uint32_t>(which)));
      } else if (operation == "read" || operation == "write") {
        const bool reads = operation == "read";
        good = good && frame.number(i, 7) == (reads ? 7u : 11u) && source == (reads ? "torn.c:1100" : "torn.c:1101") &&
               frame.text(i, 11).substr(0, 14) == "/tmp/pfs-test-";
      }
      verdict->Check(good, std::string(table) + ": " + std::string(name) + " " + std::string(operation) + " at " + std::string(source));
    }
    // The events of one thread began in the order of their numbers: an event of another thread would break the order.
    uint64_t thread = 0, start = 0;
    for (const auto& [key, began] : seen) {
      verdict->Check(key.first != thread || began >= start, std::string(table) + ": events of one thread in the wrong order");
      thread = key.first, start = began;
    }
  }
}

TEST(TornRows, tables_of_one_thread) {
  Program& program = TheProgram();
  Verdict verdict;
  Memory memory;
  for (int i = 0; i < 60; ++i) {
    program.Lock(i % kMutexes);
    program.Transfer(0, i % 2 == 0);
    CheckSummaries(OwnSegment(), &memory, &verdict);
    CheckFiles(OwnSegment(), &memory, &verdict);
    CheckEvents(program, OwnSegment(), &verdict);
  }
  verdict.Report();
}

TEST(TornRows, a_counter_that_goes_back_is_noticed) {
  Memory memory;
  EXPECT_TRUE(memory.IsForward("a", 1));
  EXPECT_TRUE(memory.IsForward("a", 2));
  EXPECT_TRUE(memory.IsForward("b", 1));
  EXPECT_FALSE(memory.IsForward("a", 1));
}

enum Work { kLocks = 1, kTransfers = 2, kShortThreads = 4 };

template <typename Check>
void UnderLoad(int work, Check check) {
  Program& program = TheProgram();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w, seed = Seed() + static_cast<uint64_t>(w)] {
      std::mt19937 random(static_cast<uint32_t>(seed));
      const auto step = [&] {
        const uint32_t dice = random();
        if ((work & kTransfers) != 0 && (work == kTransfers || dice % 64 == 0)) {
          program.Transfer(w, (dice >> 8) % 2 == 0);
        } else {
          program.Lock(static_cast<int>((dice >> 8) % kMutexes));
        }
      };
      while (!stop.load(kRelaxed)) {
        if ((work & kShortThreads) == 0) {
          step();
          continue;
        }
        std::thread([&, steps = 1 + random() % 40] {
          for (uint32_t i = 0; i < steps; ++i) step();
        }).join();
      }
    });
  }
  // Every other reading is as from another process: through a second mapping of the file.
  std::shared_ptr<SegmentFile> file;
  const Status attached = AttachSegmentFile(pfs_segment_path(), &file);
  EXPECT_TRUE(attached.ok()) << attached.message();
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  for (int i = 0; NowNanos() < end; ++i) check(program, i % 2 == 0 || !file ? OwnSegment() : file->view());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  std::printf("rows skipped: %llu\n", static_cast<unsigned long long>(StatusNumber("Performance_schema_rows_skipped")));
}

TEST(TornRows, waits_under_concurrent_writers) {
  Verdict verdict;
  Memory memory;
  UnderLoad(kLocks | kTransfers, [&](Program&, const SegmentView& view) { CheckSummaries(view, &memory, &verdict); });
  verdict.Report();
}

TEST(TornRows, files_under_concurrent_writers) {
  Verdict verdict;
  Memory memory;
  UnderLoad(kTransfers, [&](Program&, const SegmentView& view) { CheckFiles(view, &memory, &verdict); });
  verdict.Report();
}

// Each thread writes the chunk that the last one has left, while readers read it.
TEST(TornRows, recycled_events_under_concurrent_writers) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_consumers", &table).ok());
  const Condition where{"NAME", "events_waits_history_long", true};
  const auto set = [&](const char* value) {
    const Assignment assignment{"ENABLED", value};
    uint64_t changed = 0;
    ASSERT_TRUE(UpdateTable(*table, {&where, 1}, {&assignment, 1}, &changed).ok());
  };
  Verdict verdict;
  set("NO");
  UnderLoad(kLocks | kTransfers | kShortThreads, [&](Program& program, const SegmentView& view) { CheckEvents(program, view, &verdict); });
  set("YES");
  verdict.Report();
}

TEST(TornRows, events_under_concurrent_writers) {
  Verdict verdict;
  UnderLoad(kLocks | kTransfers, [&](Program& program, const SegmentView& view) { CheckEvents(program, view, &verdict); });
  verdict.Report();
}

}  // namespace
}  // namespace perfschema
