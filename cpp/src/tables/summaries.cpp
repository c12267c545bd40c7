// Summaries of waits, files and sockets: (keys.h) x (Stat or lanes) x (one scan for each).
#include "aggregate/resets.h"
#include "snapshot/objects.h"
#include "snapshot/sums.h"
#include "tables/keys.h"
#include "tables/tables.h"

namespace perfschema {

// The waits of an instrument, and where the longest one began.
struct EventWaits {
  Stat all;
  std::optional<Text<64>> longest_source;
};
template <>
struct StatsColumns<EventWaits> {
  template <auto... Path>
  static constexpr auto Get() {
    // Merged rows show the longest wait of all, and where it began.
    constexpr size_t kMax = 4;
    auto waits = StatsColumns<Stat>::Get<Path..., &EventWaits::all>();
    waits[kMax] = waits[kMax].across(Across::kSampled);
    return columns(waits, col<Path..., &EventWaits::longest_source>(
                              "MAX_SOURCE", Unit::kNone,
                              "File and line of the longest wait for a lock or a condition; NULL if unknown. An addition of pfs.")
                              .combines(Combine::kMost)
                              .across(Across::kSampled));
  }
};

namespace {

using Group = ResetGroup;
constexpr auto kResetObjects = Reset<Part::kObjects, Group::kSync, Group::kFile, Group::kSocket>;
constexpr auto kResetAll = Reset<Part::kAll, Group::kSync, Group::kFile, Group::kSocket, Group::kTableIo, Group::kTableLock>;
constexpr auto kResetFiles = Reset<Part::kObjects, Group::kFile>;
constexpr auto kResetAllFiles = Reset<Part::kAll, Group::kFile>;
constexpr auto kResetSockets = Reset<Part::kObjects, Group::kSocket>;
constexpr auto kResetAllSockets = Reset<Part::kAll, Group::kSocket>;

void WaitsByObject(const Snapshot& snapshot, RowSink<SummaryRow<ObjectKey, Stat>> out) {
  out.Expect(MostInstances(snapshot) + MostFiles(snapshot));
  ForEachInstance(snapshot, [&](const InstanceRow& row) { out({{row.instrument->name, row.identity}, row.wait}); });
  ForEachFile(snapshot, kFileNumbers, [&](const FileRow& row) { out({{row.instrument->name, row.identity}, row.io.total()}); });
}
void WaitsByThread(const Snapshot& snapshot, RowSink<SummaryRow<ThreadEventKey, Stat>> out) {
  ForEachSum(snapshot, Kind::kWait, Level::kThread, [&](const SumRow& row) {
    out({{row.thread_id, row.instrument->name}, WaitStatIn(row.numbers)});
  });
}
void WaitsByEvent(const Snapshot& snapshot, RowSink<SummaryRow<EventKey, EventWaits>> out) {
  ForEachClassTotal(snapshot, [&](const ClassTotalRow& row) { out({{row.instrument->name}, {row.lanes.total(), row.longest_source}}); });
}
template <Family kFamily, typename Stats>
void IoByEvent(const Snapshot& snapshot, RowSink<SummaryRow<EventKey, Stats>> out) {
  ForEachClassTotal(snapshot, [&](const ClassTotalRow& row) {
    if (row.instrument->family == kFamily) out({{row.instrument->name}, {row.lanes.first<kFileLanes>()}});
  });
}
void FilesByObject(const Snapshot& snapshot, RowSink<SummaryRow<FileKey, FileLanes>> out) {
  out.Expect(CountFiles(snapshot, Family::kFile));
  ForEachFile(snapshot, kFileNumbers | kFileName, [&](const FileRow& row) {
    if (row.instrument->family == Family::kFile) out({{row.name, row.instrument->name, row.identity}, {row.io}});
  });
}
void SocketsByObject(const Snapshot& snapshot, RowSink<SummaryRow<ObjectKey, SocketLanes>> out) {
  out.Expect(CountFiles(snapshot, Family::kSocket));
  ForEachFile(snapshot, kFileNumbers, [&](const FileRow& row) {
    if (row.instrument->family == Family::kSocket) out({{row.instrument->name, row.identity}, {row.io}});
  });
}

}  // namespace

constexpr TableDef tables::events_waits_summary_by_instance =
    summary<ObjectKey, Stat, WaitsByObject>("Waits on each live object.", kResetObjects);
static_assert(ok(tables::events_waits_summary_by_instance));

constexpr TableDef tables::events_waits_summary_by_thread_by_event_name =
    summary<ThreadEventKey, Stat, WaitsByThread>("Waits of each live thread, by instrument.", ResetLevel<Kind::kWait, Level::kThread>);
static_assert(ok(tables::events_waits_summary_by_thread_by_event_name));

constexpr TableDef tables::events_waits_summary_global_by_event_name = summary<EventKey, EventWaits, WaitsByEvent>(
    "Waits of the process by instrument, those of dead threads and objects included.", kResetAll);
static_assert(ok(tables::events_waits_summary_global_by_event_name));

constexpr TableDef tables::file_summary_by_event_name = summary<EventKey, FileLanes, IoByEvent<Family::kFile, FileLanes>>(
    "File operations by instrument, those on deleted files included.", kResetAllFiles);
static_assert(ok(tables::file_summary_by_event_name));

constexpr TableDef tables::file_summary_by_instance =
    summary<FileKey, FileLanes, FilesByObject>("File operations on each known file.", kResetFiles);
static_assert(ok(tables::file_summary_by_instance));

constexpr TableDef tables::socket_summary_by_event_name = summary<EventKey, SocketLanes, IoByEvent<Family::kSocket, SocketLanes>>(
    "Socket operations by instrument, those on closed sockets included.", kResetAllSockets);
static_assert(ok(tables::socket_summary_by_event_name));

constexpr TableDef tables::socket_summary_by_instance =
    summary<ObjectKey, SocketLanes, SocketsByObject>("Socket operations on each open socket.", kResetSockets);
static_assert(ok(tables::socket_summary_by_instance));

}  // namespace perfschema
