// matrix.h: every family of probes in every mode, in one thread, in two with an object each, in two with the same object.
//
// A family is a row of data (matrix_families.cpp), a mode is a row of data (matrix.cpp), and a benchmark is one of each: family/mode/threads.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

namespace bench {

enum class Threads { kAlone, kOwn, kSame };
inline constexpr const char* kThreadsNames[] = {"1T", "own", "same"};

// What its probe records, and where: which modes it has.
enum class Kind { kWaits, kStages, kStatements, kTransactions, kMemory };

// One block: as many operations as the state asks for.
using Block = std::function<void(benchmark::State&, Threads)>;

struct Family {
  const char* name;
  Kind kind;
  const char* instruments;  // pattern; nobody else uses them
  int iterations;           // about a millisecond
  int events;               // of one operation
  bool has_same;            // whether two threads can do it to the same object
  Block bare, floor, probe;  // floor: two readings of the timer around it. Memory has none.
};

// Each block does iterations / kWarmUpPart operations before its clock starts.
inline constexpr int kWarmUpPart = 5;

// The same rows, compiled twice: as a user compiles them, and with PFS_DISABLE.
std::vector<Family> Families();
std::vector<Family> FamiliesCompiledOut();

// `probe_bench --matrix` has these benchmarks instead of the others.
void RegisterMatrix();

}  // namespace bench
