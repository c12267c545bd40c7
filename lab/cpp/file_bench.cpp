// file_bench.cpp: pread of 120 bytes from the page cache; each thread has a file of its own, unless the name says "same".
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probe_bench.h"

namespace bench {
namespace {

struct File {
  int bare;
  int recorded;
};

File MakeFile(int thread) {
  static pfs_key_t key;
  pfs_file_info_t info[] = {{&key, "data", 0, "A file of the benchmark."}};
  pfs_register_file("bench", info, 1);
  const char* folder = std::getenv("TMPDIR");
  const std::string path =
      std::string(folder != nullptr ? folder : "/tmp") + "/probe_bench." + std::to_string(getpid()) + "." + std::to_string(thread);
  const int writer = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const char text[4096] = "The quick brown fox.";
  if (writer < 0 || write(writer, text, sizeof text) != sizeof text) std::abort();
  close(writer);
  const File file{open(path.c_str(), O_RDONLY), pfs_open(key, path.c_str(), O_RDONLY)};
  unlink(path.c_str());
  if (file.bare < 0 || file.recorded < 0) std::abort();
  return file;
}

const File& OfThread(int thread) {
  static const File files[2] = {MakeFile(0), MakeFile(1)};
  return files[thread];
}

const File& Shared() {
  static const File file = MakeFile(2);
  return file;
}

void SameBare(benchmark::State& state) {
  const int fd = Shared().bare;
  char buffer[120];
  Run(state, 300, [&] { benchmark::DoNotOptimize(pread(fd, buffer, sizeof buffer, 0)); });
}

void SameRecording(benchmark::State& state) {
  const int fd = Shared().recorded;
  char buffer[120];
  const auto read = [&] { benchmark::DoNotOptimize(pfs_pread(fd, buffer, sizeof buffer, 0)); };
  if (state.threads() == 1) {
    RunCounted(state, kWarmUp, 1, read);
  } else {
    RunTwoCounted(state, kWarmUp, 1, read);
  }
}

void Bare(benchmark::State& state) {
  const int fd = OfThread(state.thread_index()).bare;
  char buffer[120];
  Run(state, 300, [&] { benchmark::DoNotOptimize(pread(fd, buffer, sizeof buffer, 0)); });
}

void Floor2(benchmark::State& state) {
  const int fd = OfThread(state.thread_index()).bare;
  char buffer[120];
  uint64_t sum = 0;
  Run(state, 300, [&] {
    const uint64_t start = read_timer();
    benchmark::DoNotOptimize(pread(fd, buffer, sizeof buffer, 0));
    sum += read_timer() - start;
  });
  benchmark::DoNotOptimize(sum);
}

void Recording(benchmark::State& state, bool counts) {
  const int fd = OfThread(state.thread_index()).recorded;
  char buffer[120];
  const auto read = [&] { benchmark::DoNotOptimize(pfs_pread(fd, buffer, sizeof buffer, 0)); };
  if (state.threads() == 1) {
    RunCounted(state, kWarmUp, counts, read);
  } else {
    Run(state, kWarmUp, read);
  }
}

benchmark::internal::Benchmark* Add(const char* name, void (*run)(benchmark::State&)) {
  return benchmark::RegisterBenchmark(name, run)->Iterations(kReadIterations)->UseRealTime();
}

template <Recorded kWhat>
benchmark::internal::Benchmark* AddRecording(const char* name) {
  return benchmark::RegisterBenchmark(name, Recording, kWhat != Recorded::kNothing)
      ->Iterations(kReadIterations)
      ->UseRealTime()
      ->Setup(SetUp<kWhat>);
}

}  // namespace

void RegisterFileBenchmarks() {
  OfThread(0), Shared();
  Add("pread/bare/1T", Bare);
  Add("pread/floor/1T", Floor2);
  AddRecording<Recorded::kNothing>("pread/disabled/1T");
  AddRecording<Recorded::kCounts>("pread/counted/1T");
  AddRecording<Recorded::kAll>("pread/all/1T");
  Add("pread/bare/2T", Bare)->Threads(2);
  AddRecording<Recorded::kAll>("pread/all/2T")->Threads(2);
  for (const int threads : {1, 2}) {
    const std::string suffix = "/" + std::to_string(threads) + "T";
    Add(("pread_same/bare" + suffix).c_str(), SameBare)->Threads(threads);
    Add(("pread_same/all" + suffix).c_str(), SameRecording)->Threads(threads)->Setup(SetUp<Recorded::kAll>);
  }
}

}  // namespace bench
