// setup_instrument_rules: settings that hold for instruments which register later.
#include "setup/setup.h"
#include "snapshot/rules.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

enum class RuleOrigin : uint8_t { kUpdate = 0, kStart };

}  // namespace

template <>
struct EnumNames<RuleOrigin> {
  static constexpr std::string_view kValues[] = {"UPDATE", "START"};
};

namespace {

struct InstrumentRule {
  uint64_t ordinal = 0;
  Text<kRulePatternBytes> pattern = "%";
  std::optional<YesNo> enabled;
  std::optional<TimedValue> timed;
  std::optional<YesNo> traced;
  RuleOrigin origin = RuleOrigin::kUpdate;
};
constexpr auto kInstrumentRuleColumns = columns(
    col<&InstrumentRule::ordinal>("ORDINAL", Unit::kNone, "Order of the rules: of two rules for one setting, the later rule holds."),
    col<&InstrumentRule::pattern>("PATTERN", Unit::kNone, "LIKE pattern on names of instruments."),
    col<&InstrumentRule::enabled>("ENABLED", Unit::kNone, "ENABLED of such instruments; NULL: the rule does not say."),
    col<&InstrumentRule::timed>("TIMED", Unit::kNone, "TIMED of such instruments; NULL: the rule does not say."),
    col<&InstrumentRule::traced>("TRACE_ENABLED", Unit::kNone, "TRACE_ENABLED of such instruments; NULL: the rule does not say."),
    col<&InstrumentRule::origin>("ORIGIN", Unit::kNone, "START: an option of the start; UPDATE: a change while the program ran."));

std::optional<YesNo> YesNoOf(std::optional<bool> value) { return value ? std::optional(YesIf(*value)) : std::nullopt; }
std::optional<bool> IsYes(std::optional<YesNo> value) { return value ? std::optional(*value == YesNo::kYes) : std::nullopt; }

void ScanInstrumentRules(const Snapshot& snapshot, RowSink<InstrumentRule> out) {
  for (const InstrumentRuleRow& row : InstrumentRules(snapshot)) {
    const RuleSettings& settings = row.settings;
    out({row.ordinal, row.pattern, YesNoOf(settings.enabled), settings.timed ? std::optional(ValueOf(*settings.timed)) : std::nullopt,
         YesNoOf(settings.traced), settings.is_preset ? RuleOrigin::kStart : RuleOrigin::kUpdate});
  }
}
Status Insert(const InstrumentRule& row) {
  return InsertInstrumentRule(row.pattern.view(), {IsYes(row.enabled), row.timed ? std::optional(TimingOf(*row.timed)) : std::nullopt,
                                                   IsYes(row.traced), row.origin == RuleOrigin::kStart});
}
Status Remove(const InstrumentRule& row) { return RemoveInstrumentRule(row.ordinal); }

}  // namespace

constexpr TableDef tables::setup_instrument_rules{
    .doc = "Settings that hold for instruments which register later; an addition of pfs.",
    .ops = kSelect | kInsert | kDelete | kTruncate,
    .key = {"ORDINAL"},
    .columns = columns_of<kInstrumentRuleColumns>,
    .scan = scan<&ScanInstrumentRules>,
    .truncate = RemoveAllInstrumentRules,
    .insert = insert<&Insert>,
    .remove = remove<&Remove>,
};
static_assert(ok(tables::setup_instrument_rules));

}  // namespace perfschema
