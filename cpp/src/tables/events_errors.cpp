// events_errors_summary_*: registered errors, and one row for all others.
#include "snapshot/sums.h"
#include "tables/sums.h"

namespace perfschema {
namespace {

using ErrorSums = Sums<Kind::kError>;

struct ErrorKey {
  std::optional<int32_t> number;
  std::optional<Text<64>> name;
  std::optional<Text<5>> sqlstate;
  static constexpr KeyColumns kKey{"ERROR_NUMBER"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &ErrorKey::number>(
                       "ERROR_NUMBER", Unit::kNone,
                       "Number of the error; NULL for all unregistered errors, and errors beyond performance_schema_error_size."),
                   col<Path..., &ErrorKey::name>("ERROR_NAME", Unit::kNone, "Name of the error.").across(Across::kSame),
                   col<Path..., &ErrorKey::sqlstate>("SQL_STATE", Unit::kNone, "SQLSTATE of the error.").across(Across::kSame));
  }
  static ErrorKey Of(const ClassRow& error) {
    if (error.family != Family::kErrorNumber) return {};
    return {error.error_number, Text<64>(error.name.view()), error.sqlstate};
  }
};

std::optional<Timestamp0> TimeOf(const uint64_t& seconds) {
  return seconds == 0 ? std::optional<Timestamp0>() : Timestamp0{static_cast<int64_t>(seconds * 1'000'000)};
}

}  // namespace

template <>
struct StatsColumns<ErrorSums> {
  template <auto... Path>
  static constexpr auto Get() {
    return columns(col<Path..., &ErrorSums::number<kRaisedWord>>("SUM_ERROR_RAISED", Unit::kCount, "How often it was raised."),
                   col<Path..., &ErrorSums::number<kHandledWord>>("SUM_ERROR_HANDLED", Unit::kCount, "How often it was handled."),
                   col<Path..., &ErrorSums::number<kFirstErrorWord>, &TimeOf>("FIRST_SEEN", Unit::kNone,
                                                                              "When it was first raised or handled; NULL if never."),
                   col<Path..., &ErrorSums::number<kLastErrorWord>, &TimeOf>("LAST_SEEN", Unit::kNone,
                                                                             "When it was last raised or handled; NULL if never."));
  }
};

namespace {

template <Level kLevel>
using Key = ItemKey<typename MemberOf<kLevel>::Key, ErrorKey>;

template <Level kLevel>
void ScanErrors(const Snapshot& snapshot, RowSink<SummaryRow<Key<kLevel>, ErrorSums>> out) {
  if (!snapshot.ok() || snapshot.option(OptionId::error_size) == 0) return;
  ForEachSum(snapshot, Kind::kError, kLevel, [&](const SumRow& row) {
    // An error that counts for the total only has no rows at other levels.
    if (kLevel != Level::kGlobal && (row.instrument->properties & kPropertyGlobal) != 0) return;
    out({{MemberOf<kLevel>::Of(row), ErrorKey::Of(*row.instrument)}, {row.numbers}});
  });
}

template <Level kLevel>
constexpr TableDef ErrorTable(std::string_view doc) {
  return summary<Key<kLevel>, ErrorSums, ScanErrors<kLevel>>(doc, ResetLevel<Kind::kError, kLevel>);
}

}  // namespace

constexpr TableDef tables::events_errors_summary_by_thread_by_error = ErrorTable<Level::kThread>("Errors of each live thread, by number.");
static_assert(ok(tables::events_errors_summary_by_thread_by_error));
constexpr TableDef tables::events_errors_summary_by_account_by_error =
    ErrorTable<Level::kAccount>("Errors of all threads of each account, ended ones included, by number.");
static_assert(ok(tables::events_errors_summary_by_account_by_error));
constexpr TableDef tables::events_errors_summary_by_user_by_error =
    ErrorTable<Level::kUser>("Errors of all threads of each user, ended ones included, by number.");
static_assert(ok(tables::events_errors_summary_by_user_by_error));
constexpr TableDef tables::events_errors_summary_by_host_by_error =
    ErrorTable<Level::kHost>("Errors of all threads of each host, ended ones included, by number.");
static_assert(ok(tables::events_errors_summary_by_host_by_error));
constexpr TableDef tables::events_errors_summary_global_by_error =
    ErrorTable<Level::kGlobal>("Errors of the process by number, those of ended threads included.");
static_assert(ok(tables::events_errors_summary_global_by_error));

}  // namespace perfschema
