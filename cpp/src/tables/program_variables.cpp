// Tables of variables besides global_variables: values of sessions, sources of values, metadata. Most are readable
// while pfs is off.
#include <map>
#include <set>
#include <utility>

#include "snapshot/program.h"
#include "snapshot/threads.h"
#include "tables/tables.h"
#include "tables/variable_rows.h"

namespace perfschema {

template <>
struct EnumNames<VariableScope> {
  static constexpr std::string_view kValues[] = {"GLOBAL", "SESSION", "SESSION_ONLY"};
  static_assert(std::size(kValues) == kVariableScopeCount);
};
template <>
struct EnumNames<VariableType> {
  static constexpr std::string_view kValues[] = {"Integer", "Numeric", "String", "Enumeration", "Boolean", "Set"};
  static_assert(std::size(kValues) == kVariableTypeCount);
};
template <>
struct EnumNames<VariableSource> {
  static constexpr std::string_view kValues[] = {"COMPILED", "GLOBAL", "SERVER",       "EXPLICIT",  "EXTRA",
                                                 "USER",     "LOGIN",  "COMMAND_LINE", "PERSISTED", "DYNAMIC"};
  static_assert(std::size(kValues) == kVariableSourceCount);
};

namespace {

using Value = std::optional<Text<1024>>;
struct ValueRow {
  Text<64> name;
  Value value;
};
struct ThreadValueRow {
  uint64_t thread_id;
  ValueRow variable;
};
constexpr auto kValueColumns =
    columns(col<&ValueRow::name>("VARIABLE_NAME", Unit::kNone, "Name of the variable; joins variables_metadata.VARIABLE_NAME."),
            col<&ValueRow::value>("VARIABLE_VALUE", Unit::kNone, "Its value as text."));
constexpr auto kThreadValueColumns =
    columns(col<&ThreadValueRow::thread_id>("THREAD_ID", Unit::kNone, "The thread; joins threads.THREAD_ID."),
            col<&ThreadValueRow::variable, &ValueRow::name>("VARIABLE_NAME", Unit::kNone,
                                                            "Name of the variable; joins variables_metadata.VARIABLE_NAME."),
            col<&ThreadValueRow::variable, &ValueRow::value>("VARIABLE_VALUE", Unit::kNone, "Its value as text."));

// Values of threads' own variables, by thread and name.
using OwnValues = std::map<std::pair<uint64_t, std::string_view>, Value>;
OwnValues ReadOwnValues(const Snapshot& snapshot) {
  OwnValues values;
  ForEachFact(snapshot, FactKind::kThreadVariable, [&](const FactRow& row) {
    values[{row.owner, row.text(0)}] = row.optional<Text<1024>>(1);
  });
  return values;
}
Value ValueIn(const OwnValues& values, uint64_t thread, const Variable& variable) {
  const auto own = variable.has_session() ? values.find({thread, variable.name.view()}) : values.end();
  return own != values.end() ? own->second : variable.value;
}

void ScanSession(const Snapshot& snapshot, RowSink<ValueRow> out) {
  const OwnValues values = ReadOwnValues(snapshot);
  const uint64_t reader = ReaderOf(snapshot);
  ForEachVariable(snapshot, [&](const Variable& variable) { out({variable.name, ValueIn(values, reader, variable)}); });
}

void ScanThreadValues(const Snapshot& snapshot, RowSink<ThreadValueRow> out) {
  const OwnValues values = ReadOwnValues(snapshot);
  std::set<uint64_t> threads;
  for (const ThreadRow& row : Threads(snapshot)) threads.insert(row.thread_id);
  if (!snapshot.ok()) {  // no thread has a row then: show threads with values, and the reading thread
    for (const auto& [key, value] : values) threads.insert(key.first);
    threads.insert(ReaderOf(snapshot));
  }
  ForEachVariable(snapshot, [&](const Variable& variable) {
    if (!variable.has_session()) return;
    for (const uint64_t thread : threads) out({thread, {variable.name, ValueIn(values, thread, variable)}});
  });
}

// ---- variables_info

struct InfoRow {
  Variable variable;
  std::optional<VariableSource> source() const { return variable.source; }
};
constexpr auto kInfoColumns = columns(
    col<&InfoRow::variable, &Variable::name>("VARIABLE_NAME", Unit::kNone, "Name of the variable; joins variables_metadata.VARIABLE_NAME."),
    col<&InfoRow::source>("VARIABLE_SOURCE", Unit::kNone, "Source of its value; COMMAND_LINE for an option that was set at start."),
    col<&InfoRow::variable, &Variable::path>("VARIABLE_PATH", Unit::kNone, "File that its value comes from."),
    col<&InfoRow::variable, &Variable::minimum>("MIN_VALUE", Unit::kNone, "Least legal value."),
    col<&InfoRow::variable, &Variable::maximum>("MAX_VALUE", Unit::kNone, "Greatest legal value."),
    col<&InfoRow::variable, &Variable::set_time>("SET_TIME", Unit::kNone, "When it was last set, or registered."),
    col<&InfoRow::variable, &Variable::set_user>("SET_USER", Unit::kNone, "User of the thread that set it last."),
    col<&InfoRow::variable, &Variable::set_host>("SET_HOST", Unit::kNone, "Host of that user."));
void ScanInfo(const Snapshot& snapshot, RowSink<InfoRow> out) {
  ForEachVariable(snapshot, [&](const Variable& variable) { out({variable}); });
}

// ---- variables_metadata

struct MetadataRow {
  Variable variable;
  MediumText documentation() const { return variable.documentation.view(); }
};
constexpr auto kVariableMetadataColumns = columns(
    col<&MetadataRow::variable, &Variable::name>("VARIABLE_NAME", Unit::kNone, "Name of the variable."),
    col<&MetadataRow::variable, &Variable::scope>(
        "VARIABLE_SCOPE", Unit::kNone, "GLOBAL: one value; SESSION: sessions may have their own; SESSION_ONLY: only sessions have values."),
    col<&MetadataRow::variable, &Variable::type>("DATA_TYPE", Unit::kNone, "What its values are."),
    col<&MetadataRow::variable, &Variable::minimum>("MIN_VALUE", Unit::kNone, "Least legal value."),
    col<&MetadataRow::variable, &Variable::maximum>("MAX_VALUE", Unit::kNone, "Greatest legal value."),
    col<&MetadataRow::documentation>("DOCUMENTATION", Unit::kNone, "Description from its registration."));
void ScanMetadata(const Snapshot& snapshot, RowSink<MetadataRow> out) {
  ForEachVariable(snapshot, [&](const Variable& variable) { out({variable}); });
}

// ---- global_variable_attributes

struct VariableAttributeRow {
  Text<64> variable;
  Text<32> name;
  Text<1024> value;
};
constexpr auto kVariableAttributeColumns = columns(
    col<&VariableAttributeRow::variable>("VARIABLE_NAME", Unit::kNone, "Name of the variable; joins variables_metadata.VARIABLE_NAME."),
    col<&VariableAttributeRow::name>("ATTR_NAME", Unit::kNone, "Name of the attribute."),
    col<&VariableAttributeRow::value>("ATTR_VALUE", Unit::kNone, "Its value."));
void ScanAttributes(const Snapshot& snapshot, RowSink<VariableAttributeRow> out) {
  ForEachFact(snapshot, FactKind::kAttribute, [&](const FactRow& row) { out({row.text(0), row.text(1), row.text(2)}); });
}

// ---- user_variables_by_thread

struct UserVariableRow {
  uint64_t thread_id;
  Text<64> name;
  std::optional<LongBlob> value;
};
constexpr auto kUserVariableColumns =
    columns(col<&UserVariableRow::thread_id>("THREAD_ID", Unit::kNone, "The thread; joins threads.THREAD_ID."),
            col<&UserVariableRow::name>("VARIABLE_NAME", Unit::kNone, "Name of the value, which the thread chose."),
            col<&UserVariableRow::value>("VARIABLE_VALUE", Unit::kNone, "The value.").literals());
void ScanUserVariables(const Snapshot& snapshot, RowSink<UserVariableRow> out) {
  ForEachFact(snapshot, FactKind::kUserVariable, [&](const FactRow& row) { out({row.owner, row.text(0), row.optional<LongBlob>(1)}); });
}

}  // namespace

constexpr TableDef tables::session_variables{
    .doc = "The variables with the values of the reader's session; in another process, with those of a new session.",
    .key = {"VARIABLE_NAME"},
    .columns = columns_of<kValueColumns>,
    .scan = scan<&ScanSession>,
    .available_when_disabled = true,
};
static_assert(ok(tables::session_variables));

constexpr TableDef tables::variables_by_thread{
    .doc = "The variables that have session values, with the value of each live thread.",
    .key = {"THREAD_ID", "VARIABLE_NAME"},
    .columns = columns_of<kThreadValueColumns>,
    .scan = scan<&ScanThreadValues>,
    .available_when_disabled = true,
};
static_assert(ok(tables::variables_by_thread));

constexpr TableDef tables::variables_info{
    .doc = "The sources of the variables' values, and the user and time of the last change.",
    .columns = columns_of<kInfoColumns>,
    .scan = scan<&ScanInfo>,
    .available_when_disabled = true,
};
static_assert(ok(tables::variables_info));

constexpr TableDef tables::variables_metadata{
    .doc = "What the variables are.",
    .columns = columns_of<kVariableMetadataColumns>,
    .scan = scan<&ScanMetadata>,
    .available_when_disabled = true,
};
static_assert(ok(tables::variables_metadata));

constexpr TableDef tables::global_variable_attributes{
    .doc = "Attributes that the program assigned to variables.",
    .columns = columns_of<kVariableAttributeColumns>,
    .scan = scan<&ScanAttributes>,
    .available_when_disabled = true,
};
static_assert(ok(tables::global_variable_attributes));

constexpr TableDef tables::user_variables_by_thread{
    .doc = "Named values that live threads have set.",
    .key = {"THREAD_ID", "VARIABLE_NAME"},
    .columns = columns_of<kUserVariableColumns>,
    .scan = scan<&ScanUserVariables>,
};
static_assert(ok(tables::user_variables_by_thread));

}  // namespace perfschema
