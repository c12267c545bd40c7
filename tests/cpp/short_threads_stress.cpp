// Threads that end after a few events: their records stay where a view shows them, and their memory goes on where none does.
//
// Contract. events_*_history_long keeps the records of a thread that has ended, if its consumer was on when they began, whatever other
// short threads do meanwhile. A chunk that has no such record goes to the next thread of the slot. Threads of one event share pages, and
// history_long has as many rows of them as of other threads. Readers, also those that have attached the file before, find the records in
// chunks that are made later.
//
// How it is checked. Each thread knows which events it has made. The negative control is this program with a library that gives every
// chunk to the next thread (PFS_BREAK_SPARES): rows of ended threads must be missing.
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "live.h"
#include "shm/attach.h"
#include "shm/extents.h"

namespace perfschema {
namespace {

constexpr char kWaitsLong[] = "events_waits_history_long", kStatementsLong[] = "events_statements_history_long";

void SetConsumer(const char* name, bool is_on) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("setup_consumers", &table).ok());
  const Condition where{"NAME", name, true};
  const Assignment set{"ENABLED", is_on ? "YES" : "NO"};
  uint64_t changed = 0;
  const Status status = UpdateTable(*table, {&where, 1}, {&set, 1}, &changed);
  ASSERT_TRUE(status.ok()) << status.message();
}

// Threads: any thread uses it.
struct Program {
  pfs_key_t statement = 0;
  pfs_mutex_t mutex;

  Program() {
    pfs_init(
        "performance_schema_events_waits_history_size=8,performance_schema_events_waits_history_long_size=400000,"
        "performance_schema_events_statements_history_long_size=500");
    EXPECT_TRUE(pfs_is_on());
    pfs_mutex_init(MutexKey("short"), &mutex, nullptr);
    pfs_statement_info_t statements[] = {{&statement, "short", 0, nullptr}};
    EXPECT_EQ(pfs_register_statement("live", statements, 1), PFS_OK);
  }
  void Lock(int times) {
    for (int i = 0; i < times; ++i) {
      pfs_mutex_lock(&mutex);
      pfs_mutex_unlock(&mutex);
    }
  }
  void Ask(int times) const {
    for (int i = 0; i < times; ++i) {
      pfs_statement_t running;
      pfs_statement_begin(&running, statement);
      const std::string text = "SELECT " + std::to_string(i);
      pfs_statement_set_text(&running, text.c_str(), text.size());
      pfs_statement_end(&running);
    }
  }
};
Program& TheProgram() {
  static auto* const program = new Program;
  return *program;
}

// Runs a thread to its end. Returns its THREAD_ID.
template <typename Work>
uint64_t InThread(Work work) {
  uint64_t id = 0;
  std::thread([&] {
    work();
    id = pfs_thread_id();
  }).join();
  return id;
}

uint64_t ChunksUsed(Kind kind) { return OwnSegment().used(kChunksOf[static_cast<uint32_t>(kind)]); }

// Returns how many rows of each thread a table has.
std::map<uint64_t, int> RowsByThread(const char* table, SegmentView view = OwnSegment()) {
  const Frame frame(table, {"THREAD_ID"}, view);
  std::map<uint64_t, int> rows;
  for (size_t i = 0; i < frame.rows(); ++i) ++rows[frame.number(i, 0)];
  return rows;
}

TEST(ShortThreads, a_chunk_that_no_view_shows_goes_to_the_next_thread) {
  Program& program = TheProgram();
  constexpr int kThreads = 60;
  const auto grown = [&] {
    const uint64_t before = ChunksUsed(Kind::kWait) + ChunksUsed(Kind::kStatement);
    for (int i = 0; i < kThreads; ++i) {
      InThread([&] {
        program.Lock(10);
        program.Ask(1);
      });
    }
    return ChunksUsed(Kind::kWait) + ChunksUsed(Kind::kStatement) - before;
  };
  for (const char* name : {kWaitsLong, kStatementsLong}) SetConsumer(name, false);
  InThread([&] { program.Ask(1); });
  const uint64_t aside = SmallPerSpace(Kind::kWait) + SmallPerSpace(Kind::kStatement);  // made with the first of their space
  EXPECT_LE(grown(), aside);
  for (const char* name : {kWaitsLong, kStatementsLong}) SetConsumer(name, true);
  EXPECT_GE(grown(), 2u * kThreads - aside) << "with history_long each thread keeps its chunks: the check above can fail";
}

// Threads whose rows must stay take turns with threads whose chunks go on.
TEST(ShortThreads, rows_of_ended_threads_stay_while_concurrent_threads_come_and_go) {
  Program& program = TheProgram();
  constexpr int kWorkers = 4, kKept = 10, kLocks = 5;
  std::mt19937_64 random(Seed());
  uint64_t kept = 0, missing = 0;
  // Until the pool has its size: from then on the chunks of the oldest rows go to other threads, in an order that only roughly is that
  // of their age.
  const uint64_t most_chunks = ChunksFor(400'000, PerChunk(Kind::kWait)) - kWorkers * (kKept + 2);
  for (const uint64_t end = NowNanos() + 1'000'000 * StressTime().count(); NowNanos() < end && ChunksUsed(Kind::kWait) < most_chunks;) {
    Truncate(kWaitsLong);
    std::mutex guard;
    std::vector<uint64_t> ids;
    const auto in_workers = [&](auto work) {
      std::vector<std::thread> workers;
      for (int w = 0; w < kWorkers; ++w) workers.emplace_back(work);
      for (std::thread& worker : workers) worker.join();
    };
    SetConsumer(kWaitsLong, true);
    in_workers([&] {
      for (int i = 0; i < kKept; ++i) {
        const uint64_t id = InThread([&] { program.Lock(kLocks); });
        const std::lock_guard lock(guard);
        ids.push_back(id);
      }
    });
    SetConsumer(kWaitsLong, false);
    const int locks = 1 + static_cast<int>(random() % 200);
    in_workers([&] {
      for (int i = 0; i < kKept; ++i) InThread([&] { program.Lock(locks); });
    });
    auto rows = RowsByThread(kWaitsLong);
    for (const uint64_t id : ids) {
      kept += static_cast<uint64_t>(rows[id]);
      missing += static_cast<uint64_t>(kLocks - rows[id]);
    }
  }
  SetConsumer(kWaitsLong, true);
  std::printf("rows: %llu, missing rows: %llu\n", static_cast<unsigned long long>(kept), static_cast<unsigned long long>(missing));
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(missing, 0u);
}

// Returns how many bytes of the records of statements have memory.
uint64_t MemoryOfStatements() {
  const ShmArray& records = OwnSegment().header().arrays[static_cast<uint32_t>(ArrayId::kStatementRecords)];
  const int file = open(pfs_segment_path(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(file, 0);
  uint64_t bytes = 0;
  for (uint64_t page = 0; page < records.mapped.load(); page += 4096) {
    for (const FilePiece& piece : PiecesOf(records, page, page + 4096)) {
      if (lseek(file, static_cast<off_t>(piece.in_file), SEEK_DATA) == static_cast<off_t>(piece.in_file)) bytes += piece.bytes;
    }
  }
  close(file);
  return bytes;
}

TEST(ShortThreads, threads_of_one_statement_share_pages) {
  Program& program = TheProgram();
  SetConsumer(kStatementsLong, true);
  constexpr uint64_t kThreads = 10 * SmallPerSpace(Kind::kStatement);
  const uint64_t record = OwnSegment().header().record_bytes[static_cast<uint32_t>(Kind::kStatement)];
  const uint64_t chunks = ChunksUsed(Kind::kStatement), bytes = MemoryOfStatements();
  for (uint64_t i = 0; i < kThreads; ++i) InThread([&] { program.Ask(1); });
  EXPECT_LE(ChunksUsed(Kind::kStatement), chunks + kThreads + SmallPerSpace(Kind::kStatement));
  EXPECT_LE(MemoryOfStatements() - bytes, 11 * BytesOfRecords(Kind::kStatement, record));
}

TEST(ShortThreads, history_long_has_as_many_rows_of_short_threads_as_of_others) {
  Program& program = TheProgram();
  SetConsumer(kStatementsLong, true);
  constexpr size_t kRows = 500;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < kRows * 3 / 2; ++i) ids.push_back(InThread([&] { program.Ask(1); }));
  std::map<uint64_t, int> expected;
  for (size_t i = ids.size() - kRows; i < ids.size(); ++i) expected[ids[i]] = 1;
  EXPECT_EQ(RowsByThread(kStatementsLong), expected);
  const uint64_t id = InThread([&] { program.Ask(static_cast<int>(kRows) + 5); });
  EXPECT_EQ(RowsByThread(kStatementsLong), (std::map<uint64_t, int>{{id, static_cast<int>(kRows)}}));
  const uint64_t chunks = ChunksUsed(Kind::kStatement);
  for (size_t i = 0; i < kRows; ++i) InThread([&] { program.Ask(1 + static_cast<int>(i % 3)); });
  InThread([&] { program.Ask(2 * static_cast<int>(kRows)); });
  EXPECT_LE(ChunksUsed(Kind::kStatement), chunks + kRows / 2) << "chunks are used again";
}

// Returns the texts of a thread's statements.
std::multiset<std::string> TextsOf(uint64_t thread_id, const SegmentView& view) {
  const Frame frame(kStatementsLong, {"THREAD_ID", "SQL_TEXT"}, view);
  std::multiset<std::string> texts;
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.number(i, 0) == thread_id) texts.emplace(frame.text(i, 1));
  }
  return texts;
}

// A reader that took the pages without memory for a tool's holes would see zeros there for ever.
TEST(ShortThreads, a_reader_that_has_attached_finds_the_chunks_that_are_made_later) {
  Program& program = TheProgram();
  SetConsumer(kStatementsLong, true);
  std::shared_ptr<SegmentFile> file;
  ASSERT_TRUE(AttachSegmentFile(pfs_segment_path(), &file).ok());
  InThread([&] {
    const uint64_t id = pfs_thread_id();
    std::multiset<std::string> expected;
    for (int i = 0; i < 20; ++i) {
      program.Ask(1);
      expected.emplace("SELECT 0");
      EXPECT_EQ(TextsOf(id, file->view()), expected) << "from outside";
      EXPECT_EQ(TextsOf(id, OwnSegment()), expected);
    }
    Truncate(kStatementsLong);  // hides the records that have begun, in chunks of any size
    EXPECT_TRUE(TextsOf(id, file->view()).empty());
    program.Ask(1);
    EXPECT_EQ(TextsOf(id, file->view()).size(), 1u);
  });
  EXPECT_TRUE(file->Check().ok());
}

TEST(ShortThreads, statements_are_whole_while_concurrent_threads_come_and_go) {
  Program& program = TheProgram();
  Truncate(kStatementsLong);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> threads{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < 3; ++w) {
    workers.emplace_back([&, seed = Seed() + static_cast<uint64_t>(w)] {
      std::mt19937_64 random(seed);
      while (!stop.load()) {
        InThread([&] { program.Ask(1 + static_cast<int>(random() % 10)); });
        threads.fetch_add(1);
      }
    });
  }
  workers.emplace_back([&, seed = Seed() + 99] {
    std::mt19937_64 random(seed);
    while (!stop.load()) {
      SetConsumer(kStatementsLong, random() % 2 == 0);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
  });
  std::shared_ptr<SegmentFile> file;
  ASSERT_TRUE(AttachSegmentFile(pfs_segment_path(), &file).ok());
  uint64_t rows = 0, torn = 0;
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  for (int turn = 0; NowNanos() < end; ++turn) {
    for (const char* table : {"events_statements_current", "events_statements_history", kStatementsLong}) {
      const Frame frame(table, {"THREAD_ID", "EVENT_ID", "EVENT_NAME", "SQL_TEXT", "END_EVENT_ID"},
                        turn % 2 == 0 ? OwnSegment() : file->view());
      std::map<uint64_t, std::vector<std::pair<uint64_t, std::string>>> by_thread;
      for (size_t i = 0; i < frame.rows(); ++i) {
        ++rows;
        if (frame.text(i, 2) != "statement/live/short") ++torn;
        if (!frame.is_null(i, 4)) by_thread[frame.number(i, 0)].emplace_back(frame.number(i, 1), frame.text(i, 3));
      }
      // The n-th statement of a thread says so in its text: texts of another thread's record would break the order.
      for (auto& [id, texts] : by_thread) {
        std::sort(texts.begin(), texts.end());
        int last = -1;
        for (const auto& [event_id, text] : texts) {
          const int number = text.size() > 7 ? std::atoi(text.c_str() + 7) : -1;
          if (number <= last) ++torn;
          last = number;
        }
      }
    }
  }
  stop.store(true);
  for (std::thread& worker : workers) worker.join();
  SetConsumer(kStatementsLong, true);
  std::printf("threads: %llu, rows: %llu, torn rows: %llu\n", static_cast<unsigned long long>(threads.load()),
              static_cast<unsigned long long>(rows), static_cast<unsigned long long>(torn));
  EXPECT_GT(rows, 0u);
  EXPECT_EQ(torn, 0u);
}

}  // namespace
}  // namespace perfschema
