// Files that come into being without the cold lock (record/family/files.h): threads open new names, the same ones at the same time, rename
// and delete them.
//
// Contract. While no call is running, at most one live file has a name. Every open and every write
// counts, for a file or, once it is deleted, for its instrument. A file is lost only if as many are live as the option allows, whatever
// threads have taken in advance.
//
// How it is checked. A single thread proves the numbers first. Then threads open, rename and delete names of a small set, so that two often
// make the same file; the names share four chains of the index, so that files come and go before and behind each other. The sums of the
// instrument are those that the threads have counted themselves.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>

#include "live.h"
#include "record/engine/cold_lock.h"
#include "record/family/file_index.h"
#include "record/family/files.h"

namespace perfschema {
namespace {

pfs_key_t key = 0;

std::string Folder() {
  static const std::string folder = [] {
    std::string path = "/tmp/pfs-new-files-" + std::to_string(getpid());
    (void)mkdir(path.c_str(), 0700);
    return path;
  }();
  return folder;
}

void Register() {
  if (key != 0) return;
  pfs_file_info_t file[] = {{&key, "new", 0, nullptr}};
  ASSERT_EQ(pfs_register_file("files", file, 1), PFS_OK);
}

void WriteTo(const std::string& name) {
  const int fd = pfs_open(key, name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(pfs_write(fd, "x", 1), 1);
  EXPECT_EQ(pfs_close(fd), 0);
}

// Returns names that share four chains of the index.
std::vector<std::string> NamesOfFewChains(size_t count) {
  std::vector<std::string> names;
  for (uint64_t number = 0; names.size() < count; ++number) {
    std::string name = Folder() + "/shared-" + std::to_string(number);
    if (HashName(name) % kFileBuckets < 4) names.push_back(std::move(name));
  }
  return names;
}

bool HasTwoFiles(const std::string& name) {
  const ColdLock lock;
  const ShmFile* const file = lock ? FindByName(name, HashName(name)) : nullptr;
  return file != nullptr && FindSecond(*file, name) != nullptr;
}

uint64_t Writes() { return SumWhere("file_summary_by_event_name", "EVENT_NAME", "wait/io/file/files/new", "COUNT_WRITE"); }

// Returns how many rows of file_instances have each name of the folder.
std::map<std::string, int> Rows() {
  std::map<std::string, int> rows;
  const Frame frame("file_instances", {"FILE_NAME"});
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 0).starts_with(Folder())) ++rows[std::string(frame.text(i, 0))];
  }
  return rows;
}

TEST(NewFiles, of_one_thread_have_their_rows) {
  ASSERT_TRUE(EnsureStarted());
  Register();
  constexpr int kFiles = 500;
  for (int i = 0; i < kFiles; ++i) WriteTo(Folder() + "/one-" + std::to_string(i));
  const std::map<std::string, int> rows = Rows();
  EXPECT_EQ(rows.size(), size_t{kFiles});
  for (const auto& [name, count] : rows) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(Writes(), uint64_t{kFiles});
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(pfs_unlink(key, (Folder() + "/one-" + std::to_string(i)).c_str()), 0);
  EXPECT_TRUE(Rows().empty());
  EXPECT_EQ(Writes(), uint64_t{kFiles});
}

TEST(NewFiles, of_a_child_have_their_rows_too) {
  Register();
  for (int i = 0; i < 100; ++i) WriteTo(Folder() + "/before-" + std::to_string(i));
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; ++i) WriteTo(Folder() + "/after-" + std::to_string(i));
    const std::map<std::string, int> rows = Rows();
    const bool is_right =
        rows.size() == 200 && Writes() == 100 && std::all_of(rows.begin(), rows.end(), [](auto& row) { return row.second == 1; });
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pfs_unlink(key, (Folder() + "/before-" + std::to_string(i)).c_str()), 0);
    (void)unlink((Folder() + "/after-" + std::to_string(i)).c_str());
  }
}

TEST(NewFiles, have_one_row_each_and_lose_no_event_concurrently) {
  Register();
  const uint64_t seed = Seed(), before = Writes();
  std::atomic<uint64_t> written{0}, lost_opens{0};
  uint64_t twice = 0;
  bool stop = false;
  const std::vector<std::string> names = NamesOfFewChains(40);
  constexpr int kThreads = 5, kCallsBetweenLooks = 20;
  std::barrier rest(kThreads + 1);
  const auto make_calls = [&](std::mt19937_64& draws) {
    for (int i = 0; i < kCallsBetweenLooks; ++i) {
      const std::string& name = names[draws() % names.size()];
      switch (draws() % 8) {
        case 0:
          (void)pfs_unlink(key, name.c_str());
          break;
        case 1:
          (void)pfs_rename(key, name.c_str(), names[draws() % names.size()].c_str());
          break;
        default: {
          const int fd = pfs_open(key, name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
          if (fd < 0) {
            lost_opens.fetch_add(1);
            break;
          }
          if (pfs_write(fd, "x", 1) == 1) written.fetch_add(1);
          (void)pfs_close(fd);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::mt19937_64 draws(seed + i); !stop;) {
        make_calls(draws);
        rest.arrive_and_wait();
        rest.arrive_and_wait();
      }
    });
  }
  for (const auto end = std::chrono::steady_clock::now() + StressTime(); !stop;) {
    rest.arrive_and_wait();
    twice += std::count_if(names.begin(), names.end(), HasTwoFiles);
    stop = std::chrono::steady_clock::now() > end;
    rest.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(twice, 0u);
  EXPECT_EQ(lost_opens.load(), 0u);
  EXPECT_EQ(Writes() - before, written.load());
  for (const auto& [name, count] : Rows()) EXPECT_EQ(count, 1) << name;
  std::printf("%llu writes; names with two files: %llu\n", static_cast<unsigned long long>(written.load()),
              static_cast<unsigned long long>(twice));
  for (const std::string& name : names) {
    WriteTo(name);  // of a file that was deleted while it was opened, the row may be there still
    EXPECT_EQ(pfs_unlink(key, name.c_str()), 0);
  }
  EXPECT_TRUE(Rows().empty());
  (void)rmdir(Folder().c_str());
}

}  // namespace
}  // namespace perfschema
