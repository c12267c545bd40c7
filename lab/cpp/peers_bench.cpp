// peers_bench.cpp: a lock recorded by pfs, and by LTTng-UST, in one process. lab/peers.py drives it. The
// program reads the name of a case from its standard input, measures a block of it, and prints nanoseconds per
// operation. "trace lost" prints the number of events that pfs's trace has lost so far. LTTng's session starts and
// stops meanwhile: no other setting changes.
#include <perfschema/pfs.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "bench_setup.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_events.h"
#include "timer.h"

namespace {

constexpr int kOperations = 50'000, kWarmUp = 15'000;

// The object is in the middle of a page of its own: see mutex_bench.cpp.
struct alignas(4096) Mutex {
  char before[1024];
  alignas(64) pthread_mutex_t bare = PTHREAD_MUTEX_INITIALIZER;
  alignas(64) pfs_mutex_t recorded;
};
Mutex g_mutex;

template <typename Operation>
double Block(Operation operation) {
  for (int i = 0; i < kWarmUp; ++i) operation();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kOperations; ++i) operation();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kOperations;
}

double Recorded(bench::Recorded what) {
  bench::Record(what);
  const uint64_t before = bench::CountedEvents();
  const double taken = Block([] {
    pfs_mutex_lock(&g_mutex.recorded);
    pfs_mutex_unlock(&g_mutex.recorded);
  });
  const uint64_t counted = bench::CountedEvents() - before;
  const uint64_t expected = what == bench::Recorded::kNothing ? 0 : kOperations + kWarmUp;
  if (counted != expected) {
    std::fprintf(stderr, "peers_bench: counted %llu events, not %llu\n", static_cast<unsigned long long>(counted),
                 static_cast<unsigned long long>(expected));
    std::exit(1);
  }
  return taken;
}

double Measure(const std::string& name) {
  pthread_mutex_t* const m = &g_mutex.bare;
  if (name == "bare") {
    return Block([m] {
      pthread_mutex_lock(m);
      pthread_mutex_unlock(m);
    });
  }
  if (name == "floor") {
    uint64_t sum = 0;
    const double taken = Block([m, &sum] {
      const uint64_t start = read_timer();
      pthread_mutex_lock(m);
      sum += read_timer() - start;
      pthread_mutex_unlock(m);
    });
    asm volatile("" : : "r"(sum));
    return taken;
  }
  if (name == "lttng one") {
    return Block([m] {
      const int rc = pthread_mutex_lock(m);
      lttng_ust_tracepoint(pfs_bench, lock_end, m, rc);
      pthread_mutex_unlock(m);
    });
  }
  if (name == "lttng two") {
    return Block([m] {
      lttng_ust_tracepoint(pfs_bench, lock_begin, m, __LINE__);
      const int rc = pthread_mutex_lock(m);
      lttng_ust_tracepoint(pfs_bench, lock_end, m, rc);
      pthread_mutex_unlock(m);
    });
  }
  if (name == "trace lost")
    return static_cast<double>(bench::Sum("global_status", "VARIABLE_NAME", "VARIABLE_VALUE", "Performance_schema_trace_events_lost"));
  if (name == "disabled") return Recorded(bench::Recorded::kNothing);
  if (name == "counted") return Recorded(bench::Recorded::kCounts);
  if (name == "timed") return Recorded(bench::Recorded::kTimes);
  if (name == "all") return Recorded(bench::Recorded::kAll);
  if (name == "traced") return Recorded(bench::Recorded::kTraced);
  std::fprintf(stderr, "peers_bench: no case is called %s\n", name.c_str());
  std::exit(1);
}

}  // namespace

int main() {
  // LTTng already has threads in this process, so glibc uses the lock prefix.
  static const bench::TraceFolder trace("peers-bench");
  if (pfs_init(trace.options().c_str()) != PFS_OK || !pfs_is_on()) {
    std::fprintf(stderr, "peers_bench: pfs is off: %s\n", pfs_last_error());
    return 1;
  }
  bench::TraceAllThreads();
  pfs_key_t key = 0;
  pfs_mutex_info_t info[] = {{&key, "LOCK_peer", 0, "A mutex of the benchmark."}};
  if (pfs_register_mutex("bench", info, 1) != PFS_OK || pfs_mutex_init(key, &g_mutex.recorded, nullptr) != 0) return 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(1, &set);
  sched_setaffinity(0, sizeof set, &set);
  for (std::string name; std::getline(std::cin, name);) std::printf("%.3f\n", Measure(name)), std::fflush(stdout);
  return 0;
}
