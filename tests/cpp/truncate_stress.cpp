// TRUNCATE of a summary happens at one moment between its call and its return.
//
// Contract. Writers run and a third thread truncates in a loop. Once the writers rest, the count of the table lies
// between the number of events begun after the last TRUNCATE returned and the number of events ended after it was
// called. With writers at a barrier around it the count is exact, and MIN and MAX contain nothing from before.
//
// How it is checked. Every writer logs when each of its events began and ended (by a clock that all cores share). The
// truncater logs its last call and return. The tests the_bounds_* below show that the bounds can be missed. Each
// table is truncated alone: a TRUNCATE may empty others, too.
#include <fcntl.h>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kMutexName[] = "wait/synch/mutex/live/truncated", kFileName[] = "wait/io/file/live/truncated";

// Returns the summaries that count events of mutexes, or of files.
std::vector<std::string> Summaries() {
  std::vector<std::string> names;
  for (const NamedTable& table : AllTables()) {
    if (table.name.starts_with("events_waits_summary_") || table.name.starts_with("file_summary_")) names.emplace_back(table.name);
  }
  return names;
}
bool IsOfFiles(const std::string& table) { return table.rfind("file_", 0) == 0; }

uint64_t Shown(const std::string& table, const char* name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }

struct Span {
  uint64_t begin, end;
};
struct Bounds {
  uint64_t low = 0, high = 0;
  void Add(const std::vector<Span>& events, const Span& truncate) {
    for (const Span& event : events) {
      low += event.begin > truncate.end;
      high += event.end >= truncate.begin;
    }
  }
};

TEST(Truncate, the_bounds_tell_before_from_after) {
  Bounds bounds;
  bounds.Add({{1, 2}, {3, 7}, {6, 6}, {11, 12}}, {5, 10});
  EXPECT_EQ(bounds.low, 1u);   // {11, 12}
  EXPECT_EQ(bounds.high, 3u);  // and those that overlap
}

// Both kinds of objects, used by every writer, and a file and a mutex of its own for each.
class Load {
 public:
  Load() {
    const pfs_key_t mutex = MutexKey("truncated"), file = FileKey("truncated");
    pfs_mutex_init(mutex, &mutex_, nullptr);
    fd_ = pfs_open(file, "/dev/null", O_WRONLY);
  }
  ~Load() {
    pfs_mutex_destroy(&mutex_);
    pfs_close(fd_);
  }
  void Event(bool of_file) {
    if (of_file) {
      EXPECT_EQ(pfs_write(fd_, "12345", 5), 5);
    } else {
      pfs_mutex_lock(&mutex_);
      pfs_mutex_unlock(&mutex_);
    }
  }

 private:
  pfs_mutex_t mutex_;
  int fd_;
};

TEST(Truncate, is_exact_in_one_thread) {
  Load load;
  for (const std::string& table : Summaries()) {
    for (int i = 0; i < 7; ++i) load.Event(false), load.Event(true);
    Truncate(table);
    EXPECT_EQ(Shown(table, kMutexName), 0u) << table;
    EXPECT_EQ(Shown(table, kFileName), 0u) << table;
    for (int i = 0; i < 3; ++i) load.Event(true), load.Event(false);
    EXPECT_EQ(Shown(table, kFileName), 3u) << table;
    EXPECT_EQ(Shown(table, kMutexName), IsOfFiles(table) ? 0u : 3u) << table;
  }
}

TEST(Truncate, is_linearizable_under_concurrent_writers) {
  constexpr int kWriters = 3;
  Load load;
  std::mt19937_64 random(Seed());
  for (const std::string& table : Summaries()) {
    for (int round = 0; round < 4; ++round) {
      const bool of_files = IsOfFiles(table) || round % 2 == 1;
      const char* name = of_files ? kFileName : kMutexName;
      Truncate(table);
      std::atomic<bool> stop{false};
      std::atomic<int> resting{0};
      std::vector<Span> events[kWriters];
      Meeting meeting(kWriters + 2);
      std::vector<std::thread> writers;
      for (auto& log : events) {
        writers.emplace_back([&] {
          log.reserve(4'000'000);
          meeting.Wait();
          while (!stop.load(kRelaxed) && log.size() < log.capacity()) {
            const uint64_t begin = NowNanos();
            load.Event(of_files);
            log.push_back({begin, NowNanos()});
          }
          resting.fetch_add(1);
          meeting.Wait();
          meeting.Wait();  // threads live on while the table is read
        });
      }
      Span last{};
      uint64_t truncates = 0;
      std::thread truncater([&, pause = random() % 200] {
        meeting.Wait();
        const uint64_t end = NowNanos() + 1'000'000 * StressTime().count() / 20 + random() % 1'000'000;
        while (NowNanos() < end) {
          last.begin = NowNanos();
          Truncate(table);
          last.end = NowNanos();
          ++truncates;
          if (pause > 50) std::this_thread::sleep_for(std::chrono::microseconds(pause));
        }
        stop.store(true);
        meeting.Wait();
        meeting.Wait();
      });
      meeting.Wait();
      uint64_t readings = 0;
      while (resting.load() < kWriters) readings += Shown(table, name) < ~uint64_t{0};
      meeting.Wait();
      Bounds bounds;
      uint64_t total = 0;
      for (const auto& log : events) bounds.Add(log, last), total += log.size();
      const uint64_t shown = Shown(table, name);
      EXPECT_GE(shown, bounds.low) << table;
      EXPECT_LE(shown, bounds.high) << table;
      if (round == 0) {
        std::printf("%-46s %llu events, %llu truncates, %llu readings: %llu <= %llu <= %llu\n", table.c_str(),
                    static_cast<unsigned long long>(total), static_cast<unsigned long long>(truncates),
                    static_cast<unsigned long long>(readings), static_cast<unsigned long long>(bounds.low),
                    static_cast<unsigned long long>(shown), static_cast<unsigned long long>(bounds.high));
      }
      meeting.Wait();
      for (std::thread& writer : writers) writer.join();
      truncater.join();
    }
  }
}

TEST(Truncate, is_exact_with_concurrent_writers_at_a_barrier) {
  constexpr int kWriters = 4, kRounds = 30;
  Load load;
  for (const std::string& table : Summaries()) {
    Meeting meeting(kWriters + 1);
    std::vector<std::thread> writers;
    std::atomic<uint64_t> after{0};
    for (int w = 0; w < kWriters; ++w) {
      writers.emplace_back([&, w] {
        std::mt19937 random(static_cast<uint32_t>(Seed()) + static_cast<uint32_t>(w));
        for (int round = 0; round < kRounds; ++round) {
          for (uint32_t i = random() % 50; i > 0; --i) load.Event(false), load.Event(true);
          meeting.Wait();  // TRUNCATE
          meeting.Wait();
          const uint32_t more = random() % 50;
          for (uint32_t i = 0; i < more; ++i) load.Event(false), load.Event(true);
          after.fetch_add(more);
          meeting.Wait();  // the table is read
          meeting.Wait();
        }
      });
    }
    for (int round = 0; round < kRounds; ++round) {
      meeting.Wait();
      Truncate(table);
      EXPECT_EQ(Shown(table, kFileName), 0u) << table;
      EXPECT_EQ(Shown(table, kMutexName), 0u) << table;
      after.store(0);
      meeting.Wait();
      meeting.Wait();
      EXPECT_EQ(Shown(table, kFileName), after.load()) << table;
      EXPECT_EQ(Shown(table, kMutexName), IsOfFiles(table) ? 0u : after.load()) << table;
      meeting.Wait();
    }
    for (std::thread& writer : writers) writer.join();
  }
}

TEST(Truncate, minimum_and_maximum_are_of_after) {
  const pfs_key_t key = MutexKey("truncated");
  int lock;
  pfs_instance_t* row = pfs_mutex_create(key, &lock);
  const auto wait_for = [&](std::chrono::microseconds time) {
    pfs_wait_t wait;
    pfs_mutex_wait_begin(&wait, row, PFS_LOCK);
    if (time.count() != 0) std::this_thread::sleep_for(time);
    pfs_mutex_wait_end(&wait, 0, PFS_NO_SPINS);
    pfs_mutex_released(row);
  };
  constexpr uint64_t kPicosPerMilli = 1'000'000'000;
  for (const std::string& table : Summaries()) {
    if (IsOfFiles(table)) continue;
    Truncate("events_waits_summary_global_by_event_name");
    Truncate("events_waits_summary_by_thread_by_event_name");
    wait_for(std::chrono::milliseconds(400));
    for (int i = 0; i < 100; ++i) wait_for({});
    EXPECT_GE(SumWhere(table, "EVENT_NAME", kMutexName, "MAX_TIMER_WAIT"), 400 * kPicosPerMilli);
    EXPECT_LT(SumWhere(table, "EVENT_NAME", kMutexName, "MIN_TIMER_WAIT"), kPicosPerMilli);
    Truncate(table);
    for (const char* column : {"COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT"}) {
      EXPECT_EQ(SumWhere(table, "EVENT_NAME", kMutexName, column), 0u) << table << "." << column;
    }
    for (int i = 0; i < 3; ++i) wait_for(std::chrono::milliseconds(2));
    EXPECT_EQ(Shown(table, kMutexName), 3u);
    EXPECT_GE(SumWhere(table, "EVENT_NAME", kMutexName, "MIN_TIMER_WAIT"), 2 * kPicosPerMilli) << table;
    EXPECT_LT(SumWhere(table, "EVENT_NAME", kMutexName, "MAX_TIMER_WAIT"), 400 * kPicosPerMilli) << table;
  }
  pfs_mutex_discard(row);
}

}  // namespace
}  // namespace perfschema
