// A thread finds its own cell by a word that other threads' births and deaths change (record/probe/cells.h).
//
// Contract. The word at the head of a list of cells names the first cell together with the slot that owns it, whatever threads and objects
// come and go: threads that end leave cells which others adopt, slots go to new threads, objects die and their slots go to new objects. So
// no thread adds to a cell of another one, and no event is lost.
//
// How it is checked. A checker compares each word with the owner in the cell, under the cold lock, where nothing changes. And each thread
// counts its own events, in memory of its own: two threads that add to one cell lose some. The negative control is this program with a
// library that leaves the earlier owner in the word when a cell is adopted (PFS_BREAK_FIRST_CELL): it must find wrong words, and lost
// events.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <shared_mutex>

#include "live.h"
#include "perfschema/server.h"
#include "record/context/threads.h"
#include "record/probe/cells.h"

namespace perfschema {
namespace {

constexpr char kGlobal[] = "events_waits_summary_global_by_event_name", kFiles[] = "file_summary_by_event_name";
constexpr char kRowsEvent[] = "wait/io/table/sql/handler", kLocksEvent[] = "wait/lock/table/sql/handler",
               kMetadataEvent[] = "wait/lock/metadata/sql/mdl", kFileEvent[] = "wait/io/file/live/first",
               kReadLockEvent[] = "wait/synch/rwlock/live/first";

uint64_t Count(std::string_view table, const char* name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }

// The operations of a thread, by its own count.
struct Log {
  uint64_t rows = 0, table_locks = 0, metadata = 0, file = 0, read_locks = 0;
  Log& operator+=(const Log& other) {
    rows += other.rows, table_locks += other.table_locks, metadata += other.metadata, file += other.file, read_locks += other.read_locks;
    return *this;
  }
};
// The same, as the tables show it.
Log Shown() {
  return {Count(kGlobal, kRowsEvent), Count(kGlobal, kLocksEvent), Count(kGlobal, kMetadataEvent), Count(kFiles, kFileEvent),
          Count(kGlobal, kReadLockEvent)};
}
uint64_t WrongCounts(const Log& before, const Log& now, const Log& log) {
  uint64_t wrong = 0;
  const auto compare = [&](const char* what, uint64_t shown, uint64_t logged) {
    if (shown == logged) return;
    std::printf("%s: %llu shown, %llu logged\n", what, static_cast<unsigned long long>(shown), static_cast<unsigned long long>(logged));
    ++wrong;
  };
  compare("rows", now.rows - before.rows, log.rows);
  compare("locks of tables", now.table_locks - before.table_locks, log.table_locks);
  compare("metadata locks", now.metadata - before.metadata, log.metadata);
  compare("operations on files", now.file - before.file, log.file);
  compare("read locks", now.read_locks - before.read_locks, log.read_locks);
  return wrong;
}

// Counts words that do not name the owner of their cell.
uint64_t WrongWords(uint64_t* seen) {
  uint64_t wrong = 0;
  const auto check = [&](const ShmCellList& list) {
    const uint64_t first = list.first.load();
    if (first == 0) return;
    ++*seen;
    if (OwnerOfFirst(first) == 0 || g_runtime.cells[CellOfFirst(first)].owner.load() != OwnerOfFirst(first)) ++wrong;
  };
  const ColdLock lock;
  const auto used = [](ArrayId id) { return g_runtime.segment.array(id).used.load(); };
  for (uint64_t i = 1; i < used(ArrayId::kFiles); ++i) {
    for (const ShmCellList& lane : g_runtime.files[i].lanes) check(lane);
  }
  for (uint64_t i = 1; i < used(ArrayId::kTables); ++i) {
    for (const ShmCellList& lane : g_runtime.tables[i].lock_lanes) check(lane);
  }
  for (uint64_t i = 1; i < used(ArrayId::kIndexes); ++i) {
    for (const ShmCellList& lane : g_runtime.indexes[i].lanes) check(lane);
  }
  for (uint64_t i = 1; i < used(ArrayId::kInstances); ++i) check(g_runtime.instance_lists[i].cells);
  return wrong;
}

// Objects that many threads use at once, and that any thread replaces: first their names go, while threads go on with what they have
// opened, then the slots do.
class Objects {
 public:
  static constexpr size_t kCount = 2;

  Objects() : file_key_(FileKey("first")) {
    pfs_rwlock_info_t locks[] = {{&lock_key_, "first", 0, nullptr}};
    EXPECT_EQ(pfs_register_rwlock("live", locks, 1), PFS_OK);
    for (size_t i = 0; i < kCount; ++i) Make(i);
  }
  ~Objects() {
    for (size_t i = 0; i < kCount; ++i) Close(i);
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  void Use(size_t index, int times, Log* log) {
    Slot& slot = slots_[index];
    const std::shared_lock<std::shared_mutex> lives(slot.lifetime);
    for (int i = 0; i < times; ++i) {
      pfs_wait_t wait;
      pfs_table_io_begin(&wait, slot.table, PFS_TABLE_FETCH, 0);
      pfs_table_io_end(&wait, 1);
      pfs_table_lock_begin(&wait, slot.table, PFS_TABLE_READ_LOCK);
      pfs_table_lock_end(&wait, 1);
      pfs_metadata_wait_begin(&wait, slot.metadata);
      pfs_metadata_wait_end(&wait, 0);
      EXPECT_EQ(pfs_rwlock_rdlock(&slot.lock), 0);
      EXPECT_EQ(pfs_rwlock_unlock(&slot.lock), 0);
    }
    char byte;
    EXPECT_EQ(pfs_pread(slot.fd, &byte, 1, 0), 0);
    const auto n = static_cast<uint64_t>(times);
    *log += {n, n, n, 1, n};
  }
  void Replace(size_t index, Log* log) {
    const std::lock_guard<std::mutex> turn(replacing_);
    pfs_table_drop(PFS_OBJECT_TABLE, "live", NameOf(index).c_str());
    EXPECT_EQ(pfs_unlink(file_key_, PathOf(index).c_str()), 0);
    std::this_thread::yield();
    const std::unique_lock<std::shared_mutex> lives(slots_[index].lifetime);
    Close(index);
    Make(index);
    log->file += 3;
  }

 private:
  struct Slot {
    std::shared_mutex lifetime;
    pfs_rwlock_t lock;
    pfs_table_t* table = nullptr;
    pfs_metadata_lock_t* metadata = nullptr;
    int fd = -1;
  };
  static std::string NameOf(size_t index) { return "first" + std::to_string(index); }
  std::string PathOf(size_t index) const { return directory_ / NameOf(index); }

  void Make(size_t index) {
    Slot& slot = slots_[index];
    EXPECT_EQ(pfs_rwlock_init(lock_key_, &slot.lock, nullptr), 0);
    static const char* const kIndexes[] = {"PRIMARY"};
    slot.table = pfs_table_open(PFS_OBJECT_TABLE, "live", NameOf(index).c_str(), nullptr, kIndexes, 1);
    slot.metadata = pfs_metadata_lock_create(nullptr, PFS_OBJECT_TABLE, "live", "first", nullptr, PFS_METADATA_SHARED,
                                             PFS_METADATA_EXPLICIT, PFS_METADATA_GRANTED);
    slot.fd = pfs_open(file_key_, PathOf(index).c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_TRUE(slot.table != nullptr && slot.metadata != nullptr && slot.fd >= 0);
  }
  void Close(size_t index) {
    Slot& slot = slots_[index];
    EXPECT_EQ(pfs_rwlock_destroy(&slot.lock), 0);
    pfs_table_close(slot.table);
    pfs_metadata_lock_destroy(slot.metadata);
    EXPECT_EQ(pfs_close(slot.fd), 0);
  }

  TemporaryDirectory directory_;
  pfs_key_t file_key_ = 0, lock_key_ = 0;
  std::mutex replacing_;
  std::array<Slot, kCount> slots_;
};

TEST(FirstCells, one_thread) {
  Objects objects;
  const Log before = Shown();
  Log log;
  std::mt19937_64 random(Seed());
  for (int i = 0; i < 500; ++i) {
    objects.Use(random() % Objects::kCount, 3, &log);
    if (random() % 20 == 0) objects.Replace(random() % Objects::kCount, &log);
  }
  EXPECT_EQ(WrongCounts(before, Shown(), log), 0u);
  uint64_t seen = 0;
  EXPECT_EQ(WrongWords(&seen), 0u);
  EXPECT_GE(seen, 2u * Objects::kCount);
}

TEST(FirstCells, the_log_and_the_tables_are_really_compared) {
  const Log before = Shown();
  Log log;
  EXPECT_EQ(WrongCounts(before, Shown(), log), 0u);
  ++log.rows;
  EXPECT_EQ(WrongCounts(before, Shown(), log), 1u);
}

#if !defined(__SANITIZE_THREAD__)  // which takes the child's new cold lock for the parent's, and for held
// The child has the parent's objects and none of its cells.
TEST(FirstCells, a_forked_child_makes_cells_of_its_own) {
  Objects objects;
  Log log;
  for (size_t i = 0; i < Objects::kCount; ++i) objects.Use(i, 10, &log);
  const pid_t child = fork();
  if (child == 0) {
    Log mine;
    objects.Use(0, 5, &mine);
    uint64_t seen = 0;
    bool is_good = WrongWords(&seen) == 0 && seen == 6;  // its own: rows, lock of the table, three of the file, read lock
    for (size_t i = 0; i < Objects::kCount; ++i) objects.Use(i, 5, &mine);
    is_good = is_good && WrongWords(&seen) == 0 && WrongCounts({}, Shown(), mine) == 0;
    _exit(is_good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST(FirstCells, no_event_is_lost_while_concurrent_threads_and_objects_come_and_go) {
  constexpr int kWorkers = 4, kRounds = 4;
  Objects objects;
  uint64_t wrong_words = 0, wrong_counts = 0, seen = 0, checks = 0;
  Log all;
  std::atomic<uint64_t> lives{0}, replaced{0};
  for (int round = 0; round < kRounds; ++round) {
    Truncate(kGlobal);  // cells that stay go on in another generation
    Truncate(kFiles);
    const Log before = Shown();
    Log log;
    std::mutex log_lock;
    std::atomic<bool> stop{false};
    std::vector<std::thread> workers;
    for (int w = 0; w < kWorkers; ++w) {
      workers.emplace_back([&, seed = Seed() + static_cast<uint64_t>(round * kWorkers + w)] {
        std::mt19937_64 random(seed);
        while (!stop.load()) {
          // Most threads end soon, and leave their cells and their slot.
          const uint64_t steps = random() % 4 == 0 ? 400 : random() % 20;
          std::thread([&, steps, own_seed = random()] {
            std::mt19937_64 own(own_seed);
            Log mine;
            for (uint64_t i = 0; i < steps && !stop.load(); ++i) {
              objects.Use(own() % Objects::kCount, static_cast<int>(own() % 40), &mine);
              if (own() % 200 == 0) {
                objects.Replace(own() % Objects::kCount, &mine);
                replaced.fetch_add(1);
              }
            }
            const std::lock_guard<std::mutex> lock(log_lock);
            log += mine;
          }).join();
          lives.fetch_add(1);
        }
      });
    }
    for (const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count()) / kRounds; NowNanos() < end; ++checks) {
      wrong_words += WrongWords(&seen);
      if (checks % 32 == 0) {
        Log mine;
        objects.Replace(checks / 32 % Objects::kCount, &mine);
        replaced.fetch_add(1);
        const std::lock_guard<std::mutex> lock(log_lock);
        log += mine;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    stop.store(true);
    for (std::thread& worker : workers) worker.join();
    wrong_counts += WrongCounts(before, Shown(), log);
    all += log;
  }
  std::printf("%llu events on rows, %llu threads, %llu objects replaced, %llu words seen\n", static_cast<unsigned long long>(all.rows),
              static_cast<unsigned long long>(lives.load()), static_cast<unsigned long long>(replaced.load()),
              static_cast<unsigned long long>(seen));
  std::printf("wrong words: %llu, wrong counts: %llu\n", static_cast<unsigned long long>(wrong_words),
              static_cast<unsigned long long>(wrong_counts));
  EXPECT_GT(seen, 0u);
  EXPECT_GT(replaced.load(), 0u);
  EXPECT_EQ(wrong_words, 0u);
  EXPECT_EQ(wrong_counts, 0u);
  EXPECT_EQ(StatusNumber("Performance_schema_object_cells_lost"), 0u);
}

}  // namespace
}  // namespace perfschema
