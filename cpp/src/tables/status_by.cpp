// status_by_thread, _account, _user, _host: the status variables of the program.
#include "tables/status_values.h"

namespace perfschema {
namespace {

struct VariableKey {
  Text<64> name;
  static constexpr KeyColumns kKey{"VARIABLE_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &VariableKey::name>("VARIABLE_NAME", Unit::kNone, "Status variable; joins global_status.VARIABLE_NAME."));
  }
};
struct VariableValue {
  std::optional<Text<1024>> text;
};

}  // namespace

template <>
struct StatsColumns<VariableValue> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(col<Path..., &VariableValue::text>("VARIABLE_VALUE", Unit::kNone, "Its value as text."));
  }
};

namespace {

template <Level kLevel>
using StatusKey = ItemKey<typename MemberOf<kLevel>::Key, VariableKey>;

template <Level kLevel>
void ScanStatusBy(const Snapshot& snapshot, RowSink<SummaryRow<StatusKey<kLevel>, VariableValue>> out) {
  ForEachSum(snapshot, Kind::kStatus, kLevel, [&](const SumRow& row) {
    out({{MemberOf<kLevel>::Of(row), {VariableName(row)}}, {StatusText(snapshot, row.numbers)}});
  });
}

template <Level kLevel>
constexpr TableDef StatusTable(std::string_view doc) {
  return summary<StatusKey<kLevel>, VariableValue, ScanStatusBy<kLevel>>(doc, ResetLevel<Kind::kStatus, kLevel>);
}

}  // namespace

constexpr TableDef tables::status_by_thread = StatusTable<Level::kThread>("The status variables of the program, by live thread.");
static_assert(ok(tables::status_by_thread));
constexpr TableDef tables::status_by_account =
    StatusTable<Level::kAccount>("The status variables of the program, by account; threads that have ended included.");
static_assert(ok(tables::status_by_account));
constexpr TableDef tables::status_by_user =
    StatusTable<Level::kUser>("The status variables of the program, by user; threads that have ended included.");
static_assert(ok(tables::status_by_user));
constexpr TableDef tables::status_by_host =
    StatusTable<Level::kHost>("The status variables of the program, by host; threads that have ended included.");
static_assert(ok(tables::status_by_host));

}  // namespace perfschema
