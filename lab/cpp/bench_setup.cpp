#include "bench_setup.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/like.h"
#include "table/registry.h"
#include "table/table_def.h"

namespace bench {
namespace {

using perfschema::Assignment;
using perfschema::Condition;
using perfschema::NamedTable;
using perfschema::Status;
using perfschema::TableData;

void Need(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "probe_bench: %s\n", status.message().c_str());
  std::exit(1);
}

const NamedTable& Table(const char* name) {
  const NamedTable* table = nullptr;
  Need(perfschema::FindTable(name, &table));
  return *table;
}

// Adds up the rows whose key column matches.
template <typename Matches>
uint64_t SumIf(const char* table_name, const char* key, const char* value, Matches matches) {
  const NamedTable& table = Table(table_name);
  std::vector<size_t> columns;
  for (const char* wanted : {key, value}) {
    for (size_t i = 0; i < table.def->columns.size(); ++i) {
      if (table.def->columns[i].name.view() == wanted) columns.push_back(i);
    }
  }
  TableData data;
  Need(perfschema::ReadTable(table, perfschema::OwnSegment(), columns, &data));
  uint64_t sum = 0;
  for (size_t row = 0; row < data.rows; ++row) {
    const auto& keys = data.columns[0];
    const auto& values = data.columns[1];
    const auto& names = table.def->columns[columns[0]].type.values;  // of an enum
    if (!matches(std::string(names.empty() ? std::string_view(keys.texts[keys.codes[row]]) : names[keys.codes[row]]))) continue;
    sum += values.words.empty() ? std::strtoull(std::string(values.texts[values.codes[row]]).c_str(), nullptr, 10) : values.words[row];
  }
  return sum;
}

}  // namespace

void Update(const char* table, const char* pattern, std::initializer_list<Set> set, const char* key) {
  const Condition where{key, pattern, true};
  std::vector<Assignment> values;
  for (const Set& one : set) values.push_back({one.column, one.value});
  uint64_t changed = 0;
  Need(perfschema::UpdateTable(Table(table), {&where, 1}, values, &changed));
  if (changed == 0) Need(Status(perfschema::Code::kNotFound, std::string("nothing is called ") + pattern));
}

uint64_t Sum(const char* table, const char* key, const char* value, const char* pattern) {
  return SumIf(table, key, value, [pattern](const std::string& name) { return perfschema::Like(name, pattern); });
}

void TraceAllThreads() { Update("setup_actors", "%", {{"TRACE_ENABLED", true}}, "HOST"); }

void Record(Recorded what) {
  if (what == Recorded::kContended) {
    Record(Recorded::kAll);
    for (const char* pattern : {"wait/synch/mutex/bench/%", "wait/synch/rwlock/bench/%"})
      Update("setup_instruments", pattern, {{"TIMED", "CONTENDED"}});
    return;
  }
  // No other code of this process uses the instruments of which there is only one.
  for (const char* pattern : {"wait/%/bench/%", "wait/%/table/sql/handler", "wait/lock/metadata/sql/mdl", "idle"}) {
    Update("setup_instruments", pattern,
           {{"ENABLED", what >= Recorded::kCounts}, {"TIMED", what >= Recorded::kTimes}, {"TRACE_ENABLED", what >= Recorded::kTraced}});
  }
  Update("setup_consumers", "events_waits_current", {{"ENABLED", what >= Recorded::kCurrent}});
  Update("setup_consumers", "events_waits_history", {{"ENABLED", what >= Recorded::kHistory}});
  Update("setup_consumers", "events_waits_history_long", {{"ENABLED", what >= Recorded::kAll}});
}

uint64_t CountedEvents() {
  return SumIf("events_waits_summary_global_by_event_name", "EVENT_NAME", "COUNT_STAR", [](const std::string& name) {
    return name.find("/bench/") != std::string::npos || name.find("/sql/") != std::string::npos || name == "idle";
  });
}

TraceFolder::TraceFolder(const char* program) : path_(std::string("/dev/shm/pfs-") + program + "-" + std::to_string(getpid())) {}
std::string TraceFolder::options() const {
  return "performance_schema_trace_directory=" + path_ +
         ",performance_schema_trace_max_size=10000000,performance_schema_trace_on_limit=rotate";
}
TraceFolder::~TraceFolder() {
  std::error_code failed;
  std::filesystem::remove_all(path_, failed);
  if (failed) std::fprintf(stderr, "cannot remove %s: %s\n", path_.c_str(), failed.message().c_str());
}

uint64_t Losses() {
  return SumIf("global_status", "VARIABLE_NAME", "VARIABLE_VALUE",
               [](const std::string& name) { return name.ends_with("_lost") && name != "Performance_schema_trace_events_lost"; });
}

double CyclesPerNano() {
  return static_cast<double>(
             SumIf("performance_timers", "TIMER_NAME", "TIMER_FREQUENCY", [](const std::string& name) { return name == "CYCLE"; })) /
         1e9;
}

uint64_t Rows(const char* name) {
  TableData data;
  Need(perfschema::ReadTable(Table(name), perfschema::OwnSegment(), {}, &data));
  return data.rows;
}

}  // namespace bench
