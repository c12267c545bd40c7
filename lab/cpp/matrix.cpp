// matrix.cpp: the modes of the matrix, and their products with the families.
#include "matrix.h"

#include <sched.h>

#include <atomic>
#include <string>

#include "bench_setup.h"

namespace bench {
namespace {

// The settings of a mode. Each mode includes the previous one.
enum class Level { kNothing, kCounts, kTimes, kCurrent, kHistory, kLong, kDigest, kCpu, kTraced };

struct Mode {
  const char* name;
  Level level;
};
constexpr Mode kModes[] = {
    {"disabled", Level::kNothing}, {"counted", Level::kCounts},  {"timed", Level::kTimes},
    {"current", Level::kCurrent},  {"history", Level::kHistory}, {"all", Level::kLong},
    {"digest", Level::kDigest},    {"cpu", Level::kCpu},         {"traced", Level::kTraced},
};

// The tables of each Kind.
struct KindFacts {
  const char* consumers;  // events_X_current ...; nullptr = none
  const char* summary;
  const char* count;  // a column of it
};
constexpr KindFacts kKinds[] = {
    {"events_waits", "events_waits_summary_global_by_event_name", "COUNT_STAR"},
    {"events_stages", "events_stages_summary_global_by_event_name", "COUNT_STAR"},
    {"events_statements", "events_statements_summary_global_by_event_name", "COUNT_STAR"},
    {"events_transactions", "events_transactions_summary_global_by_event_name", "COUNT_STAR"},
    {nullptr, "memory_summary_global_by_event_name", "COUNT_ALLOC"},
};

const KindFacts& TraitsOf(const Family& family) { return kKinds[static_cast<size_t>(family.kind)]; }

bool Has(const Family& family, const Mode& mode) {
  if (family.kind == Kind::kMemory) return mode.level <= Level::kCounts;
  return family.kind == Kind::kStatements || (mode.level != Level::kDigest && mode.level != Level::kCpu);
}

void Apply(const Family& family, Level level) {
  const char* const consumers = TraitsOf(family).consumers;
  if (consumers == nullptr) {
    Update("setup_instruments", family.instruments, {{"ENABLED", level >= Level::kCounts}});
    return;
  }
  Update("setup_instruments", family.instruments,
         {{"ENABLED", level >= Level::kCounts}, {"TIMED", level >= Level::kTimes}, {"TRACE_ENABLED", level >= Level::kTraced}});
  const std::string name = consumers;
  Update("setup_consumers", (name + "_current").c_str(), {{"ENABLED", level >= Level::kCurrent}});
  Update("setup_consumers", (name + "_history").c_str(), {{"ENABLED", level >= Level::kHistory}});
  Update("setup_consumers", (name + "_history_long").c_str(), {{"ENABLED", level >= Level::kLong}});
  if (family.kind != Kind::kStatements) return;
  Update("setup_consumers", "statements_digest", {{"ENABLED", level >= Level::kDigest}});
  // The trace mode beyond "all" is measured without the CPU clock: its two system calls would hide the cost.
  Update("setup_consumers", "events_statements_cpu", {{"ENABLED", level == Level::kCpu}});
}

uint64_t Counted(const Family& family) { return Sum(TraitsOf(family).summary, "EVENT_NAME", TraitsOf(family).count, family.instruments); }

// Waits until all threads of a benchmark have arrived.
void Meet(const benchmark::State& state) {
  static std::atomic<uint64_t> arrived{0};
  const auto threads = static_cast<uint64_t>(state.threads());
  const uint64_t mine = arrived.fetch_add(1);
  const uint64_t all = (mine / threads + 1) * threads;
  while (arrived.load() < all) sched_yield();
}

// Measures a block, and checks the number of events of every operation: two threads lose none.
void Measure(benchmark::State& state, const Family& family, Level level, Threads threads) {
  uint64_t before = 0;
  if (state.thread_index() == 0) {
    Apply(family, level);
    before = Counted(family);
  }
  if (state.threads() > 1) Meet(state);
  family.probe(state, threads);
  if (state.threads() > 1) Meet(state);
  if (state.thread_index() != 0) return;
  const uint64_t operations =
      static_cast<uint64_t>(state.threads()) * static_cast<uint64_t>(family.iterations + family.iterations / kWarmUpPart);
  const uint64_t expected = level == Level::kNothing ? 0 : operations * static_cast<uint64_t>(family.events);
  const uint64_t counted = Counted(family) - before;
  if (counted != expected) state.SkipWithError(("counted " + std::to_string(counted) + " events, not " + std::to_string(expected)).c_str());
}

template <typename Run>
void Add(const Family& family, const char* mode, Threads threads, Run run) {
  const std::string name = std::string(family.name) + "/" + mode + "/" + kThreadsNames[static_cast<size_t>(threads)];
  auto* const made = benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(family.iterations)->UseRealTime();
  if (threads != Threads::kAlone) made->Threads(2);
}

void AddFamily(const Family& family, const Family& compiled_out, Threads threads) {
  const auto plain = [&](const char* mode, const Block& block) {
    if (block) Add(family, mode, threads, [block, threads](benchmark::State& state) { block(state, threads); });
  };
  plain("bare", family.bare);
  plain("floor", family.floor);
  plain("out", compiled_out.probe);
  for (const Mode& mode : kModes) {
    if (!Has(family, mode)) continue;
    Add(family, mode.name, threads,
        [family, level = mode.level, threads](benchmark::State& state) { Measure(state, family, level, threads); });
  }
}

}  // namespace

void RegisterMatrix() {
  const std::vector<Family> families = Families();
  const std::vector<Family> compiled_out = FamiliesCompiledOut();
  for (size_t i = 0; i < families.size(); ++i) {
    for (const Threads threads : {Threads::kAlone, Threads::kOwn, Threads::kSame}) {
      if (threads != Threads::kSame || families[i].has_same) AddFamily(families[i], compiled_out[i], threads);
    }
  }
}

}  // namespace bench
