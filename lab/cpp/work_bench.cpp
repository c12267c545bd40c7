// work_bench.cpp: a lock between other work, as in a program, and in a process that never had a second thread.
//
// A loop of locks alone hides what an event costs: its code and its lines stay in the nearest cache, and on some processors nothing younger
// than a reading of the counter begins before it. So the same lock is taken between
//   depend_N   N multiplications, each of the result of the one before
//   among_N    N KiB of other data, a read of each line in random order, and half as much of other code
#include <array>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "probe_bench.h"

namespace bench {
namespace {

// Never destroyed: it is in use until the process ends.
PageMutex* TheMutex() {
  static PageMutex* const mutex = [] {
    auto* made = new PageMutex;
    if (pfs_mutex_init(KeyOf(pfs_register_mutex, "LOCK_work"), &made->recorded, nullptr) != 0) std::abort();
    return made;
  }();
  return mutex;
}

// ---- Other work --------------------------------------------------------------------------------------------------------------------

class Nothing {
 public:
  void operator()() {}
};

template <int kCount>
class Depend {
 public:
  void operator()() {
    for (int i = 0; i < kCount; ++i) {
      value_ *= 0x9e3779b97f4a7c15;
      benchmark::DoNotOptimize(value_);
    }
  }

 private:
  uint64_t value_ = 1;
};

// A function of 180 bytes, each with constants of its own.
template <size_t kNumber>
[[gnu::noinline]] uint64_t OtherCode(uint64_t value) {
  value = (value ^ (kNumber + 0x100001)) + 0x7f4a7c15, value = (value ^ value >> 7) + (kNumber + 0x200003);
  value = (value ^ (kNumber + 0x300005)) + 0x2f4a7c15, value = (value ^ value >> 9) + (kNumber + 0x400007);
  value = (value ^ (kNumber + 0x500009)) + 0x3f4a7c15, value = (value ^ value >> 5) + (kNumber + 0x60000b);
  value = (value ^ (kNumber + 0x70000d)) + 0x4f4a7c15, value = (value ^ value >> 3) + (kNumber + 0x80000f);
  value = (value ^ (kNumber + 0x900011)) + 0x5f4a7c15, value = (value ^ value >> 4) + (kNumber + 0xa00013);
  value = (value ^ (kNumber + 0xb00015)) + 0x6f4a7c15, value = (value ^ value >> 6) + (kNumber + 0xc00017);
  return value;
}

template <size_t... kNumbers>
constexpr std::array<uint64_t (*)(uint64_t), sizeof...(kNumbers)> CodeOf(std::index_sequence<kNumbers...>) {
  return {OtherCode<kNumbers>...};
}

template <size_t kKiB>
class Among {
 public:
  Among() : lines_(kKiB * 16) {
    std::vector<uint32_t> order(lines_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (size_t i = 0; i < order.size(); ++i) lines_[order[i]].next = order[(i + 1) % order.size()];
  }
  void operator()() {
    for (size_t i = 0; i < lines_.size(); ++i) at_ = lines_[at_].next;
    for (const auto& code : kCode) value_ = code(value_);
    benchmark::DoNotOptimize(at_);
    benchmark::DoNotOptimize(value_);
  }

 private:
  struct alignas(64) Line {
    uint32_t next;
  };
  static constexpr auto kCode = CodeOf(std::make_index_sequence<kKiB * 3>());

  std::vector<Line> lines_;
  uint32_t at_ = 0;
  uint64_t value_ = 1;
};

// ---- A lock after each piece of it ---------------------------------------------------------------------------------------------------

template <typename Work>
void Bare(benchmark::State& state) {
  Run(state, kWarmUp / 100, [m = &TheMutex()->bare, work = Work()]() mutable {
    work();
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
  });
}

template <typename Work>
void BareFloor(benchmark::State& state) {
  pthread_mutex_t* const m = &TheMutex()->bare;
  Run(state, kWarmUp / 100, [work = Work(), floor = Floor([m] { pthread_mutex_lock(m); }, [m] { pthread_mutex_unlock(m); })]() mutable {
    work();
    floor();
  });
}

template <typename Work>
void Recording(benchmark::State& state, bool counts) {
  RunCounted(state, kWarmUp, counts, [m = &TheMutex()->recorded, work = Work()]() mutable {
    work();
    pfs_mutex_lock(m);
    pfs_mutex_unlock(m);
  });
}

template <typename Work>
void AddWork(const std::string& family, int iterations) {
  const auto add = [&](const char* variant, auto run, auto... more) {
    return benchmark::RegisterBenchmark((family + "/" + variant).c_str(), run, more...)->Iterations(iterations)->UseRealTime();
  };
  add("bare", Bare<Work>);
  add("floor", BareFloor<Work>);
  add("disabled", Recording<Work>, false)->Setup(SetUp<Recorded::kNothing>);
  add("counted", Recording<Work>, true)->Setup(SetUp<Recorded::kCounts>);
  add("contended", Recording<Work>, true)->Setup(SetUp<Recorded::kContended>);
  add("timed", Recording<Work>, true)->Setup(SetUp<Recorded::kTimes>);
  add("all", Recording<Work>, true)->Setup(SetUp<Recorded::kAll>);
}

}  // namespace

void RegisterWorkBenchmarks() {
  TheMutex();  // made now: an instrument that is registered after Record() would be on
  AddWork<Depend<100>>("depend_100", 10'000);
  AddWork<Depend<1500>>("depend_1500", 1'000);
  AddWork<Among<16>>("among_16", 1'000);
  AddWork<Among<64>>("among_64", 300);
}

void RegisterSingleThreadedBenchmarks() {
  TheMutex();
  KeyOf(pfs_register_rwlock, "LOCK_none");  // Record() sets rwlocks, too
  AddWork<Nothing>("single", kLockIterations);
}

}  // namespace bench
