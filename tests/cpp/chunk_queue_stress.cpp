// The queue of chunks (record/probe/chunk_queue.h), alone.
//
// Contract. A chunk is in one hand or in one place, never in two, whatever the threads do. A taker sees all that the giver stored before.
// Chunks of one giver come back in their order. A thread that stops inside an operation takes at most the chunk in its hand with it: the
// others find the rest.
//
// How it is checked. A chunk has a line of its own with two words that its holder changes without an atomic operation, and that must be
// equal. A signal handler leaves operations by a longjmp, thousands of times. The negative control hands the same chunk out twice.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "live.h"
#include "record/probe/chunk_queue.h"

namespace perfschema {
namespace {

constexpr uint32_t kSize = 64;

struct alignas(128) Chunk {
  uint64_t one = 0;
  std::atomic<int> holders{0};
  alignas(64) uint64_t other = 0;
};

class ChunkQueueStress : public testing::Test {
 protected:
  ChunkQueueStress() { queue_.places = places_.get(); }

  // Returns whether the chunk was in no other hand, and whole.
  bool Use(uint32_t chunk) {
    Chunk& used = chunks_[chunk];
    const bool is_only = used.holders.fetch_add(1, std::memory_order_relaxed) == 0;
    const bool is_whole = used.one == used.other;
    ++used.one;
    ++used.other;
    used.holders.fetch_sub(1, std::memory_order_relaxed);
    return is_only && is_whole;
  }

  ChunkQueue queue_{};
  std::unique_ptr<ChunkPlace[]> places_{new ChunkPlace[kSize]()};
  Chunk chunks_[kSize + 2];
};

TEST_F(ChunkQueueStress, is_a_queue_in_one_thread) {
  EXPECT_EQ(Take(queue_, kSize), 0u);
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t i = 1; i <= kSize; ++i) EXPECT_TRUE(Give(queue_, kSize, i));
    EXPECT_FALSE(Give(queue_, kSize, 99));
    for (uint32_t i = 1; i <= kSize; ++i) EXPECT_EQ(Take(queue_, kSize), i);
    EXPECT_EQ(Take(queue_, kSize), 0u);
    for (uint32_t i = 1; i <= 7; ++i) {  // positions do not begin at a multiple of the size in the next round
      EXPECT_TRUE(Give(queue_, kSize, i));
      EXPECT_EQ(Take(queue_, kSize), i);
    }
  }
}

TEST_F(ChunkQueueStress, positions_may_wrap_around) {
  queue_.tail.store(0xffffffe0u);
  queue_.head.store(0xffffffe0u);
  for (uint32_t i = 0; i < kSize; ++i) {
    const uint32_t position = i < 32 ? i : 0xffffffc0u + i;  // the next position that uses the place
    places_[i].store(PlaceWith(position - i, 0));
  }
  for (uint32_t i = 1; i <= 3 * kSize; ++i) {
    EXPECT_TRUE(Give(queue_, kSize, i));
    EXPECT_EQ(Take(queue_, kSize), i);
  }
}

TEST_F(ChunkQueueStress, chunk_is_in_one_hand_concurrent) {
  for (uint32_t i = 1; i <= 20; ++i) ASSERT_TRUE(Give(queue_, kSize, i));
  std::atomic<bool> over{false};
  std::atomic<uint64_t> wrong{0}, uses{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!over.load()) {
        const uint32_t chunk = Take(queue_, kSize);
        if (chunk == 0) continue;
        if (!Use(chunk)) ++wrong;
        ++uses;
        EXPECT_TRUE(Give(queue_, kSize, chunk));
      }
    });
  }
  std::this_thread::sleep_for(StressTime());
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(uses, 1000u);
  bool is_there[21] = {};
  for (uint32_t chunk = Take(queue_, kSize); chunk != 0; chunk = Take(queue_, kSize)) {
    EXPECT_FALSE(is_there[chunk]);
    is_there[chunk] = true;
  }
  for (uint32_t i = 1; i <= 20; ++i) EXPECT_TRUE(is_there[i]) << i;
}

// A chunk that is in the queue twice: the check above sees it.
TEST_F(ChunkQueueStress, control_chunk_in_two_hands_concurrent) {
  ASSERT_TRUE(Give(queue_, kSize, 1) && Give(queue_, kSize, 1));
  std::atomic<bool> over{false};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!over.load()) {
        if (const uint32_t chunk = Take(queue_, kSize); chunk != 0) {
          if (chunks_[chunk].holders.fetch_add(1) != 0) ++wrong;
          std::this_thread::yield();
          chunks_[chunk].holders.fetch_sub(1);
          Give(queue_, kSize, chunk);
        }
      }
    });
  }
  for (int tries = 0; tries < 1000 && wrong == 0; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(wrong, 0u);
}

thread_local sigjmp_buf out;
thread_local volatile sig_atomic_t may_leave = 0;
void Leave(int) {
  if (may_leave != 0) siglongjmp(out, 1);
}

TEST_F(ChunkQueueStress, threads_that_stop_inside_take_no_more_than_their_hand_concurrent) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer puts signals off until the next call of the system";
#endif
  struct sigaction action = {}, before = {};
  action.sa_handler = Leave;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> wrong{0}, left{0}, uses{0};
  std::atomic<uint32_t> stopped{0};
  constexpr int kThreads = 3;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      volatile uint32_t fresh = 0;
      while (!over.load()) {
        if (sigsetjmp(out, 1) != 0) ++left;
        may_leave = 1;
        for (int round = 0; round < 1000; ++round) {
          // A jump may lose the chunk in hand: it takes another number then, as a pool grows. Numbers only label chunks here.
          uint32_t chunk = Take(queue_, kSize);
          if (chunk == 0) {
            fresh = fresh + 1;
            chunk = fresh;
          }
          if (!Give(queue_, kSize, chunk)) ++wrong;
          ++uses;
        }
        may_leave = 0;
      }
      ++stopped;
    });
  }
  const auto until = std::chrono::steady_clock::now() + StressTime();
  const auto latest = until + std::chrono::seconds(60);  // on a busy machine
  while (std::chrono::steady_clock::now() < until || (left < 50 && std::chrono::steady_clock::now() < latest)) {
    for (std::thread& thread : threads) pthread_kill(thread.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  over = true;
  while (stopped != kThreads) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (std::thread& thread : threads) thread.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(uses, 1000u);
  EXPECT_GT(left, 0u);
  // The queue is whole: it can be emptied, filled to the last place and emptied again.
  while (Take(queue_, kSize) != 0) {
  }
  for (uint32_t i = 1; i <= kSize; ++i) EXPECT_TRUE(Give(queue_, kSize, i));
  EXPECT_FALSE(Give(queue_, kSize, 99));
  for (uint32_t i = 1; i <= kSize; ++i) EXPECT_EQ(Take(queue_, kSize), i);
  std::printf("%llu jumps\n", static_cast<unsigned long long>(left.load()));
}

}  // namespace
}  // namespace perfschema
