// Other processes' segments: damaged, changed and truncated, while they are read. The long search is the job of
// tests/fuzz/segment.sh.
#define PFS_FUZZ_ALONE
#include <sys/syscall.h>
#include <sys/wait.h>

#include <functional>

#include "../fuzz/segment_fuzz.cpp"
#include "live.h"
#include "perfschema/server.h"
#include "shm/plan.h"

namespace perfschema {
namespace {

constexpr const char* kSmall =
    "performance_schema_max_thread_instances=16,performance_schema_max_mutex_instances=16,performance_schema_max_file_instances=16,"
    "performance_schema_max_rwlock_instances=16,performance_schema_max_cond_instances=8,performance_schema_max_socket_instances=8,"
    "performance_schema_max_statement_classes=8,performance_schema_max_memory_classes=8,performance_schema_max_stage_classes=8,"
    "performance_schema_max_mutex_classes=8,performance_schema_error_size=8,performance_schema_digests_size=8,performance_schema_accounts_"
    "size=8,"
    "performance_schema_users_size=8,performance_schema_hosts_size=8,performance_schema_max_sql_text_length=128,"
    "performance_schema_max_digest_length=128,performance_schema_instrument='%=ON',performance_schema_consumer_events_waits_history_long="
    "ON";

// What happens in the program just before this one reads a piece of its file.
std::function<void()> before_pread;
// If not 0, files have holes of so many bytes wherever there are only zeros.
off_t block_bytes = 0;

// A segment of this process with some rows of every kind, made once: PFS_FUZZ_SEGMENT names it.
class DamagedSegment : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const TemporaryDirectory folder;
    setenv("PFS_DIR", (folder / "pfs").c_str(), 1);
    unsetenv("PFS_SEGMENT");
    ASSERT_EQ(pfs_init(kSmall), PFS_OK) << pfs_last_error();
    pfs_key_t statement_key = 0, stage_key = 0, memory_key = 0;
    pfs_statement_info_t statements[] = {{&statement_key, "select", 0, nullptr}};
    pfs_stage_info_t stages[] = {{&stage_key, "stage", PFS_PROGRESS, nullptr}};
    pfs_memory_info_t memory[] = {{&memory_key, "block", 0, nullptr}};
    ASSERT_EQ(pfs_register_statement("live", statements, 1), PFS_OK);
    ASSERT_EQ(pfs_register_stage("live", stages, 1), PFS_OK);
    ASSERT_EQ(pfs_register_memory("live", memory, 1), PFS_OK);
    pfs_set_account("anna", "desk");
    pfs_mutex_t mutex;
    pfs_mutex_init(MutexKey("lock"), &mutex, nullptr);
    const char* const indexes[] = {"by_name"};
    static pfs_table_t* table;  // static: leak checkers find it
    table = pfs_table_open(PFS_OBJECT_TABLE, "shop", "cakes", &mutex, indexes, 1);
    pfs_metadata_lock_create(&mutex, PFS_OBJECT_TABLE, "shop", "cakes", nullptr, PFS_METADATA_EXCLUSIVE, PFS_METADATA_TRANSACTION,
                             PFS_METADATA_GRANTED);
    pfs_log(PFS_LOG_NOTE, "MY-1", "Server", "It works.");
    for (int i = 0; i < 30; ++i) {
      pfs_transaction_t transaction;
      pfs_statement_t statement;
      pfs_wait_t wait;
      pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 0, 1);
      pfs_statement_begin(&statement, statement_key);
      const std::string text = "SELECT " + std::to_string(i) + " FROM " + std::string(1, static_cast<char>('a' + i % 12));
      pfs_statement_set_text(&statement, text.data(), text.size());
      pfs_stage_begin(stage_key);
      pfs_mutex_lock(&mutex);
      pfs_free(pfs_malloc(memory_key, 100));
      const int fd = pfs_open(FileKey("file"), (folder / ("file" + std::to_string(i % 9))).c_str(), O_RDWR | O_CREAT, 0600);
      EXPECT_EQ(pfs_write(fd, "x", 1), 1);
      if (table != nullptr && pfs_table_io_begin(&wait, table, PFS_TABLE_FETCH, 0) != 0) pfs_table_io_end(&wait, 3);
      pfs_close(fd);
      pfs_mutex_unlock(&mutex);
      pfs_stage_end();
      if (i == 29) break;  // the last ones go on
      pfs_statement_end(&statement);
      pfs_transaction_end(&transaction, 1);
    }
    setenv("PFS_FUZZ_SEGMENT", pfs_segment_path(), 1);
    ASSERT_NE(TheImage().bytes(), 0u);
  }
};

TEST_F(DamagedSegment, is_read_or_refused_whatever_the_damage) { DamageAndRead(3000 / Sample::kOneIn, Seed()); }

void Read(const std::string& input) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size()); }

// Rows of numbers that begin in unmapped memory and end in mapped memory, or the reverse: an instrument of several
// columns is read whole or not at all. A smaller capacity moves the rows of all members but the first.
TEST_F(DamagedSegment, with_rows_across_the_edge_of_what_has_memory_is_read) {
  constexpr ArrayId kRows[][2] = {{ArrayId::kThreadCells, ArrayId::kThreads},
                                  {ArrayId::kAccountCells, ArrayId::kAccounts},
                                  {ArrayId::kUserCells, ArrayId::kUsers},
                                  {ArrayId::kHostCells, ArrayId::kHosts},
                                  {ArrayId::kGlobalCells, ArrayId::kThreads}};
  const ShmHeader& header = TheImage().header();
  Sample sample;
  for (const char how : {'\xff', '\xf8'}) {  // all tables through the mappings; an eighth through the copy
    for (uint64_t columns = 0; columns <= 4096 / sizeof(ShmCell); ++columns) {
      if (!sample.TakesNext()) continue;
      std::string input(1, how);
      for (const auto& [cells, members] : kRows) {
        const uint64_t rows = header.arrays[static_cast<uint32_t>(members)].capacity;
        const Change change{1, 0, static_cast<uint16_t>(cells), 2, header.arrays[static_cast<uint32_t>(cells)].capacity - columns * rows};
        input.append(reinterpret_cast<const char*>(&change), sizeof change);
      }
      Read(input);
    }
  }
}

// Extents of one array that lie in the header, in another array, half behind the end of the file, or far behind it;
// and arrays at another array's addresses.
TEST_F(DamagedSegment, with_extents_that_lie_elsewhere_is_read) {
  const ShmHeader& header = TheImage().header();
  const uint64_t last = TheImage().file_bytes() / 4096 - 1,
                 of_names = header.arrays[static_cast<uint32_t>(ArrayId::kNames)].extents[0].load();
  Sample sample;
  for (uint16_t array = 0; array < kArrayCount; ++array) {
    const uint64_t bad_pages[] = {0, 5, of_names, last, last + 1, 0xffffffff};
    for (const uint64_t page : bad_pages) {
      if (!sample.TakesNext()) continue;
      const Change change{1, 0, array, 8, page << 32 | page};
      std::string input(1, static_cast<char>(0xf8 + array % 8));
      input.append(reinterpret_cast<const char*>(&change), sizeof change);
      Read(input);
      input[0] = static_cast<char>(array % 8);
      Read(input);
    }
    const uint64_t bad_words[] = {0, 1, 4096, 1 << 20, uint64_t{1} << 46, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{4095}};
    for (const uint32_t word : {0u, 1u, 2u, 3u, 7u}) {  // offset, stride, capacity, first_extent, mapped
      for (const uint64_t bad : bad_words) {
        if (!sample.TakesNext()) continue;
        const Change change{1, 0, array, word, bad};
        std::string input(1, static_cast<char>(array % 8));
        input.append(reinterpret_cast<const char*>(&change), sizeof change);
        Read(input);
      }
    }
  }
}

#if !defined(__SANITIZE_THREAD__)  // words that are written once are no atomics
TEST_F(DamagedSegment, may_change_while_it_is_read) {
  Image image(std::getenv("PFS_FUZZ_SEGMENT"));
  std::atomic<bool> stop{false};
  std::thread changes([&] {
    std::mt19937_64 random(Seed());
    while (!stop.load()) {
      for (int i = 0; i < 50; ++i) image.Make(RandomChange(random));
      image.Restore();
    }
  });
  const uint64_t end = NowNanos() + 1'000'000 * StressTime().count();
  uint64_t read = 0;
  while (NowNanos() < end) {
    std::unique_ptr<SegmentFile> file;
    if (!SegmentFile::Open(image.file(), &file).ok()) continue;
    for (const NamedTable& table : AllTables()) {
      TableData data;
      EXPECT_TRUE(ReadTable(table, file->view(), {}, &data).ok());
      CheckTable(table, data);
      ++read;
    }
  }
  stop.store(true);
  changes.join();
  EXPECT_GT(read, 0u);
}
#endif

TEST_F(DamagedSegment, may_be_cut_short_while_it_is_read) {
  std::mt19937_64 random(Seed());
  std::vector<const NamedTable*> tables;
  for (const NamedTable& table : AllTables()) tables.push_back(&table);
  int cut = 0, rows = 0;
  for (int round = 0; round < 20; ++round) {
    Image image(std::getenv("PFS_FUZZ_SEGMENT"));
    std::unique_ptr<SegmentFile> file;
    ASSERT_TRUE(SegmentFile::Open(image.file(), &file).ok());
    const size_t first_wanted = random() % tables.size();
    std::atomic<size_t> reading{0};  // the number of tables that have been read
    std::atomic<bool> is_cut{false};
    // The cut comes while a table is read, whichever the threads' turns make it: the reader goes on until it has come.
    std::thread cuts([&, length = static_cast<off_t>(random() % image.file_bytes())] {
      while (reading.load() < first_wanted) std::this_thread::yield();
      EXPECT_EQ(truncate(image.file().c_str(), length), 0);
      is_cut.store(true);
    });
    bool is_refused = false;
    const auto read = [&](size_t at) {
      TableData data;
      const Status status = ReadTable(*tables[at % tables.size()], file->view(), {}, &data);
      EXPECT_TRUE(status.ok() || status.code() == Code::kCorrupt) << status.message();
      EXPECT_FALSE(is_refused && status.ok()) << "it came back";
      is_refused = !status.ok();
      rows += static_cast<int>(data.rows);
    };
    size_t at = 0;
    for (; !is_cut.load(); ++at) {
      reading.store(at);
      read(at);
    }
    cuts.join();
    for (const size_t end = at + tables.size(); at < end; ++at) read(at);
    cut += is_refused ? 1 : 0;  // a file that lost only what no table reads is read on
  }
  EXPECT_GT(cut, 10);
  EXPECT_GT(rows, 0);
}

// A file that ends inside a page has that page: the search for memory gets past it.
TEST_F(DamagedSegment, may_be_cut_short_inside_a_page) {
  int in_memory = 0;
  for (uint32_t array = 0; array < kArrayCount; ++array) {
    Image image(std::getenv("PFS_FUZZ_SEGMENT"));
    const ShmArray& directory = image.header().arrays[array];
    std::unique_ptr<SegmentFile> file;
    ASSERT_TRUE(SegmentFile::Open(image.file(), &file).ok());
    const uint64_t page = directory.extents[0].load();
    ASSERT_EQ(truncate(image.file().c_str(), static_cast<off_t>(page * 4096 + 2000)), 0);
    for (const uint64_t in_page : {0, 1000, 1999, 2000, 3000}) {
      const uint64_t offset = directory.offset + in_page;
      const ByteRun run = file->view().RunAt(offset, 1000);
      EXPECT_LE(run.begin, offset);
      EXPECT_GT(run.end, offset);
      in_memory += run.has_memory ? 1 : 0;
    }
  }
  EXPECT_GT(in_memory, 100);
}

// What is not mapped is one run up to the next piece that is: a reader of ten million cells that are not there asks once for all of them.
TEST_F(DamagedSegment, says_at_once_how_far_there_is_nothing) {
  Image image(std::getenv("PFS_FUZZ_SEGMENT"));
  std::unique_ptr<SegmentFile> file;
  ASSERT_TRUE(SegmentFile::Open(image.file(), &file).ok());
  const SegmentView view = file->view();
  ASSERT_GT(view.bytes(), uint64_t{1} << 22);
  uint64_t with_memory = 0, questions = 0;
  for (uint64_t at = 0; at < view.bytes() && questions < 100'000; ++questions) {
    const ByteRun run = view.RunAt(at, 1);
    ASSERT_GT(run.end, at);
    if (run.has_memory) with_memory += run.end - at;
    at = run.end;
  }
  EXPECT_LT(questions, 10'000u) << view.bytes();
  EXPECT_GT(with_memory, uint64_t{1} << 16);
}

// What has been copied to a file system with blocks of 1 KiB has holes inside of pages.
TEST_F(DamagedSegment, may_have_holes_that_are_smaller_than_a_page) {
  const auto all_tables = [](off_t bytes) {
    Image image(std::getenv("PFS_FUZZ_SEGMENT"));
    std::unique_ptr<SegmentFile> file;
    EXPECT_TRUE(SegmentFile::Open(image.file(), &file).ok());
    block_bytes = bytes;
    std::vector<TableData> tables(AllTables().size());
    for (size_t i = 0; i < tables.size(); ++i) EXPECT_TRUE(ReadTable(AllTables()[i], file->view(), {}, &tables[i]).ok());
    block_bytes = 0;
    return tables;
  };
  const std::vector<TableData> expected = all_tables(0);
  const std::set<std::string_view> of_now = {"active_sessions", "blocked", "global_status", "lock_reasons", "performance_timers",
                                             "processlist",     "running", "thread_time",   "threads"};
  for (const off_t bytes : {4096, 1024}) {
    const std::vector<TableData> found = all_tables(bytes);
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string_view name = AllTables()[i].name;
      if (of_now.contains(name)) continue;
      SCOPED_TRACE(std::string(name) + " in blocks of " + std::to_string(bytes));
      ASSERT_EQ(found[i].rows, expected[i].rows);
      EXPECT_EQ(found[i].skipped, expected[i].skipped);
      for (size_t column = 0; column < found[i].columns.size(); ++column) {
        EXPECT_TRUE(std::ranges::equal(found[i].columns[column].words, expected[i].columns[column].words)) << column;
        EXPECT_TRUE(std::ranges::equal(found[i].columns[column].codes, expected[i].columns[column].codes)) << column;
        EXPECT_TRUE(std::ranges::equal(found[i].columns[column].nulls, expected[i].columns[column].nulls)) << column;
      }
    }
  }
}

// A program makes its file longer, then says so in the header: nothing of it is missing, whenever a reader comes.
TEST_F(DamagedSegment, may_grow_while_it_is_opened) {
  Image image(std::getenv("PFS_FUZZ_SEGMENT"));
  const int fd = open(image.file().c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  uint64_t bytes = image.file_bytes();
  before_pread = [&] {
    bytes += 4096;
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(pwrite(fd, &bytes, sizeof bytes, offsetof(ShmHeader, file_bytes)), static_cast<ssize_t>(sizeof bytes));
  };
  std::unique_ptr<SegmentFile> file;
  const Status status = SegmentFile::Open(image.file(), &file);
  before_pread = nullptr;
  close(fd);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(bytes, image.file_bytes());
}

// Threads x instruments: a file of 50 MiB that claims 400 million numbers.
TEST_F(DamagedSegment, that_claims_more_than_can_be_added_up_is_left_out_in_time) {
  constexpr uint64_t kMany = 20'000;
  Image image(std::getenv("PFS_FUZZ_SEGMENT"));
  const int fd = open(image.file().c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  uint64_t end = image.file_bytes(), address = image.bytes();  // each new array behind all others
  const auto put = [&](const void* from, size_t bytes, size_t at) {
    ASSERT_EQ(pwrite(fd, from, bytes, static_cast<off_t>(at)), static_cast<ssize_t>(bytes));
  };
  const auto add = [&](ArrayId id, const void* elements, uint64_t stride) {
    const uint64_t bytes = RoundToPages(kMany * stride), page = end / 4096;
    put(elements, kMany * stride, end);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(end + bytes)), 0);
    const uint64_t entry[] = {address, stride, kMany, bytes, kMany, kMany * stride, 0, bytes, page};
    static_assert(offsetof(ShmArray, extents) == sizeof entry - sizeof page);
    put(entry, sizeof entry, offsetof(ShmHeader, arrays) + static_cast<size_t>(id) * sizeof(ShmArray));
    end += bytes;
    address += bytes;
    put(&end, sizeof end, offsetof(ShmHeader, file_bytes));
    put(&address, sizeof address, offsetof(ShmHeader, segment_bytes));
  };
  auto classes = std::make_unique<ShmClass[]>(kMany);
  auto threads = std::make_unique<ShmThread[]>(kMany);
  for (uint32_t i = 1; i < kMany; ++i) {
    classes[i].index = classes[i].key = i;
    classes[i].family = static_cast<uint32_t>(Family::kMutex);
    classes[i].ready.store(1);
    threads[i].thread_id.store(i);
    threads[i].cells.store(~0u);
    threads[i].account.store(1);
  }
  add(ArrayId::kClasses, classes.get(), sizeof(ShmClass));
  add(ArrayId::kThreads, threads.get(), sizeof(ShmThread));
  const uint64_t capacity = uint64_t{1} << 40;
  ASSERT_EQ(pwrite(fd, &capacity, sizeof capacity,
                   offsetof(ShmHeader, arrays) + static_cast<off_t>(ArrayId::kThreadCells) * static_cast<off_t>(sizeof(ShmArray)) + 16),
            8);
  close(fd);
  std::unique_ptr<SegmentFile> file;
  ASSERT_TRUE(SegmentFile::Open(image.file(), &file).ok());
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable("events_waits_summary_by_account_by_event_name", &table).ok());
  TableData data;
  const uint64_t start = NowNanos();
  EXPECT_TRUE(ReadTable(*table, file->view(), {}, &data).ok());
  std::printf("%llu ms\n", static_cast<unsigned long long>((NowNanos() - start) / 1'000'000));
  EXPECT_LE(data.rows, kMany);  // of an account without threads
  EXPECT_GE(data.skipped, 1u);
}

}  // namespace
}  // namespace perfschema

// Instead of the C library's.
extern "C" ssize_t pread(int fd, void* buffer, size_t bytes, off_t offset) {
  if (perfschema::before_pread) perfschema::before_pread();
  return syscall(SYS_pread64, fd, buffer, bytes, offset);
}
extern "C" off_t lseek(int fd, off_t offset, int whence) {
  const off_t block = perfschema::block_bytes;
  if (block == 0 || (whence != SEEK_DATA && whence != SEEK_HOLE)) return syscall(SYS_lseek, fd, offset, whence);
  const off_t end = syscall(SYS_lseek, fd, 0, SEEK_END);
  for (; offset < end; offset = (offset / block + 1) * block) {
    char bytes[4096] = {};
    syscall(SYS_pread64, fd, bytes, static_cast<size_t>(block), offset / block * block);
    const bool is_hole = std::all_of(bytes, bytes + block, [](char each) { return each == 0; });
    if (is_hole == (whence == SEEK_HOLE)) return offset;
  }
  if (whence == SEEK_HOLE && offset == end) return end;
  errno = ENXIO;
  return -1;
}
