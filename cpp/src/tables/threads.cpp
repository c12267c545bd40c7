// threads, and processlist: the threads that have a user.
#include "snapshot/threads.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "setup/setup.h"
#include "snapshot/events.h"
#include "snapshot/moment.h"
#include "tables/enums.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

struct ThreadInstance {
  ThreadRow thread;
  YesNo instrumented, history;

  Text<10> type() const { return thread.is_foreground() ? "FOREGROUND" : "BACKGROUND"; }
  std::optional<Engine> engine() const {
    if (!thread.is_foreground()) return {};
    return (thread.flags & kThreadSecondary) != 0 ? Engine::kSecondary : Engine::kPrimary;
  }
  std::optional<Text<64>> no_role() const { return {}; }
  YesNo telemetry_active() const { return YesNo::kNo; }
};
using Row = ThreadInstance;

constexpr auto kThreadsColumns = columns(
    col<&Row::thread, &ThreadRow::thread_id>("THREAD_ID", Unit::kNone, "Number of the thread, never used twice in a process."),
    col<&Row::thread, &ThreadRow::name>("NAME", Unit::kNone, "Name of the thread, which begins with thread/."),
    col<&Row::type>("TYPE", Unit::kNone, "FOREGROUND if it belongs to a user, else BACKGROUND."),
    col<&Row::thread, &ThreadRow::processlist_id>("PROCESSLIST_ID", Unit::kNone, "Number of the session; NULL for background threads."),
    col<&Row::thread, &ThreadRow::user>("PROCESSLIST_USER", Unit::kNone, "User that it works for."),
    col<&Row::thread, &ThreadRow::host>("PROCESSLIST_HOST", Unit::kNone, "Host of that user."),
    col<&Row::thread, &ThreadRow::db>("PROCESSLIST_DB", Unit::kNone, "Default database of the session."),
    col<&Row::thread, &ThreadRow::command>("PROCESSLIST_COMMAND", Unit::kNone, "What the session does."),
    col<&Row::thread, &ThreadRow::seconds>("PROCESSLIST_TIME", Unit::kSeconds, "For how long it has done so."),
    col<&Row::thread, &ThreadRow::state>("PROCESSLIST_STATE", Unit::kNone, "Stage that it is in."),
    col<&Row::thread, &ThreadRow::info>("PROCESSLIST_INFO", Unit::kNone, "Statement that it executes, cut to 1024 bytes.").literals(),
    col<&Row::thread, &ThreadRow::parent_thread_id>("PARENT_THREAD_ID", Unit::kNone, "Thread that started it; NULL if not known."),
    col<&Row::no_role>("ROLE", Unit::kNone, "Not used."),
    col<&Row::instrumented>("INSTRUMENTED", Unit::kNone, "Whether its events are counted and recorded.").writable(),
    col<&Row::history>("HISTORY", Unit::kNone, "Whether its events go to the history tables.").writable(),
    col<&Row::thread, &ThreadRow::connection_type>("CONNECTION_TYPE", Unit::kNone, "Protocol of the session."),
    col<&Row::thread, &ThreadRow::os_id>("THREAD_OS_ID", Unit::kNone,
                                         "Thread of the system that it is attached to; NULL if there is none now."),
    col<&Row::thread, &ThreadRow::resource_group>("RESOURCE_GROUP", Unit::kNone, "Resource group of the thread."),
    col<&Row::engine>("EXECUTION_ENGINE", Unit::kNone, "Engine that executes its statements; NULL for background threads."),
    col<&Row::thread, &ThreadRow::controlled_memory>("CONTROLLED_MEMORY", Unit::kBytes, "Controlled memory that its session uses."),
    col<&Row::thread, &ThreadRow::max_controlled_memory>("MAX_CONTROLLED_MEMORY", Unit::kBytes,
                                                         "Peak of controlled memory of its session."),
    col<&Row::thread, &ThreadRow::total_memory>("TOTAL_MEMORY", Unit::kBytes, "Memory that its session uses."),
    col<&Row::thread, &ThreadRow::max_total_memory>("MAX_TOTAL_MEMORY", Unit::kBytes, "Peak of memory of its session."),
    col<&Row::telemetry_active>("TELEMETRY_ACTIVE", Unit::kNone, "Whether a telemetry session is attached."));

// Returns COMMAND of a statement: the last part of statement/com/<name>, else Query.
std::string_view CommandOf(std::string_view statement) {
  constexpr std::string_view kCommands = "statement/com/";
  return statement.substr(0, kCommands.size()) == kCommands ? statement.substr(kCommands.size()) : "Query";
}

// Returns the live threads. What a program has not said about a thread is taken from its statement: the outermost one that runs, else the
// last one.
std::vector<ThreadRow> ThreadsAtWork(const Snapshot& snapshot) {
  std::vector<ThreadRow> rows = Threads(snapshot);
  if (rows.empty()) return rows;
  std::unordered_map<uint64_t, StatementRow> statements;
  ForEachStatement(snapshot, kViewCurrent, [&](const StatementRow& row) {
    const auto [found, is_first] = statements.try_emplace(row.event.thread_id, row);
    if (!is_first && row.event.event_id < found->second.event.event_id) found->second = row;
  });
  if (statements.empty()) return rows;
  for (ThreadRow& row : rows) {
    const auto found = statements.find(row.thread_id);
    if (found == statements.end()) continue;
    const StatementRow& statement = found->second;
    const bool is_running = !statement.event.end_event_id;
    if (!row.command) row.command = Text<16>(is_running ? CommandOf(statement.event.event_name.view()) : "Sleep");
    const std::optional<uint64_t> since = is_running ? statement.event.timer_start : statement.event.timer_end;
    if (!row.seconds && since) row.seconds = static_cast<int64_t>(ReadMoment::Since(snapshot.header(), *since)) / 1'000'000'000'000;
    if (!is_running) continue;
    if (!row.db) row.db = statement.schema;
    if (!row.info && statement.sql_text) row.info = LongText(CutText(statement.sql_text->view(), sizeof(ShmThreadTexts::info)));
  }
  return rows;
}

void ScanThreads(const Snapshot& snapshot, RowSink<Row> out) {
  for (const ThreadRow& row : ThreadsAtWork(snapshot)) {
    out({row, YesIf((row.flags & kThreadInstrumented) != 0), YesIf((row.flags & kThreadHistory) != 0)});
  }
}

Status UpdateRow(const Row& before, const Row& after) {
  return UpdateThread(before.thread.slot, before.thread.thread_id, ChangedTo(before.instrumented, after.instrumented),
                      ChangedTo(before.history, after.history));
}

// ---- processlist

struct Session {
  ThreadInstance instance;
  std::optional<Text<261>> host;
};
template <auto... Path>
constexpr Column OfThread(FixedText<48> name, Unit unit, FixedText<200> doc) {
  return col<&Session::instance, &ThreadInstance::thread, Path...>(name, unit, doc);
}
constexpr auto kSessionColumns =
    columns(OfThread<&ThreadRow::processlist_id>("ID", Unit::kNone, "Number of the session; joins threads.PROCESSLIST_ID."),
            OfThread<&ThreadRow::user>("USER", Unit::kNone, "User of the thread."),
            col<&Session::host>("HOST", Unit::kNone, "Host of that user, with the port if it is known: host:port."),
            OfThread<&ThreadRow::db>("DB", Unit::kNone, "Default database of the session."),
            OfThread<&ThreadRow::command>("COMMAND", Unit::kNone, "What the session does."),
            OfThread<&ThreadRow::seconds>("TIME", Unit::kSeconds, "For how long it has done so."),
            OfThread<&ThreadRow::state>("STATE", Unit::kNone, "Stage that it is in."),
            OfThread<&ThreadRow::info>("INFO", Unit::kNone, "Statement that it executes, cut to 1024 bytes.").literals(),
            col<&Session::instance, &ThreadInstance::engine>("EXECUTION_ENGINE", Unit::kNone, "Engine that executes its statements."));

void ScanSessions(const Snapshot& snapshot, RowSink<Session> out) {
  for (const ThreadRow& row : ThreadsAtWork(snapshot)) {
    if (!row.is_foreground()) continue;
    Session session{{row, YesNo::kYes, YesNo::kYes}, {}};
    if (row.host && row.peer_port != 0) {
      session.host = snapshot.Keep(std::string(row.host->view()) + ":" + std::to_string(row.peer_port));
    } else if (row.host) {
      session.host = row.host->view();
    }
    out(session);
  }
}

}  // namespace

constexpr TableDef tables::processlist{
    .doc = "The live threads that belong to users.",
    .key = {"ID"},
    .columns = columns_of<kSessionColumns>,
    .scan = scan<&ScanSessions>,
};
static_assert(ok(tables::processlist));

constexpr TableDef tables::threads{
    .doc = "The live threads that pfs knows: those that had an event or registered.",
    .ops = kSelect | kUpdate,
    .key = {"THREAD_ID"},
    .columns = columns_of<kThreadsColumns>,
    .scan = scan<&ScanThreads>,
    .update = update<&UpdateRow>,
};
static_assert(ok(tables::threads));

}  // namespace perfschema
