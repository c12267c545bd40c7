// mutex_bench.cpp: lock and unlock without contention, unless the name says "same".
#include <cstdlib>
#include <mutex>
#include <perfschema/pfs.hpp>
#include <random>
#include <vector>

#include "probe_bench.h"

namespace bench {
namespace {

// Never destroyed: they are in use until the process ends.
PageMutex* MakeMutexes(int count, const char* name) {
  auto* mutexes = new PageMutex[static_cast<size_t>(count)];
  const pfs_key_t key = KeyOf(pfs_register_mutex, name);
  for (int i = 0; i < count; ++i) {
    if (pfs_mutex_init(key, &mutexes[i].recorded, nullptr) != 0 || mutexes[i].recorded.instance == nullptr) std::abort();
  }
  return mutexes;
}

PageMutex* Alone() {
  static PageMutex* const mutex = MakeMutexes(1, "LOCK_alone");
  return mutex;
}
PageMutex* OfThread(int thread) {
  static PageMutex* const mutexes = MakeMutexes(2, "LOCK_own");
  return &mutexes[thread];
}
PageMutex* Shared() {
  static PageMutex* const mutex = MakeMutexes(1, "LOCK_same");
  return mutex;
}

// ---- One mutex, one thread ---------------------------------------------------------------------------------------------------------

void Bare(benchmark::State& state) {
  pthread_mutex_t* m = &Alone()->bare;
  Run(state, kWarmUp, [m] {
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
  });
}

void BareFloor(benchmark::State& state) {
  pthread_mutex_t* m = &Alone()->bare;
  Run(state, kWarmUp, Floor([m] { pthread_mutex_lock(m); }, [m] { pthread_mutex_unlock(m); }));
}

void Recording(benchmark::State& state, bool counts) {
  pfs_mutex_t* m = &Alone()->recorded;
  RunCounted(state, kWarmUp, counts, [m] {
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  });
}

void TryBare(benchmark::State& state) {
  pthread_mutex_t* m = &Alone()->bare;
  Run(state, kWarmUp, [m] {
    if (pthread_mutex_trylock(m) == 0) pthread_mutex_unlock(m);
  });
}

void TryFloor(benchmark::State& state) {
  pthread_mutex_t* m = &Alone()->bare;
  Run(state, kWarmUp, Floor([m] { benchmark::DoNotOptimize(pthread_mutex_trylock(m)); }, [m] { pthread_mutex_unlock(m); }));
}

void TryRecording(benchmark::State& state, bool counts) {
  pfs_mutex_t* m = &Alone()->recorded;
  RunCounted(state, kWarmUp, counts, [m] {
    if (pfs_mutex_trylock(m) == 0) pfs_mutex_unlock(m);
  });
}

// ---- Two mutexes, one after the other: what two events could share
// -----------------------------------------------------------------------

void PairBare(benchmark::State& state) {
  pthread_mutex_t *a = &OfThread(0)->bare, *b = &OfThread(1)->bare;
  Run(state, kWarmUp, [a, b] {
    pthread_mutex_lock(a);
    pthread_mutex_lock(b);
    pthread_mutex_unlock(b);
    pthread_mutex_unlock(a);
  });
}

// `kReads` 4: two readings around each lock. 3: the end of the first is the begin of the second. 2: the minimum, one
// pair around both.
template <int kReads>
void PairFloor(benchmark::State& state) {
  pthread_mutex_t *a = &OfThread(0)->bare, *b = &OfThread(1)->bare;
  uint64_t sums[2] = {0, 0};
  Run(state, kWarmUp, [a, b, &sums] {
    const uint64_t begin = read_timer();
    pthread_mutex_lock(a);
    const uint64_t end = kReads > 2 ? read_timer() : begin;
    const uint64_t next = kReads == 4 ? read_timer() : end;
    pthread_mutex_lock(b);
    sums[1] += read_timer() - next;
    sums[0] += end - begin;
    pthread_mutex_unlock(b);
    pthread_mutex_unlock(a);
  });
  benchmark::DoNotOptimize(sums);
}

void PairRecording(benchmark::State& state) {
  pfs_mutex_t *a = &OfThread(0)->recorded, *b = &OfThread(1)->recorded;
  RunCounted(state, kWarmUp, 2, [a, b] {
    pfs_mutex_lock(a);
    pfs_mutex_lock(b);
    pfs_mutex_unlock(b);
    pfs_mutex_unlock(a);
  });
}

void CppBare(benchmark::State& state) {
  static std::mutex mutex;
  Run(state, kWarmUp, [] { const std::lock_guard<std::mutex> guard(mutex); });
}

perfschema::mutex* CppMutex() {
  static perfschema::mutex mutex{"bench/LOCK_cpp"};
  return &mutex;
}

void CppRecording(benchmark::State& state, bool counts) {
  perfschema::mutex* m = CppMutex();
  RunCounted(state, kWarmUp, counts, [m] { const std::lock_guard<perfschema::mutex> guard(*m); });
}

// ---- Two threads -------------------------------------------------------------------------------------------------------------------

void OwnFloor(benchmark::State& state) {
  pthread_mutex_t* m = &OfThread(state.thread_index())->bare;
  Run(state, kWarmUp, Floor([m] { pthread_mutex_lock(m); }, [m] { pthread_mutex_unlock(m); }));
}

void OwnRecording(benchmark::State& state) {
  pfs_mutex_t* m = &OfThread(state.thread_index())->recorded;
  Run(state, kWarmUp, [m] {
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  });
}

void SameBare(benchmark::State& state) {
  pthread_mutex_t* m = &Shared()->bare;
  Run(state, 0, [m] {
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
  });
}

void SameFloor(benchmark::State& state) {
  pthread_mutex_t* m = &Shared()->bare;
  Run(state, 0, Floor([m] { pthread_mutex_lock(m); }, [m] { pthread_mutex_unlock(m); }));
}

void SameRecording(benchmark::State& state) {
  pfs_mutex_t* m = &Shared()->recorded;
  RunTwoCounted(state, 0, 1, [m] {
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  });
}

// ---- 16,384 mutexes in random order ---------------------------------------------------------------------------------------------------
// Adjacent, as in a user's array of objects: 56 bytes each recorded, 40 bare. The order is 65,536 draws.

constexpr size_t kScattered = 16'384;

const uint16_t* Order() {
  static const std::vector<uint16_t>* const order = [] {
    auto* draws = new std::vector<uint16_t>(65'536);
    std::mt19937 random(1);
    for (uint16_t& draw : *draws) draw = static_cast<uint16_t>(random() % kScattered);
    return draws;
  }();
  return order->data();
}

pthread_mutex_t* ScatteredBareMutexes() {
  static pthread_mutex_t* const mutexes = [] {
    auto* all = new pthread_mutex_t[kScattered];
    for (size_t i = 0; i < kScattered; ++i) pthread_mutex_init(&all[i], nullptr);
    return all;
  }();
  return mutexes;
}

pfs_mutex_t* ScatteredMutexes() {
  static pfs_mutex_t* const mutexes = [] {
    auto* all = new pfs_mutex_t[kScattered];
    const pfs_key_t key = KeyOf(pfs_register_mutex, "LOCK_scattered");
    for (size_t i = 0; i < kScattered; ++i) pfs_mutex_init(key, &all[i], nullptr);
    return all;
  }();
  return mutexes;
}

void ScatteredBare(benchmark::State& state) {
  pthread_mutex_t* const mutexes = ScatteredBareMutexes();
  const uint16_t* const order = Order();
  uint16_t i = 0;
  Run(state, 65'536, [mutexes, order, i]() mutable {
    pthread_mutex_t* m = &mutexes[order[i++]];
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
  });
}

void ScatteredFloor(benchmark::State& state) {
  pthread_mutex_t* const mutexes = ScatteredBareMutexes();
  const uint16_t* const order = Order();
  uint16_t i = 0;
  uint64_t sum = 0;
  Run(state, 65'536, [mutexes, order, i, &sum]() mutable {
    pthread_mutex_t* m = &mutexes[order[i++]];
    const uint64_t start = read_timer();
    pthread_mutex_lock(m);
    sum += read_timer() - start;
    pthread_mutex_unlock(m);
  });
  benchmark::DoNotOptimize(sum);
}

void ScatteredRecording(benchmark::State& state) {
  pfs_mutex_t* const mutexes = ScatteredMutexes();
  const uint16_t* const order = Order();
  uint16_t i = 0;
  RunCounted(state, 65'536, true, [mutexes, order, i]() mutable {
    pfs_mutex_t* m = &mutexes[order[i++]];
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  });
}

benchmark::internal::Benchmark* Add(const char* name, void (*run)(benchmark::State&)) {
  return benchmark::RegisterBenchmark(name, run)->Iterations(kLockIterations)->UseRealTime();
}

template <Recorded kWhat>
void AddRecording(const char* name, void (*run)(benchmark::State&, bool)) {
  benchmark::RegisterBenchmark(name, run, kWhat != Recorded::kNothing)->Iterations(kLockIterations)->UseRealTime()->Setup(SetUp<kWhat>);
}

}  // namespace

void RegisterMutexBenchmarks() {
  // Made now: an instrument that is registered after Record() would be on.
  Alone(), OfThread(0), Shared(), CppMutex(), ScatteredMutexes();
  Add("lock/bare", Bare);
  Add("lock/floor", BareFloor);
  AddRecording<Recorded::kNothing>("lock/disabled", Recording);
  AddRecording<Recorded::kCounts>("lock/counted", Recording);
  AddRecording<Recorded::kContended>("lock/contended", Recording);
  AddRecording<Recorded::kTimes>("lock/timed", Recording);
  AddRecording<Recorded::kCurrent>("lock/current", Recording);
  AddRecording<Recorded::kHistory>("lock/history", Recording);
  AddRecording<Recorded::kAll>("lock/all", Recording);
  AddRecording<Recorded::kTraced>("lock/traced", Recording);
  Add("pair/bare", PairBare);
  Add("pair/floor", PairFloor<4>);
  Add("pair/chained", PairFloor<3>);
  Add("pair/around", PairFloor<2>);
  Add("pair/all", PairRecording)->Setup(SetUp<Recorded::kAll>);
  Add("trylock/bare", TryBare);
  Add("trylock/floor", TryFloor);
  AddRecording<Recorded::kNothing>("trylock/disabled", TryRecording);
  AddRecording<Recorded::kAll>("trylock/all", TryRecording);
  Add("lock_guard/bare", CppBare);
  AddRecording<Recorded::kNothing>("lock_guard/disabled", CppRecording);
  AddRecording<Recorded::kAll>("lock_guard/all", CppRecording);
  Add("own/floor/1T", OwnFloor);
  Add("own/floor/2T", OwnFloor)->Threads(2);
  Add("own/all/1T", OwnRecording)->Setup(SetUp<Recorded::kAll>);
  Add("own/all/2T", OwnRecording)->Threads(2)->Setup(SetUp<Recorded::kAll>);
  Add("same/bare/2T", SameBare)->Threads(2);
  Add("same/floor/2T", SameFloor)->Threads(2);
  Add("same/all/2T", SameRecording)->Threads(2)->Setup(SetUp<Recorded::kAll>);
  Add("scattered/bare", ScatteredBare);
  Add("scattered/floor", ScatteredFloor);
  Add("scattered/all", ScatteredRecording)->Setup(SetUp<Recorded::kAll>);
}

}  // namespace bench
