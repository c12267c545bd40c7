// bench_setup.h: changes the setup tables for a benchmark, which the C API cannot do. It uses no internals of the
// library.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace bench {

// The settings of the bench's instruments. Each includes the previous one.
enum class Recorded {
  kNothing,    // ENABLED = NO
  kCounts,     // TIMED = NO; by_instance, by_thread
  kTimes,      // + timed
  kCurrent,    // + events_waits_current
  kHistory,    // + events_waits_history
  kAll,        // + events_waits_history_long
  kTraced,     // + written to the trace
  kContended,  // kAll, but TIMED = CONTENDED where that is legal
};

// Applies the settings to all threads. Exits with a message if a table refuses.
void Record(Recorded what);

// Sets columns of the rows whose key (NAME, or HOST of setup_actors) matches a pattern. Exits with a message if the
// table refuses, or no row matches.
struct Set {
  const char* column;
  const char* value;
  Set(const char* name, const char* text) : column(name), value(text) {}
  Set(const char* name, bool yes) : column(name), value(yes ? "YES" : "NO") {}
};
void Update(const char* table, const char* pattern, std::initializer_list<Set> set, const char* key = "NAME");
// Returns the sum of an integer (or text) column over the rows whose key column matches a pattern.
uint64_t Sum(const char* table, const char* key, const char* value, const char* pattern);

// Traces all threads; then the instruments decide what is traced.
void TraceAllThreads();
// A folder in memory for the trace: the cost of a disk is not the probe's. It must be a static object that is made
// before pfs_init(): it is removed at exit, after pfs has written its last line.
// Threads: one.
class TraceFolder {
 public:
  explicit TraceFolder(const char* program);
  ~TraceFolder();
  std::string options() const;  // for pfs_init()

 private:
  std::string path_;
};

// Returns COUNT_STAR of all instruments of the bench.
uint64_t CountedEvents();
// Returns the sum of all status variables that count losses, except for the trace: its thread cannot keep up with a
// loop.
uint64_t Losses();
// Returns ticks of the cycle counter per nanosecond.
double CyclesPerNano();
// Returns the number of rows of a table.
uint64_t Rows(const char* table);

}  // namespace bench
