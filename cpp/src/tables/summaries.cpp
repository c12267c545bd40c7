// Summaries of waits and files: (keys.h) x (Stat or IoStat) x (one scan each).
#include "aggregate/resets.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

using Domain = ResetDomain;
constexpr auto kResetObjects = Reset<Domain::kMutexInstances, Domain::kFileInstances>;
constexpr auto kResetAll =
    Reset<Domain::kMutexInstances, Domain::kFileInstances, Domain::kMutexClasses, Domain::kFileClasses>;
constexpr auto kResetThreads = Reset<Domain::kThreadWaits>;
constexpr auto kResetFiles = Reset<Domain::kFileInstances>;
constexpr auto kResetAllFiles = Reset<Domain::kFileInstances, Domain::kFileClasses>;

void WaitsByObject(const Snapshot& snapshot, RowSink<SummaryRow<ObjectKey, Stat>> out) {
  snapshot.ForEachMutex([&](const MutexRow& row) { out({{row.instrument->name, row.identity}, row.wait}); });
  snapshot.ForEachFile([&](const FileRow& row) { out({{row.instrument->name, row.identity}, row.io.total()}); });
}
void WaitsByThread(const Snapshot& snapshot, RowSink<SummaryRow<ThreadEventKey, Stat>> out) {
  snapshot.ForEachThreadWait([&](const ThreadWaitRow& row) { out({{row.thread_id, row.instrument->name}, row.wait}); });
}
void WaitsByEvent(const Snapshot& snapshot, RowSink<SummaryRow<EventKey, Stat>> out) {
  snapshot.ForEachClassTotal([&](const ClassTotalRow& row) { out({{row.instrument->name}, row.io.total()}); });
}
void FilesByEvent(const Snapshot& snapshot, RowSink<SummaryRow<EventKey, IoStat>> out) {
  snapshot.ForEachClassTotal([&](const ClassTotalRow& row) {
    if (row.instrument->family == Family::kFile) out({{row.instrument->name}, row.io});
  });
}
void FilesByObject(const Snapshot& snapshot, RowSink<SummaryRow<FileKey, IoStat>> out) {
  snapshot.ForEachFile([&](const FileRow& row) { out({{row.name, row.instrument->name, row.identity}, row.io}); });
}

}  // namespace

constexpr TableDef tables::events_waits_summary_by_instance =
    summary<ObjectKey, Stat, WaitsByObject>("Waits on each live object.", kResetObjects);
static_assert(ok(tables::events_waits_summary_by_instance));

constexpr TableDef tables::events_waits_summary_by_thread_by_event_name =
    summary<ThreadEventKey, Stat, WaitsByThread>("Waits of each live thread, by instrument.", kResetThreads);
static_assert(ok(tables::events_waits_summary_by_thread_by_event_name));

constexpr TableDef tables::events_waits_summary_global_by_event_name = summary<EventKey, Stat, WaitsByEvent>(
    "Waits of the process by instrument, those of dead threads and objects included.", kResetAll);
static_assert(ok(tables::events_waits_summary_global_by_event_name));

constexpr TableDef tables::file_summary_by_event_name = summary<EventKey, IoStat, FilesByEvent>(
    "File operations by instrument, those on deleted files included.", kResetAllFiles);
static_assert(ok(tables::file_summary_by_event_name));

constexpr TableDef tables::file_summary_by_instance =
    summary<FileKey, IoStat, FilesByObject>("File operations on each known file.", kResetFiles);
static_assert(ok(tables::file_summary_by_instance));

}  // namespace perfschema
