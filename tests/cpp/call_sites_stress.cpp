// The rows of call_sites: many threads add to them, and make them at the same time.
//
// Contract. Each call that fails counts once, in one row of its place, however many threads make that row at once. TRUNCATE begins at
// zero and loses no later call. Calls that the full table has no row for count as lost. A forked child begins with no rows.
//
// How it is checked. One thread proves the numbers first. Then threads fail together at places that are new to all of them, round after
// round, and each row must have exactly their calls.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>

#include "live.h"
#include "shm/layout.h"

namespace perfschema {
namespace {

constexpr int kThreads = 8;
constexpr uint64_t kCalls = 50;

pfs_key_t key = 0;

void Register() {
  if (key != 0) return;
  pfs_file_info_t file[] = {{&key, "fails", 0, nullptr}};
  ASSERT_EQ(pfs_register_file("sites", file, 1), PFS_OK);
}

void FailAt(uint32_t line) { EXPECT_EQ(pfs_open_at(key, "sites.c", line, "/nowhere/file.conf", O_RDONLY), -1); }

// Returns the calls of each place. A place with two rows has no number that is right.
std::map<std::string, uint64_t> Rows() {
  std::map<std::string, uint64_t> rows;
  const Frame frame("call_sites", {"SOURCE", "COUNT_FAILED"});
  for (size_t i = 0; i < frame.rows(); ++i) {
    const auto [at, is_new] = rows.try_emplace(std::string(frame.text(i, 0)), frame.number(i, 1));
    if (!is_new) at->second = ~uint64_t{0};
  }
  return rows;
}
std::string Place(uint32_t line) { return "sites.c:" + std::to_string(line); }

TEST(CallSites, of_one_thread_have_their_numbers) {
  Register();
  for (uint32_t line = 1; line <= 20; ++line) {
    for (uint32_t i = 0; i < line; ++i) FailAt(line);
  }
  const std::map<std::string, uint64_t> rows = Rows();
  EXPECT_EQ(rows.size(), 20u);
  for (uint32_t line = 1; line <= 20; ++line) EXPECT_EQ(rows.at(Place(line)), line);
  Truncate("call_sites");
  EXPECT_TRUE(Rows().empty());
  FailAt(7);
  EXPECT_EQ(Rows(), (std::map<std::string, uint64_t>{{Place(7), 1}}));
}

TEST(CallSites, of_a_child_are_its_own) {
  Register();
  FailAt(3);
  const pid_t child = fork();
  if (child == 0) {
    FailAt(2);
    FailAt(5);
    FailAt(2);
    _exit(Rows() == std::map<std::string, uint64_t>{{Place(2), 2}, {Place(5), 1}} ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GE(Rows().at(Place(3)), 1u);
}

TEST(CallSites, that_threads_make_together_have_each_call_once) {
  Register();
  constexpr uint32_t kFirst = 100, kRounds = 700;
  std::barrier together(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (uint32_t round = 0; round < kRounds; ++round) {
        together.arrive_and_wait();
        for (uint64_t call = 0; call < kCalls; ++call) FailAt(kFirst + round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::map<std::string, uint64_t> rows = Rows();
  uint64_t wrong = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto found = rows.find(Place(kFirst + round));
    if (found == rows.end() || found->second != kThreads * kCalls) ++wrong;
  }
  EXPECT_EQ(wrong, 0u) << "wrong numbers: " << wrong;
  EXPECT_EQ(StatusNumber("Performance_schema_call_sites_lost"), 0u);
}

// Last: the table stays full.
TEST(CallSites, that_do_not_fit_are_counted) {
  Register();
  Truncate("call_sites");
  constexpr uint64_t kPlaces = 2000;
  for (uint32_t line = 0; line < kPlaces; ++line) FailAt(10'000 + line);
  const uint64_t lost = StatusNumber("Performance_schema_call_sites_lost");
  EXPECT_GT(lost, kPlaces - kCallSiteSlots);
  EXPECT_EQ(Rows().size() + lost, kPlaces);
}

}  // namespace
}  // namespace perfschema
