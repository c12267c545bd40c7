// lines_bench.cpp: the cost of a cache line that two cores share, and of the lines that pfs shares. lab/pages/scaling.md
// has its figures.
//
// It prints one line for each case: name, nanoseconds (fastest of 30 blocks; of two threads: for each operation of
// one of them), median.
#include <perfschema/pfs.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "timer.h"

namespace {

constexpr int kBlocks = 30;

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

using Clock = std::chrono::steady_clock;

// Runs body(thread) in `threads` threads at once, on cpu 1 and 0. Returns the nanoseconds from the first begin to the
// last end, divided by `operations`, which each thread performs.
double Take(int threads, int operations, const std::function<void(int)>& body) {
  std::atomic<int> arrived{0};
  Clock::time_point begin[2], end[2];
  const auto one = [&](int thread) {
    Pin(1 - thread);
    arrived.fetch_add(1);
    while (arrived.load() < threads) relax_processor();
    begin[thread] = Clock::now();
    body(thread);
    end[thread] = Clock::now();
  };
  std::thread other;
  if (threads == 2) other = std::thread(one, 1);
  one(0);
  if (other.joinable()) {
    other.join();
    begin[0] = std::min(begin[0], begin[1]);
    end[0] = std::max(end[0], end[1]);
  }
  return std::chrono::duration<double, std::nano>(end[0] - begin[0]).count() / operations;
}

void Report(const char* name, int threads, int operations, const std::function<void(int)>& body) {
  std::vector<double> taken;
  for (int i = 0; i < kBlocks; ++i) taken.push_back(Take(threads, operations, body));
  std::sort(taken.begin(), taken.end());
  std::printf("%-62s%9.1f%9.1f\n", name, taken.front(), taken[kBlocks / 2]);
}

struct alignas(4096) Line {
  std::atomic<uint64_t> word{0};
};
Line g_lines[3];
// Consecutive cache lines: two that are fetched as a pair, and the first of the next pair.
struct alignas(64) Neighbour {
  std::atomic<uint64_t> word{0};
};
alignas(4096) Neighbour g_row[4];

void PingPong(int operations) {
  Report("a line goes to the other core (half of there and back)", 2, 2 * operations, [operations](int thread) {
    std::atomic<uint64_t>& word = g_lines[0].word;
    for (int i = 0; i < operations; ++i) {
      while (word.load(std::memory_order_acquire) % 2 != static_cast<uint64_t>(thread)) relax_processor();
      word.store(static_cast<uint64_t>(1 - thread), std::memory_order_release);
    }
  });
}

void Shared(const char* what, int operations, void (*change)(std::atomic<uint64_t>&)) {
  const std::string name = what;
  const auto on = [operations, change](bool same) {
    return [operations, change, same](int thread) {
      std::atomic<uint64_t>& word = g_lines[same ? 0 : 1 + thread].word;
      for (int i = 0; i < operations; ++i) change(word);
    };
  };
  Report((name + ", one thread").c_str(), 1, operations, on(true));
  Report((name + ", two threads, a line each").c_str(), 2, operations, on(false));
  Report((name + ", two threads, one line").c_str(), 2, operations, on(true));
}

// Each thread changes its own line; the lines are neighbours.
void Neighbours(int operations) {
  const auto apart = [operations](int lines) {
    return [operations, lines](int thread) {
      std::atomic<uint64_t>& word = g_row[thread * lines].word;
      for (int i = 0; i < operations; ++i) word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    };
  };
  Report("load, add, store, two threads, lines 64 bytes apart", 2, operations, apart(1));
  Report("load, add, store, two threads, lines 128 bytes apart", 2, operations, apart(2));
}

// One thread changes its line all the time; the other one reads that line before it changes its own.
void Looked(int operations) {
  Report("load, add, store; the other thread looks at the line first", 2, operations, [operations](int thread) {
    std::atomic<uint64_t>& own = g_lines[1 + thread].word;
    for (int i = 0; i < operations; ++i) {
      uint64_t more = 1;
      if (thread == 1) more += g_lines[1].word.load(std::memory_order_acquire) >> 63;
      own.store(own.load(std::memory_order_relaxed) + more, std::memory_order_release);
    }
  });
}

// Creation and destruction take the cold lock.
void ColdLock(int operations) {
  static pfs_key_t key = 0;
  pfs_mutex_info_t info[] = {{&key, "LOCK_born", 0, "Is made and destroyed."}};
  pfs_register_mutex("bench", info, 1);
  const auto births = [operations](int) {
    for (int i = 0; i < operations; ++i) {
      pfs_mutex_t mutex;
      pfs_mutex_init(key, &mutex, nullptr);
      pfs_mutex_destroy(&mutex);
    }
  };
  Report("a mutex is made and destroyed (cold lock), one thread", 1, operations, births);
  Report("a mutex is made and destroyed (cold lock), two threads", 2, operations, births);
}

// A thread starts, records one event, and ends.
void Threads(int operations) {
  static pfs_key_t key = 0;
  static pfs_mutex_t mutex;
  pfs_mutex_info_t info[] = {{&key, "LOCK_of_thread", 0, "Is locked once in each thread."}};
  pfs_register_mutex("bench", info, 1);
  pfs_mutex_init(key, &mutex, nullptr);
  const auto births = [operations](bool recorded) {
    return [operations, recorded](int) {
      for (int i = 0; i < operations; ++i) {
        std::thread([recorded] {
          if (recorded) {
            pfs_mutex_lock(&mutex);
            pfs_mutex_unlock(&mutex);
          } else {
            pthread_mutex_lock(&mutex.mutex);
            pthread_mutex_unlock(&mutex.mutex);
          }
        }).join();
      }
    };
  };
  Report("a thread begins, locks once, ends: plain", 1, operations, births(false));
  Report("a thread begins, locks once, ends: recorded", 1, operations, births(true));
}

}  // namespace

int main() {
  if (pfs_init(nullptr) != PFS_OK || !pfs_is_on()) {
    std::fprintf(stderr, "lines_bench: pfs is off: %s\n", pfs_last_error());
    return 1;
  }
  std::printf("%-62s%9s%9s\n", "", "fastest", "median");
  PingPong(20'000);
  Shared("fetch_add", 100'000, [](std::atomic<uint64_t>& word) { word.fetch_add(1, std::memory_order_relaxed); });
  Shared("load, compare_exchange until it succeeds", 100'000, [](std::atomic<uint64_t>& word) {
    uint64_t seen = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) continue;
  });
  Shared("load, add, store", 100'000,
         [](std::atomic<uint64_t>& word) { word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release); });
  Neighbours(100'000);
  Looked(100'000);
  ColdLock(2'000);
  Threads(200);
  return 0;
}
