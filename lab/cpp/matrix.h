// matrix.h: every family of probes in every mode: in one thread, in two with an object each, in two with the same
// object.
//
// A family is a row of data (matrix_families.cpp), a mode is a row of data (matrix.cpp), and a benchmark combines one
// of each: family/mode/threads.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

namespace bench {

enum class Threads { kAlone, kOwn, kSame };
inline constexpr const char* kThreadsNames[] = {"1T", "own", "same"};

// The kind of events that a probe records, which decides its modes.
enum class Kind { kWaits, kStages, kStatements, kTransactions, kMemory };

// One block: as many operations as the state asks for.
using Block = std::function<void(benchmark::State&, Threads)>;

struct Family {
  const char* name;
  Kind kind;
  const char* instruments;   // pattern; no other code uses them
  int iterations;            // about a millisecond
  int events;                // of one operation
  bool has_same;             // whether two threads can do it to the same object
  Block bare, floor, probe;  // floor: two readings of the timer around it. Memory has none.
};

// Each block does iterations / kWarmUpPart operations before its clock starts.
inline constexpr int kWarmUpPart = 5;

// The same rows, compiled twice: as a user compiles them, and with PFS_DISABLE.
std::vector<Family> Families();
std::vector<Family> FamiliesCompiledOut();

// Registers these benchmarks for `probe_bench --matrix`, in place of the others.
void RegisterMatrix();

}  // namespace bench
