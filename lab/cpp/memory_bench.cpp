// memory_bench.cpp: a block that is allocated and freed: malloc and free, plain and counted. No timer is involved, so
// there is no floor.
#include <cstdlib>

#include "probe_bench.h"

namespace bench {
namespace {

pfs_key_t Key() {
  static const pfs_key_t key = [] {
    pfs_key_t made = 0;
    pfs_memory_info_t info{&made, "block", PFS_CONTROLLED, nullptr};
    if (pfs_register_memory("bench", &info, 1) != 0 || made == 0) std::abort();
    return made;
  }();
  return key;
}

void Bare(benchmark::State& state, size_t size) {
  Run(state, kWarmUp, [size] {
    void* block = std::malloc(size);
    benchmark::DoNotOptimize(block);
    std::free(block);
  });
}

void Counted(benchmark::State& state, size_t size, pfs_key_t key) {
  Run(state, kWarmUp, [size, key] {
    void* block = pfs_malloc(key, size);
    benchmark::DoNotOptimize(block);
    pfs_free(block);
  });
}

}  // namespace

void RegisterMemoryBenchmarks() {
  for (const size_t size : {size_t{64}, size_t{4096}}) {
    const std::string family = "memory_" + std::to_string(size);
    benchmark::RegisterBenchmark((family + "/bare").c_str(), Bare, size)->Iterations(kLockIterations)->UseRealTime();
    benchmark::RegisterBenchmark((family + "/key_0").c_str(), Counted, size, pfs_key_t{0})->Iterations(kLockIterations)->UseRealTime();
    benchmark::RegisterBenchmark((family + "/counted").c_str(), Counted, size, Key())->Iterations(kLockIterations)->UseRealTime();
    benchmark::RegisterBenchmark((family + "/counted/2T").c_str(), Counted, size, Key())
        ->Iterations(kLockIterations)
        ->UseRealTime()
        ->Threads(2);
  }
}

}  // namespace bench
