// A process that dies between two instructions: whichever they are, count and sum of a statistic are of the same event, and the reader's
// mending makes a row that can be true. A tracer stops the process at each instruction of a change.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <new>
#include <set>

#include "shm/cell.h"
#include "snapshot/mend.h"

namespace perfschema {
namespace {

using CountAndTime = std::pair<uint64_t, uint64_t>;

// Runs `change` in a child, one instruction after the other, and looks at the statistic before each. Returns what counts and sums were
// seen.
std::set<CountAndTime> EachStep(ShmStat* stat, const std::function<void(ShmStat*)>& change) {
  std::set<CountAndTime> seen;
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    change(stat);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0, steps = 0, stops = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status) && steps < 100'000) {
    if (WSTOPSIG(status) == SIGSTOP && ++stops == 2) break;
    seen.emplace(stat->count.load(kRelaxed), stat->sum_ps.load(kRelaxed));
    Stat copy = LoadStat(*stat);
    Mend(&copy);
    EXPECT_LE(copy.min_ps(), copy.max_ps);
    EXPECT_LE(copy.max_ps, copy.sum_ps);
    EXPECT_LE(copy.avg_ps(), copy.max_ps == 0 ? copy.avg_ps() : copy.max_ps);
    EXPECT_TRUE(copy.count != 0 || copy.sum_ps == 0);
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    ++steps;
  }
  EXPECT_EQ(stops, 2);
  EXPECT_GT(steps, 20);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return seen;
}

class DyingStat : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(PFS_WIDE_STAT)
    GTEST_SKIP() << "this build, or this processor, stores count and sum one after the other";
#endif
    const pid_t child = fork();
    if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 0) GTEST_SKIP() << "nobody may trace here";
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    stat_ = new (page) ShmStat{};
  }
  void TearDown() override {
    if (stat_ != nullptr) munmap(stat_, 4096);
  }
  ShmStat* stat_ = nullptr;
};

TEST_F(DyingStat, count_and_sum_are_of_the_same_event) {
  // The first event, a new maximum, a new minimum, one between them, one for many rows.
  struct Step {
    uint64_t wait_ps, count;
  };
  uint64_t count = 0, sum = 0;
  for (const Step step : {Step{1000, 1}, Step{5000, 1}, Step{10, 1}, Step{2000, 1}, Step{70'000, 12}, Step{1, 3}}) {
    const std::set<CountAndTime> seen = EachStep(stat_, [&](ShmStat* stat) { AddToStat(*stat, true, step.wait_ps, step.count); });
    const CountAndTime before{count, sum}, after{count += step.count, sum += step.wait_ps};
    EXPECT_EQ(seen, (std::set<CountAndTime>{before, after})) << step.wait_ps;
  }
  EXPECT_EQ(LoadStat(*stat_).min_ps(), 1u);
  EXPECT_EQ(LoadStat(*stat_).max_ps, 70'000u);
}

// Without a section around it: the fast path opens one only for what it does not count at once.
TEST_F(DyingStat, the_fast_path_has_no_moment_in_between) {
  static HalfWord seq{0};
  for (const uint64_t wait_ps : {1000u, 5000u, 3000u}) {
    const CountAndTime before{stat_->count.load(), stat_->sum_ps.load()}, after{before.first + 1, before.second + wait_ps};
    const std::set<CountAndTime> seen = EachStep(stat_, [&](ShmStat* stat) { AddTimed(seq, *stat, wait_ps); });
    EXPECT_EQ(seen, (std::set<CountAndTime>{before, after})) << wait_ps;
  }
}

TEST_F(DyingStat, a_merge_is_whole_or_not_there) {
  AddToStat(*stat_, true, 300);
  const Stat more{7, 7000, ~uint64_t{100}, 4000};
  const std::set<CountAndTime> seen = EachStep(stat_, [&](ShmStat* stat) { MergeIntoStat(*stat, more); });
  EXPECT_EQ(seen, (std::set<CountAndTime>{{1, 300}, {8, 7300}}));
}

// The tracer sees a store of each word by itself.
TEST_F(DyingStat, two_stores_are_found) {
  const std::set<CountAndTime> seen = EachStep(stat_, [](ShmStat* stat) {
    stat->count.store(1, kRelease);
    stat->sum_ps.store(5, kRelease);
  });
  EXPECT_EQ(seen, (std::set<CountAndTime>{{0, 0}, {1, 0}, {1, 5}}));
}

}  // namespace
}  // namespace perfschema
