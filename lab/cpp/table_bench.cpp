// table_bench.cpp: rows of a table, locks on it, metadata locks, idle time.
//
// These probes have no system call behind them, so the operations are as short as possible: only the two timer reads
// can hide the cost of the probe.
//   fetch                 a row of 256 bytes is copied
//   table_lock, metadata  an uncontended spin lock
//   idle                  poll(2) of nothing; its timer is NANOSECOND, the cycle counter in another unit
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <perfschema/pfs.hpp>
#include <perfschema/server.hpp>

#include "probe_bench.h"

namespace bench {
namespace {

struct Store {
  char row[256] = {}, copy[256];
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  pfs_table_t* table;
  pfs_metadata_lock_t* metadata;

  Store() {
    static const char* const indexes[] = {"PRIMARY"};
    table = pfs_table_open(PFS_OBJECT_TABLE, "bench", "rows", nullptr, indexes, 1);
    metadata = pfs_metadata_lock_create(nullptr, PFS_OBJECT_TABLE, "bench", "rows", nullptr, PFS_METADATA_SHARED_READ,
                                        PFS_METADATA_EXPLICIT, PFS_METADATA_PENDING);
    if (table == nullptr || metadata == nullptr) std::abort();
  }
  void Copy() {
    std::memcpy(copy, row, sizeof row);
    benchmark::ClobberMemory();
  }
  void Lock() {
    while (lock.test_and_set(std::memory_order_acquire)) continue;
  }
};

Store& TheStore() {
  static Store& store = *new Store;
  return store;
}

// Each operation plainly and recorded, its undo function, and its timer.
struct Fetch {
  static void Plain(Store& s) { s.Copy(); }
  static void Recorded(Store& s) {
    pfs_wait_t wait;
    pfs_table_io_begin(&wait, s.table, PFS_TABLE_FETCH, 0);
    s.Copy();
    pfs_table_io_end(&wait, 1);
  }
  static void Undo(Store&) {}
  static uint64_t Now() { return read_timer(); }
};

struct TableLock {
  static void Plain(Store& s) { s.Lock(); }
  static void Recorded(Store& s) {
    pfs_wait_t wait;
    pfs_table_lock_begin(&wait, s.table, PFS_TABLE_WRITE_LOCK);
    s.Lock();
    pfs_table_lock_end(&wait, 0);
  }
  static void Undo(Store& s) { s.lock.clear(std::memory_order_release); }
  static uint64_t Now() { return read_timer(); }
};

struct Metadata : TableLock {
  static void Recorded(Store& s) {
    pfs_wait_t wait;
    pfs_metadata_wait_begin(&wait, s.metadata);
    s.Lock();
    pfs_metadata_wait_end(&wait, 0);
  }
};

struct Idle {
  static void Plain(Store&) { benchmark::DoNotOptimize(poll(nullptr, 0, 0)); }
  static void Recorded(Store& s) {
    pfs_wait_t wait;
    pfs_idle_begin(&wait);
    Plain(s);
    pfs_idle_end(&wait);
  }
  static void Undo(Store&) {}
  static uint64_t Now() { return read_timer(); }
};

template <typename What>
void Bare(benchmark::State& state) {
  Store& s = TheStore();
  Run(state, kWarmUp, [&s] {
    What::Plain(s);
    What::Undo(s);
  });
}

template <typename What>
void WithTimer(benchmark::State& state) {
  Store& s = TheStore();
  uint64_t sum = 0;
  Run(state, kWarmUp, [&] {
    const uint64_t start = What::Now();
    What::Plain(s);
    sum += What::Now() - start;
    What::Undo(s);
  });
  benchmark::DoNotOptimize(sum);
}

template <typename What>
void Recording(benchmark::State& state, bool counts) {
  Store& s = TheStore();
  RunCounted(state, kWarmUp, counts ? 1 : 0, [&s] {
    What::Recorded(s);
    What::Undo(s);
  });
}

template <typename What, Recorded kWhat>
void AddRecording(const std::string& name, int iterations) {
  benchmark::RegisterBenchmark(name.c_str(), Recording<What>, kWhat != Recorded::kNothing)
      ->Iterations(iterations)
      ->UseRealTime()
      ->Setup(SetUp<kWhat>);
}

template <typename What>
void AddAll(const std::string& family, int iterations) {
  benchmark::RegisterBenchmark((family + "/bare").c_str(), Bare<What>)->Iterations(iterations)->UseRealTime();
  benchmark::RegisterBenchmark((family + "/floor").c_str(), WithTimer<What>)->Iterations(iterations)->UseRealTime();
  AddRecording<What, Recorded::kNothing>(family + "/disabled", iterations);
  AddRecording<What, Recorded::kCounts>(family + "/counted", iterations);
  AddRecording<What, Recorded::kTimes>(family + "/timed", iterations);
  AddRecording<What, Recorded::kAll>(family + "/all", iterations);
}

}  // namespace

void RegisterTableBenchmarks() {
  TheStore();
  AddAll<Fetch>("fetch", kLockIterations);
  AddAll<TableLock>("table_lock", kLockIterations);
  AddAll<Metadata>("metadata", kLockIterations);
  AddAll<Idle>("idle", kReadIterations);
}

}  // namespace bench
