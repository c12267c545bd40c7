// global_variables, global_status and session_status: name and value. They are readable while pfs is off.
#include "record/context/threads.h"
#include "snapshot/state.h"
#include "tables/status_values.h"
#include "tables/tables.h"
#include "tables/variable_rows.h"

namespace perfschema {
namespace {

struct VariableRow {
  Text<64> name;
  std::optional<Text<1024>> value;
};
constexpr auto kVariableColumns = columns(col<&VariableRow::name>("VARIABLE_NAME", Unit::kNone, "Name of the variable."),
                                          col<&VariableRow::value>("VARIABLE_VALUE", Unit::kNone, "Its value as text."));

void ScanVariables(const Snapshot& snapshot, RowSink<VariableRow> out) {
  ForEachVariable(snapshot, [&](const Variable& variable) {
    if (variable.has_global()) out({variable.name, variable.value});
  });
}

// Outputs the losses, the sums of the program's own reports, and then the reasons of any degradation, else NULL.
void ScanStatus(const Snapshot& snapshot, RowSink<VariableRow> out) {
  constexpr std::string_view kNames[] = {
#define X(name, shown) shown,
      PFS_FOR_EACH_LOSS(X)
#undef X
  };
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const uint64_t count = snapshot.ok() ? LossOf(snapshot, static_cast<Loss>(i)) : 0;
    out({kNames[i], Text<1024>(snapshot.Keep(std::to_string(count)))});
  }
  const auto number = [&](std::string_view name, uint64_t count) { out({name, Text<1024>(snapshot.Keep(std::to_string(count)))}); };
  number("Performance_schema_rows_repaired", RepairedBefore(snapshot));
  const ShmDeclared* const program = snapshot.ok() ? &snapshot.header().program : nullptr;
  const auto word = [&](Word ShmDeclared::*member) { return program == nullptr ? 0 : (program->*member).load(kAcquire); };
  const uint64_t expired = word(&ShmDeclared::log_expired), begin = word(&ShmDeclared::log_begin);
  number("Performance_schema_session_connect_attrs_longest_seen", word(&ShmDeclared::longest_attrs));
  number("Error_log_buffered_bytes", (word(&ShmDeclared::log_end) - begin) * sizeof(ShmLogUnit));
  number("Error_log_buffered_events", word(&ShmDeclared::log_written) - expired);
  number("Error_log_expired_events", expired);
  number("Error_log_latest_write", word(&ShmDeclared::log_latest));
  const auto reason = [](std::string_view text) { return text.empty() ? std::optional<Text<1024>>() : Text<1024>(text); };
  out({"Performance_schema_trace_status", reason(snapshot.ok() ? TraceStatusIn(snapshot) : "")});
  out({"Performance_schema_status_reason", reason(snapshot.ok() ? StatusReasonIn(snapshot) : snapshot.Keep(StatusReason()))});
  out({"Performance_schema_timer_reason", reason(snapshot.ok() ? TimerReasonIn(snapshot) : "")});
}

void ScanGlobalStatus(const Snapshot& snapshot, RowSink<VariableRow> out) {
  ScanStatus(snapshot, out);
  ForEachSum(snapshot, Kind::kStatus, Level::kGlobal, [&](const SumRow& row) {
    out({VariableName(row), StatusText(snapshot, row.numbers)});
  });
}

// In another process's segment there is no calling thread, so only pfs's own rows appear.
void ScanSessionStatus(const Snapshot& snapshot, RowSink<VariableRow> out) {
  ScanStatus(snapshot, out);
  if (!snapshot.ok() || &snapshot.header() != g_runtime.header) return;
  const uint64_t thread_id = CurrentThreadId();
  std::vector<Numbers> values;
  ForEachSum(snapshot, Kind::kStatus, Level::kThread, [&](const SumRow& row) {
    if (row.thread_id == thread_id) values.push_back(row.numbers);
  });
  size_t at = 0;
  for (const ClassRow& variable : snapshot.classes()) {
    if (variable.kind() != Kind::kStatus) continue;
    // A thread without instrumentation has counted nothing.
    out({variable.name.view(), StatusText(snapshot, at < values.size() ? values[at] : Numbers{})});
    ++at;
  }
}

}  // namespace

constexpr TableDef tables::global_variables{
    .doc = "The start-time options in force, and the global values of the program's variables.",
    .key = {"VARIABLE_NAME"},
    .columns = columns_of<kVariableColumns>,
    .scan = scan<&ScanVariables>,
    .available_when_disabled = true,
};
static_assert(ok(tables::global_variables));

constexpr TableDef tables::global_status{
    .doc =
        "Losses of full buffers, the reasons why pfs is not fully on, and the sums of the program's status variables, which TRUNCATE sets "
        "to zero.",
    .ops = kSelect | kTruncate,
    .key = {"VARIABLE_NAME"},
    .columns = columns_of<kVariableColumns>,
    .scan = scan<&ScanGlobalStatus>,
    .truncate = ResetLevel<Kind::kStatus, Level::kGlobal>,  // counters of losses never go down (semantics.md L9)
    .available_when_disabled = true,
};
static_assert(ok(tables::global_status));

constexpr TableDef tables::session_status{
    .doc = "The program's status variables as the calling thread counted them, and pfs's own rows of global_status.",
    .key = {"VARIABLE_NAME"},
    .columns = columns_of<kVariableColumns>,
    .scan = scan<&ScanSessionStatus>,
    .available_when_disabled = true,
};
static_assert(ok(tables::session_status));

}  // namespace perfschema
