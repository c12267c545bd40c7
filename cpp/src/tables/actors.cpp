// setup_actors and setup_threads: whether new threads are instrumented.
#include "record/context/actors.h"

#include "setup/setup.h"
#include "snapshot/rules.h"
#include "tables/tables.h"

namespace perfschema {
namespace {
struct ThreadProperties {};
}  // namespace

template <>
struct SetNames<ThreadProperties> {
  static constexpr std::string_view kValues[] = {"singleton", "user"};
};

namespace {

constexpr std::string_view kForNewThreads = " New threads only.";

// ---- setup_actors

struct Actor {
  Char<255> host = "%";
  Char<32> user = "%", role = "%";
  YesNo enabled = YesNo::kYes, history = YesNo::kYes, traced = YesNo::kNo;

  ActorKey key() const { return {host.view(), user.view(), role.view()}; }
  ThreadSettings settings() const { return {enabled == YesNo::kYes, history == YesNo::kYes, traced == YesNo::kYes}; }
};
constexpr auto kActorColumns = columns(
    col<&Actor::host>("HOST", Unit::kNone, "Host of the user, or % for any."),
    col<&Actor::user>("USER", Unit::kNone, "User of a thread, or % for any."), col<&Actor::role>("ROLE", Unit::kNone, "Not used: %."),
    col<&Actor::enabled>("ENABLED", Unit::kNone, "INSTRUMENTED of threads that get such an account.").writable(),
    col<&Actor::history>("HISTORY", Unit::kNone, "HISTORY of threads that get such an account.").writable(),
    col<&Actor::traced>("TRACE_ENABLED", Unit::kNone,
                        "Whether threads of such an account are traced, from now on; an error of the trace sets it to NO.")
        .writable());
void ScanActors(const Snapshot& snapshot, RowSink<Actor> out) {
  ForEachActor(snapshot, [&](const ActorRow& row) {
    out({row.host, row.user, row.role, YesIf(row.enabled), YesIf(row.history), YesIf(row.traced)});
  });
}
Status Update(const Actor&, const Actor& after) { return UpdateActor(after.key(), after.settings()); }
Status Insert(const Actor& row) { return InsertActor(row.key(), row.settings()); }
Status Delete(const Actor& row) { return DeleteActor(row.key()); }

// ---- setup_threads

struct ThreadClass {
  Text<128> name;
  YesNo enabled, history;
  SetOf<ThreadProperties> properties;
  int32_t volatility;
  std::optional<LongText> documentation;
  uint32_t class_index;
};
constexpr auto kThreadColumns = columns(
    col<&ThreadClass::name>("NAME", Unit::kNone, "Name of the instrument; joins threads.NAME."),
    col<&ThreadClass::enabled>("ENABLED", Unit::kNone, {"INSTRUMENTED of its threads.", kForNewThreads}).writable(),
    col<&ThreadClass::history>("HISTORY", Unit::kNone, {"HISTORY of its threads.", kForNewThreads}).writable(),
    col<&ThreadClass::properties>("PROPERTIES", Unit::kNone, "Properties from its registration: user = its threads are FOREGROUND."),
    col<&ThreadClass::volatility>("VOLATILITY", Unit::kNone,
                                  "How long its threads live: 0 unknown, 1 the whole process, up to 8 a very short time."),
    col<&ThreadClass::documentation>("DOCUMENTATION", Unit::kNone, "Description from its registration."));
void ScanThreadClasses(const Snapshot& snapshot, RowSink<ThreadClass> out) {
  for (const ClassRow& row : snapshot.classes()) {
    if (row.family != Family::kThread) continue;
    const uint32_t properties = ((row.properties & kPropertySingleton) != 0 ? 1u : 0u) | ((row.properties & kPropertyUser) != 0 ? 2u : 0u);
    const auto volatility = static_cast<int32_t>(row.volatility);
    out({row.name, YesIf(row.enabled), YesIf(row.timed != Timing::kNo), {properties}, volatility, row.documentation, row.index});
  }
}
Status UpdateThreadClass(const ThreadClass& before, const ThreadClass& after) {
  return UpdateInstrument(before.class_index, {.enabled = after.enabled == YesNo::kYes,
                                               .timed = after.history == YesNo::kYes ? Timing::kYes : Timing::kNo,
                                               .controlled = {},
                                               .traced = {}});
}

}  // namespace

constexpr TableDef tables::setup_actors{
    .doc =
        "Users whose threads are instrumented; of several matching rows, the row that names the user decides, then the row that names the "
        "host.",
    .ops = kSelect | kInsert | kUpdate | kDelete | kTruncate,
    .key = {"HOST", "USER", "ROLE"},
    .columns = columns_of<kActorColumns>,
    .scan = scan<&ScanActors>,
    .truncate = DeleteAllActors,
    .update = update<&Update>,
    .insert = insert<&Insert>,
    .remove = remove<&Delete>,
};
static_assert(ok(tables::setup_actors));

constexpr TableDef tables::setup_threads{
    .doc = "The thread instruments, and the initial settings of their threads.",
    .ops = kSelect | kUpdate,
    .key = {"NAME"},
    .columns = columns_of<kThreadColumns>,
    .scan = scan<&ScanThreadClasses>,
    .update = update<&UpdateThreadClass>,
};
static_assert(ok(tables::setup_threads));

}  // namespace perfschema
