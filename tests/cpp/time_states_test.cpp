// What a thread's time is split into.
#include "base/time_states.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace perfschema {
namespace {

uint64_t& Of(TimeSplit& split, WaitState state) { return split.waits[static_cast<uint32_t>(state)]; }
uint64_t SumOf(const TimeSplit& split) {
  return std::accumulate(std::begin(split.waits), std::end(split.waits), split.computing + split.runnable + split.elsewhere);
}

TEST(TimeSplit, what_no_part_has_is_elsewhere) {
  TimeSplit split{.wall = 1000, .computing = 300, .runnable = 100};
  Of(split, WaitState::kSleep) = 400;
  split.Settle();
  EXPECT_EQ(split.elsewhere, 200u);
  EXPECT_EQ(SumOf(split), 1000u);
}

// Reads that only copy from the page cache compute all the time.
TEST(TimeSplit, computing_inside_calls_is_taken_off_files_first) {
  TimeSplit split{.wall = 1000, .computing = 600};
  Of(split, WaitState::kFile) = 590;
  Of(split, WaitState::kSleep) = 400;
  split.Settle();
  EXPECT_EQ(Of(split, WaitState::kFile), 0u);
  EXPECT_EQ(Of(split, WaitState::kSleep), 400u);
  EXPECT_EQ(SumOf(split), 1000u);
}

TEST(TimeSplit, time_without_a_processor_is_taken_off_all_waits) {
  TimeSplit split{.wall = 1000, .computing = 0, .runnable = 500};
  Of(split, WaitState::kFile) = 600;
  Of(split, WaitState::kSleep) = 400;
  split.Settle();
  EXPECT_EQ(Of(split, WaitState::kFile), 300u);
  EXPECT_EQ(Of(split, WaitState::kSleep), 200u);
  EXPECT_EQ(SumOf(split), 1000u);
}

TEST(TimeSplit, the_sum_is_the_life_whatever_the_parts_are) {
  for (const uint64_t wall : {0ull, 1ull, 999ull, 1ull << 62}) {
    for (const uint64_t part : {0ull, 7ull, 500ull, 1ull << 60}) {
      TimeSplit split{.wall = wall, .computing = part, .runnable = part / 2};
      for (uint64_t& wait : split.waits) wait = part / 3;
      split.Settle();
      EXPECT_EQ(SumOf(split), wall) << part;
    }
  }
}

TEST(CopyRole, numbers_of_one_of_many_threads_are_left_out) {
  const auto role = [](std::string_view name) {
    std::string text(name.size(), 0);
    text.resize(CopyRole(name, text.data()));
    return text;
  };
  EXPECT_EQ(role("thread/app/worker-12"), "thread/app/worker-*");
  EXPECT_EQ(role("thread/app/worker12"), "thread/app/worker*");
  EXPECT_EQ(role("thread/python/Thread-3 (run)"), "thread/python/Thread-* (run)");
  EXPECT_EQ(role("thread/java/pool-1-thread-7"), "thread/java/pool-*-thread-*");
  for (const std::string same :
       {"", "7", "thread/app/code+0x1250", "thread/libpython3.11/code+0x12", "thread/app/f (a.cpp:12)", "thread/O2/f"}) {
    EXPECT_EQ(role(same), same);
  }
}

}  // namespace
}  // namespace perfschema
