// The trace while threads run: every traced event is in a file or counted as lost, however often the trace is switched.
#include <filesystem>
#include <fstream>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kName[] = "wait/synch/mutex/live/traced";

void Set(std::string_view table, const char* key, const char* pattern, const char* value) {
  const NamedTable* found = nullptr;
  ASSERT_TRUE(FindTable(table, &found).ok());
  const Condition where{key, pattern, true};
  const Assignment set{"TRACE_ENABLED", value};
  uint64_t changed = 0;
  const Status status = UpdateTable(*found, {&where, 1}, {&set, 1}, &changed);
  ASSERT_TRUE(status.ok()) << status.message();
}
void SetInstrument(const char* value) { Set("setup_instruments", "NAME", kName, value); }
void SetActor(const char* value) { Set("setup_actors", "USER", "\\%", value); }

uint64_t Written() { return StatusNumber("Performance_schema_trace_events_written"); }
uint64_t Lost() { return StatusNumber("Performance_schema_trace_events_lost"); }

// Counts the lines of files, and the whole ones.
struct Lines {
  uint64_t all = 0, whole = 0;
};
Lines LinesIn(const std::filesystem::path& folder) {
  Lines lines;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);  // the header
    while (std::getline(file, line)) {
      ++lines.all;
      lines.whole += line.starts_with("INSERT INTO events_waits_current VALUES (") && line.ends_with(");") ? 1 : 0;
    }
  }
  return lines;
}

class Trace : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = std::filesystem::temp_directory_path() / ("pfs-trace-stress-" + std::to_string(getpid()));
    ASSERT_EQ(pfs_init(("performance_schema_trace_directory=" + folder.string()).c_str()), PFS_OK);
    ASSERT_EQ(pfs_mutex_init(MutexKey("traced"), &mutex, nullptr), 0);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder); }
  static inline std::filesystem::path folder;
  static inline pfs_mutex_t mutex;

  // Waits until events from before the call are in a file, or counted as lost: until nothing was counted for as long as many naps of the
  // writer last.
  static void ExpectAll(uint64_t at_least, uint64_t at_most) {
    constexpr int kQuiet = 20;
    uint64_t sum = 0, before = ~uint64_t{0};
    for (int i = 0, quiet = 0; i < 500 && (sum < at_least || quiet < kQuiet); ++i) {
      before = sum;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      sum = Written() + Lost();
      quiet = sum == before ? quiet + 1 : 0;
    }
    EXPECT_GE(sum, at_least);
    EXPECT_LE(sum, at_most);
  }
};

TEST_F(Trace, every_event_is_written_or_lost) {
  SetInstrument("YES");
  SetActor("YES");
  const uint64_t before = Written() + Lost();
  constexpr uint64_t kThreads = 8, kEvents = 20'000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      pfs_mutex_t own;
      pfs_mutex_init(MutexKey("traced"), &own, nullptr);
      for (uint64_t i = 0; i < kEvents; ++i) {
        pfs_mutex_lock(&own);
        pfs_mutex_unlock(&own);
      }
      pfs_mutex_destroy(&own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectAll(before + kThreads * kEvents, before + kThreads * kEvents);
  EXPECT_GT(Written(), 0u);
  SetActor("NO");
  const Lines lines = LinesIn(folder);
  EXPECT_EQ(lines.whole, lines.all);
}

TEST_F(Trace, switching_while_threads_run) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      while (!done.load()) {
        pfs_mutex_lock(&mutex);
        pfs_mutex_unlock(&mutex);
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 250; ++i) {
    SetActor("YES");
    SetInstrument("NO");
    SetInstrument("YES");
    SetActor("NO");
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  ExpectAll(0, ~uint64_t{0});
  const uint64_t written = Written();  // before the files are read: rows are counted when they are in their file
  const Lines lines = LinesIn(folder);
  EXPECT_EQ(lines.whole, lines.all);
  EXPECT_GE(lines.all, 2 * written);  // each of these has both rows
}

}  // namespace
}  // namespace perfschema
