// setup_objects: which tables of the program are instrumented.
#include "setup/objects.h"
#include "snapshot/rules.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

struct ObjectRule {
  RuleType type = RuleTypeOf(ObjectType::kTable);
  std::optional<Text<64>> schema = Text<64>("%");
  Text<64> name = "%";
  YesNo enabled = YesNo::kYes, timed = YesNo::kYes;

  ObjectRuleKey key() const {
    return {static_cast<ObjectType>(static_cast<uint8_t>(type) + 1), schema ? schema->view() : std::string_view(), name.view()};
  }
};
constexpr auto kObjectRuleColumns = columns(
    col<&ObjectRule::type>("OBJECT_TYPE", Unit::kNone, "Kind of objects; TABLE is also for temporary tables."),
    col<&ObjectRule::schema>("OBJECT_SCHEMA", Unit::kNone,
                             "Schema that the row applies to; % applies to schemas without a row of their own."),
    col<&ObjectRule::name>("OBJECT_NAME", Unit::kNone, "Object that the row applies to; % applies to objects without a row of their own."),
    col<&ObjectRule::enabled>("ENABLED", Unit::kNone, "Whether such objects are instrumented and shown.").writable(),
    col<&ObjectRule::timed>("TIMED", Unit::kNone, "Whether their events are timed.").writable());

void ScanRules(const Snapshot& snapshot, RowSink<ObjectRule> out) {
  ForEachObjectRule(snapshot, [&](const ObjectRuleRow& row) {
    out({RuleTypeOf(row.type), row.schema, row.name, YesIf(row.enabled), YesIf(row.timed)});
  });
}

Status UpdateRule(const ObjectRule& before, const ObjectRule& after) {
  return UpdateObjectRule(before.key(), ChangedTo(before.enabled, after.enabled), ChangedTo(before.timed, after.timed));
}
Status InsertRule(const ObjectRule& row) {
  if (!row.schema) return Status(Code::kInvalidArgument, "OBJECT_SCHEMA of setup_objects takes text, not NULL: '%' is for all schemas");
  return InsertObjectRule(row.key(), row.enabled == YesNo::kYes, row.timed == YesNo::kYes);
}
Status RemoveRule(const ObjectRule& row) { return RemoveObjectRule(row.key()); }

}  // namespace

constexpr TableDef tables::setup_objects{
    .doc =
        "Which tables of the program are instrumented: the row with the table's name decides, else that of its schema, else that of its "
        "type.",
    .ops = kSelect | kInsert | kUpdate | kDelete | kTruncate,
    .key = {"OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"},
    .columns = columns_of<kObjectRuleColumns>,
    .scan = scan<&ScanRules>,
    .truncate = TruncateObjectRules,
    .update = update<&UpdateRule>,
    .insert = insert<&InsertRule>,
    .remove = remove<&RemoveRule>,
};
static_assert(ok(tables::setup_objects));

}  // namespace perfschema
