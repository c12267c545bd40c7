// probe_bench.h: shared parts of the families of benchmarks.
//
// A benchmark is one short block: fixed iterations, about a millisecond. Google Benchmark repeats all blocks in
// random order (--benchmark_enable_random_interleaving), and ratios.py takes the fastest of each: on a shared machine
// that is the undisturbed block. Names are family/variant, "2T" = two threads.
#pragma once

#include <benchmark/benchmark.h>
#include <perfschema/pfs.h>
#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "bench_setup.h"
#include "timer.h"

namespace bench {

// Settings of all blocks.
inline constexpr int kLockIterations = 50'000;
inline constexpr int kReadIterations = 5'000;
// Events before the clock starts. They exceed events_waits_history_long, so that the pool no longer grows and all
// cache lines have their final place.
inline constexpr int kWarmUp = 15'000;

// Two threads run on cpu 0 and 1, a single thread on cpu 1 (cpu 0 takes more interrupts).
inline void Pin(const benchmark::State& state) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(1 - state.thread_index(), &set);
  sched_setaffinity(0, sizeof set, &set);
}

template <Recorded kWhat>
void SetUp(const benchmark::State&) {
  Record(kWhat);
}

// Each mutex is on a page of its own: no neighbour lines, and not with the other thread's mutex. It is in the middle
// of the page because of 4 KiB aliasing: on this processor family stores and loads with equal low 12 bits of address
// wait for each other. The first lines of the segment's pages hold the statistics of these mutexes. A mutex that
// shares its low bits with its own statistics costs 0.8 to 1.5 ns more.
struct alignas(4096) PageMutex {
  char before[1024];
  alignas(64) pthread_mutex_t bare = PTHREAD_MUTEX_INITIALIZER;
  alignas(64) pfs_mutex_t recorded;
};

// Runs a block: repeats `operation()`.
template <typename Operation>
void Run(benchmark::State& state, int warm_up, Operation operation) {
  Pin(state);
  for (int i = 0; i < warm_up; ++i) operation();
  for (auto _ : state) operation();
}

inline void Expect(benchmark::State& state, uint64_t counted, int events) {
  const uint64_t expected = static_cast<uint64_t>(events) * static_cast<uint64_t>(state.iterations());
  if (counted != expected) state.SkipWithError(("counted " + std::to_string(counted) + " events, not " + std::to_string(expected)).c_str());
}

// Does the same in one thread, and checks that every operation made `events` events.
template <typename Operation>
void RunCounted(benchmark::State& state, int warm_up, int events, Operation operation) {
  Pin(state);
  for (int i = 0; i < warm_up; ++i) operation();
  const uint64_t before = CountedEvents();
  for (auto _ : state) operation();
  Expect(state, CountedEvents() - before, events);
}

// A barrier for two threads.
struct Meeting {
  pthread_barrier_t barrier;
  Meeting() { pthread_barrier_init(&barrier, nullptr, 2); }
  void Wait() { pthread_barrier_wait(&barrier); }
};

// Runs two threads, whose events are counted together, and checks that none is lost.
template <typename Operation>
void RunTwoCounted(benchmark::State& state, int warm_up, int events, Operation operation) {
  static Meeting both;
  Pin(state);
  for (int i = 0; i < warm_up; ++i) operation();
  both.Wait();
  const uint64_t before = CountedEvents();
  both.Wait();
  for (auto _ : state) operation();  // neither leaves before the other has ended
  if (state.thread_index() == 0) Expect(state, CountedEvents() - before, 2 * events);
}

// Returns the key of a new instrument bench/NAME.
inline pfs_key_t KeyOf(int (*register_one)(const char*, pfs_instrument_info*, int), const char* name) {
  pfs_key_t key = 0;
  pfs_instrument_info info{&key, name, 0, "Of the benchmark."};
  register_one("bench", &info, 1);
  if (key == 0) std::abort();
  return key;
}

// Two timer reads around a lock that is then released: the minimum cost of a timed wait. The sum keeps the result
// alive.
template <typename Lock, typename Unlock>
struct Floor {
  Lock lock;
  Unlock unlock;
  uint64_t sum = 0;

  Floor(Lock l, Unlock u) : lock(l), unlock(u) {}
  Floor(const Floor&) = default;
  ~Floor() { benchmark::DoNotOptimize(sum); }
  void operator()() {
    const uint64_t start = read_timer();
    lock();
    sum += read_timer() - start;
    unlock();
  }
};

void RegisterMutexBenchmarks();
void RegisterFileBenchmarks();
void RegisterSyncBenchmarks();
void RegisterSocketBenchmarks();
void RegisterTableBenchmarks();
void RegisterNestedBenchmarks();
void RegisterMemoryBenchmarks();
void RegisterChurnBenchmarks();
void RegisterWorkBenchmarks();
void RegisterSingleThreadedBenchmarks();

}  // namespace bench
