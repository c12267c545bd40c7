// socket_bench.cpp: send and recv of 64 bytes over a pair of sockets, in one thread. An operation is both calls, two events.
#include <cstdlib>

#include "probe_bench.h"

namespace bench {
namespace {

constexpr size_t kBytes = 64;
constexpr int kIterations = 1'250;  // about two milliseconds, as the blocks of pread

struct Pair {
  int bare[2];
  int recorded[2];
};

const Pair& ThePair() {
  static const Pair pair = [] {
    static pfs_key_t key;
    pfs_socket_info_t info[] = {{&key, "pair", 0, "A pair of sockets of the benchmark."}};
    pfs_register_socket("bench", info, 1);
    Pair made;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, made.bare) != 0 || pfs_socketpair(key, AF_UNIX, SOCK_STREAM, 0, made.recorded) != 0)
      std::abort();
    return made;
  }();
  return pair;
}

void Bare(benchmark::State& state) {
  const int* const fds = ThePair().bare;
  char buffer[kBytes] = {};
  Run(state, 300, [&] {
    benchmark::DoNotOptimize(send(fds[0], buffer, sizeof buffer, 0));
    benchmark::DoNotOptimize(recv(fds[1], buffer, sizeof buffer, 0));
  });
}

void FloorOfTwo(benchmark::State& state) {
  const int* const fds = ThePair().bare;
  char buffer[kBytes] = {};
  uint64_t sum = 0;
  Run(state, 300, [&] {
    const uint64_t start = read_timer();
    benchmark::DoNotOptimize(send(fds[0], buffer, sizeof buffer, 0));
    const uint64_t middle = read_timer();
    sum += middle - start;
    const uint64_t second_start = read_timer();
    benchmark::DoNotOptimize(recv(fds[1], buffer, sizeof buffer, 0));
    sum += read_timer() - second_start;
  });
  benchmark::DoNotOptimize(sum);
}

void Recording(benchmark::State& state, int events) {
  const int* const fds = ThePair().recorded;
  char buffer[kBytes] = {};
  RunCounted(state, kWarmUp, events, [&] {
    benchmark::DoNotOptimize(pfs_send(fds[0], buffer, sizeof buffer, 0));
    benchmark::DoNotOptimize(pfs_recv(fds[1], buffer, sizeof buffer, 0));
  });
}

benchmark::internal::Benchmark* Add(const char* name, void (*run)(benchmark::State&)) {
  return benchmark::RegisterBenchmark(name, run)->Iterations(kIterations)->UseRealTime();
}

template <Recorded kWhat>
void AddRecording(const char* name) {
  benchmark::RegisterBenchmark(name, Recording, kWhat != Recorded::kNothing ? 2 : 0)
      ->Iterations(kIterations)
      ->UseRealTime()
      ->Setup(SetUp<kWhat>);
}

}  // namespace

void RegisterSocketBenchmarks() {
  ThePair();
  Add("socket/bare", Bare);
  Add("socket/floor", FloorOfTwo);
  AddRecording<Recorded::kNothing>("socket/disabled");
  AddRecording<Recorded::kCounts>("socket/counted");
  AddRecording<Recorded::kAll>("socket/all");
}

}  // namespace bench
