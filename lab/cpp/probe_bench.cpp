// probe_bench.cpp: starts pfs, runs the benchmarks, and reports losses.
#include "probe_bench.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "matrix.h"

int main(int argc, char** argv) {
  // --matrix runs the benchmarks of matrix.h instead, --single-threaded a lock in a process that never had a second thread.
  const std::string part = argc > 1 ? argv[1] : "";
  const bool is_matrix = part == "--matrix", is_single = part == "--single-threaded";
  if (is_matrix || is_single) {
    argv[1] = argv[0];
    ++argv, --argc;
  }
  // glibc omits the lock prefix while a process has never had a second thread. Programs with mutexes have had one;
  // and the figures must not depend on the block that happens to run first.
  if (!is_single) std::thread([] {}).join();
  static const bench::TraceFolder trace("probe-bench");
  const std::string options = is_single ? "" : trace.options();  // the trace has a thread of its own
  if (pfs_init(options.c_str()) != PFS_OK || !pfs_is_on()) {
    std::fprintf(stderr, "probe_bench: pfs is off: %s\n", pfs_last_error());
    return 1;
  }
  bench::TraceAllThreads();
  if (is_matrix) {
    bench::RegisterMatrix();
  } else if (is_single) {
    bench::RegisterSingleThreadedBenchmarks();
  } else {
    bench::RegisterMutexBenchmarks();
    bench::RegisterFileBenchmarks();
    bench::RegisterSyncBenchmarks();
    bench::RegisterSocketBenchmarks();
    bench::RegisterTableBenchmarks();
    bench::RegisterNestedBenchmarks();
    bench::RegisterMemoryBenchmarks();
    bench::RegisterChurnBenchmarks();
    bench::RegisterWorkBenchmarks();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("pfs_version", pfs_version());
  benchmark::AddCustomContext("compiler", __VERSION__);
  benchmark::AddCustomContext("cycles_per_ns", std::to_string(bench::CyclesPerNano()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (const uint64_t lost = bench::Losses(); lost != 0) {
    std::fprintf(stderr, "probe_bench: %llu events or objects were lost: the figures mean nothing\n",
                 static_cast<unsigned long long>(lost));
    return 1;
  }
  return 0;
}
