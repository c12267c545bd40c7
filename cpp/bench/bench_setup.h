// bench_setup.h: what a benchmark needs of the setup tables, which the C API does not change. Knows nothing of the library's inside.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace bench {

// What is recorded of the bench's instruments. Each holds what the one before it does.
enum class Recorded {
  kNothing,  // ENABLED = NO
  kCounts,   // TIMED = NO; by_instance, by_thread
  kTimes,    // + timed
  kCurrent,  // + events_waits_current
  kHistory,  // + events_waits_history
  kAll,      // + events_waits_history_long
  kTraced,   // + written to the trace
  kContended,  // kAll, but TIMED = CONTENDED where that is legal
};

// Sets it for all threads. Exits with a message if a table refuses.
void Record(Recorded what);

// Sets columns of the rows whose key (NAME, or HOST of setup_actors) matches a pattern. Exits with a message if the table refuses, or nothing matches.
struct Set {
  const char* column;
  const char* value;
  Set(const char* name, const char* text) : column(name), value(text) {}
  Set(const char* name, bool yes) : column(name), value(yes ? "YES" : "NO") {}
};
void Update(const char* table, const char* pattern, std::initializer_list<Set> set, const char* key = "NAME");
// Sum of an integer (or text) column over the rows whose key column matches a pattern.
uint64_t Sum(const char* table, const char* key, const char* value, const char* pattern);

// Instruments say then what is traced.
void TraceAllThreads();
// A folder for the trace, in memory: what a disk costs is not the probe's. A static object that is made before pfs_init(): it goes when pfs has written
// its last line, which is at exit.
// Threads: one.
class TraceFolder {
 public:
  explicit TraceFolder(const char* program);
  ~TraceFolder();
  std::string options() const;  // for pfs_init()

 private:
  std::string path_;
};

// COUNT_STAR of all instruments of the bench.
uint64_t CountedEvents();
// Sum of all status variables that count losses, but for the trace: its thread cannot keep up with a loop.
uint64_t Losses();
// Ticks of the cycle counter per nanosecond.
double CyclesPerNano();
// Rows of a table.
uint64_t Rows(const char* table);

}  // namespace bench
