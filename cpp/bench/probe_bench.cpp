// probe_bench.cpp: starts pfs, runs the benchmarks, and says whether anything was lost on the way.
#include "probe_bench.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "matrix.h"

int main(int argc, char** argv) {
  // glibc leaves the lock prefix out while a process has never had a second thread. Programs with mutexes have had one; and the figures
  // must not depend on which block happens to run first.
  std::thread([] {}).join();
  // The trace goes to memory, some of it: what a disk costs is not the probe's.
  const std::string folder = "/dev/shm/pfs-probe-bench-" + std::to_string(getpid());
  const std::string trace = "performance_schema_trace_directory=" + folder + ",performance_schema_trace_max_size=10000000,performance_schema_trace_on_limit=rotate";
  if (pfs_init(trace.c_str()) != PFS_OK || !pfs_is_on()) {
    std::fprintf(stderr, "probe_bench: pfs is off: %s\n", pfs_last_error());
    return 1;
  }
  bench::TraceAllThreads();
  // --matrix: those of matrix.h instead.
  if (argc > 1 && std::strcmp(argv[1], "--matrix") == 0) {
    bench::RegisterMatrix();
    argv[1] = argv[0];
    ++argv, --argc;
  } else {
    bench::RegisterMutexBenchmarks();
    bench::RegisterFileBenchmarks();
    bench::RegisterSyncBenchmarks();
    bench::RegisterSocketBenchmarks();
    bench::RegisterTableBenchmarks();
    bench::RegisterNestedBenchmarks();
    bench::RegisterMemoryBenchmarks();
    bench::RegisterChurnBenchmarks();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("pfs_version", pfs_version());
  benchmark::AddCustomContext("compiler", __VERSION__);
  benchmark::AddCustomContext("cycles_per_ns", std::to_string(bench::CyclesPerNano()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  std::filesystem::remove_all(folder);
  if (const uint64_t lost = bench::Losses(); lost != 0) {
    std::fprintf(stderr, "probe_bench: %llu events or objects were lost: the figures mean nothing\n",
                 static_cast<unsigned long long>(lost));
    return 1;
  }
  return 0;
}
