// error_log.
#include "record/declared/log.h"
#include "snapshot/program.h"
#include "tables/tables.h"

namespace perfschema {

template <>
struct EnumNames<LogPriority> {
  static constexpr std::string_view kValues[] = {"System", "Error", "Warning", "Note"};
};

namespace {

struct LogEvent {
  Timestamp logged;
  std::optional<uint64_t> thread_id;
  LogPriority priority;
  std::optional<Text<10>> code;
  std::optional<Text<7>> subsystem;
  PlainText data;
};
constexpr auto kErrorLogColumns = columns(
    col<&LogEvent::logged>("LOGGED", Unit::kNone, "When it was logged; one microsecond after the previous event if both came together."),
    col<&LogEvent::thread_id>("THREAD_ID", Unit::kNone, "Thread that logged it; joins threads.THREAD_ID while it lives."),
    col<&LogEvent::priority>("PRIO", Unit::kNone, "How important it is."),
    col<&LogEvent::code>("ERROR_CODE", Unit::kNone, "Code of the message, such as MY-010000."),
    col<&LogEvent::subsystem>("SUBSYSTEM", Unit::kNone, "Part of the program that logged it."),
    col<&LogEvent::data>("DATA", Unit::kNone, "The message.").literals());
void ScanErrorLog(const Snapshot& snapshot, RowSink<LogEvent> out) {
  ForEachLogEvent(snapshot, [&](const LogRow& row) {
    out({{static_cast<int64_t>(row.logged)},
         row.thread_id,
         static_cast<LogPriority>(row.priority),
         row.code,
         row.subsystem,
         row.data.view()});
  });
}

}  // namespace

constexpr TableDef tables::error_log{
    .doc = "The last 5 MiB that the program logged; the oldest events are dropped first.",
    .key = {"LOGGED"},
    .columns = columns_of<kErrorLogColumns>,
    .scan = scan<&ScanErrorLog>,
};
static_assert(ok(tables::error_log));

}  // namespace perfschema
