// threads: the live threads.
#include "setup/setup.h"
#include "tables/tables.h"

namespace perfschema {
namespace {
enum class Engine : uint8_t { kPrimary = 0, kSecondary };
}

template <>
struct EnumNames<Engine> {
  static constexpr std::string_view kValues[] = {"PRIMARY", "SECONDARY"};
};

namespace {

struct ThreadInstance {
  ThreadRow thread;
  YesNo instrumented, history;

  Text<128> name() const { return thread.name; }
  uint64_t thread_id() const { return thread.thread_id; }
  Text<10> type() const { return (thread.flags & kThreadForeground) != 0 ? "FOREGROUND" : "BACKGROUND"; }
  YesNo telemetry_active() const { return YesNo::kNo; }
  uint64_t nothing_yet() const { return 0; }
  // Columns that no thread has a value for yet.
  template <typename T>
  std::optional<T> unset() const {
    return {};
  }
};
using Row = ThreadInstance;

constexpr auto kColumns = columns(
    col<&Row::thread_id>("THREAD_ID", Unit::kNone, "Number of the thread, never used twice in a process."),
    col<&Row::name>("NAME", Unit::kNone, "Name of the thread, which begins with thread/."),
    col<&Row::type>("TYPE", Unit::kNone, "FOREGROUND if it works for a user, else BACKGROUND."),
    col<&Row::thread, &ThreadRow::processlist_id>("PROCESSLIST_ID", Unit::kNone,
                                                  "Number of the session; NULL for background threads."),
    col<&Row::thread, &ThreadRow::user>("PROCESSLIST_USER", Unit::kNone, "User that it works for."),
    col<&Row::thread, &ThreadRow::host>("PROCESSLIST_HOST", Unit::kNone, "Host of that user."),
    col<&Row::thread, &ThreadRow::db>("PROCESSLIST_DB", Unit::kNone, "Default database of the session."),
    col<&Row::unset<Text<16>>>("PROCESSLIST_COMMAND", Unit::kNone, "What the session does."),
    col<&Row::unset<int64_t>>("PROCESSLIST_TIME", Unit::kSeconds, "For how long it has done so."),
    col<&Row::unset<Text<64>>>("PROCESSLIST_STATE", Unit::kNone, "Stage that it is in."),
    col<&Row::unset<LongText>>("PROCESSLIST_INFO", Unit::kNone, "Statement that it executes."),
    col<&Row::thread, &ThreadRow::parent_thread_id>("PARENT_THREAD_ID", Unit::kNone,
                                                    "Thread that started it; NULL if not known."),
    col<&Row::unset<Text<64>>>("ROLE", Unit::kNone, "Not used."),
    col<&Row::instrumented>("INSTRUMENTED", Unit::kNone, "Whether its events are counted and recorded.").writable(),
    col<&Row::history>("HISTORY", Unit::kNone, "Whether its events go to the history tables.").writable(),
    col<&Row::unset<Text<16>>>("CONNECTION_TYPE", Unit::kNone, "Protocol of the session."),
    col<&Row::thread, &ThreadRow::os_id>("THREAD_OS_ID", Unit::kNone, "Number of the thread in the operating system."),
    col<&Row::unset<Text<64>>>("RESOURCE_GROUP", Unit::kNone, "Resource group of the thread."),
    col<&Row::unset<Engine>>("EXECUTION_ENGINE", Unit::kNone, "Engine that executes its statements."),
    col<&Row::nothing_yet>("CONTROLLED_MEMORY", Unit::kBytes, "Controlled memory that it uses."),
    col<&Row::nothing_yet>("MAX_CONTROLLED_MEMORY", Unit::kBytes, "Most controlled memory that it has used."),
    col<&Row::nothing_yet>("TOTAL_MEMORY", Unit::kBytes, "Memory that it uses."),
    col<&Row::nothing_yet>("MAX_TOTAL_MEMORY", Unit::kBytes, "Most memory that it has used."),
    col<&Row::telemetry_active>("TELEMETRY_ACTIVE", Unit::kNone, "Whether a telemetry session is attached."));

void ScanThreads(const Snapshot& snapshot, RowSink<Row> out) {
  for (const ThreadRow& row : snapshot.Threads()) {
    out({row, YesIf((row.flags & kThreadInstrumented) != 0), YesIf((row.flags & kThreadHistory) != 0)});
  }
}

std::optional<bool> ChangedTo(YesNo before, YesNo after) {
  return before == after ? std::optional<bool>() : after == YesNo::kYes;
}

Status UpdateRow(const Row& before, const Row& after) {
  return UpdateThread(before.thread.slot, before.thread.thread_id, ChangedTo(before.instrumented, after.instrumented),
                      ChangedTo(before.history, after.history));
}

}  // namespace

constexpr TableDef tables::threads{
    .doc = "The live threads that have come across pfs.",
    .ops = kSelect | kUpdate,
    .key = {"THREAD_ID"},
    .columns = kColumns,
    .scan = scan<&ScanThreads>,
    .update = update<&UpdateRow>,
};
static_assert(ok(tables::threads));

}  // namespace perfschema
