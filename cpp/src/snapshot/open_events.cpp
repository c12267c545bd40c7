#include "snapshot/open_events.h"

#include <algorithm>
#include <tuple>

#include "shm/records.h"
#include "snapshot/moment.h"
#include "snapshot/snapshot.h"
#include "snapshot/threads.h"

namespace perfschema {
namespace {

// Returns what events of all kinds have. `row` is open.
OpenEvent Begun(const Snapshot& snapshot, NestingType kind, const EventRow& row) {
  OpenEvent open{};
  open.kind = kind;
  open.event = row;
  if (row.timer_start) open.event.timer_wait = ReadMoment::Since(snapshot.header(), *row.timer_start);
  return open;
}

bool IsOpen(const EventRow& row) { return !row.end_event_id; }

}  // namespace

std::vector<OpenEvent> OpenWaits(const Snapshot& snapshot) {
  std::vector<OpenEvent> found;
  ForEachWait(snapshot, kViewCurrent, [&](const WaitRow& row) {
    if (!IsOpen(row.event)) return;
    OpenEvent open = Begun(snapshot, NestingType::kWait, row.event);
    open.operation = row.operation;
    open.object_name = row.object_name;
    open.object = row.object;
    open.schema = row.object_schema;
    found.push_back(open);
  });
  return found;
}

std::vector<OpenEvent> OpenEvents(const Snapshot& snapshot) {
  std::vector<OpenEvent> found = OpenWaits(snapshot);
  ForEachTransaction(snapshot, kViewCurrent, [&](const TransactionRow& row) {
    if (IsOpen(row.event)) found.push_back(Begun(snapshot, NestingType::kTransaction, row.event));
  });
  ForEachStatement(snapshot, kViewCurrent, [&](const StatementRow& row) {
    if (!IsOpen(row.event)) return;
    OpenEvent open = Begun(snapshot, NestingType::kStatement, row.event);
    open.schema = row.schema;
    open.sql_text = row.sql_text;
    open.digest_text = row.digest_text;
    found.push_back(open);
  });
  ForEachStage(snapshot, kViewCurrent, [&](const StageRow& row) {
    if (IsOpen(row.event)) found.push_back(Begun(snapshot, NestingType::kStage, row.event));
  });
  std::sort(found.begin(), found.end(), [](const OpenEvent& a, const OpenEvent& b) {
    return std::tie(a.event.thread_id, a.event.event_id) < std::tie(b.event.thread_id, b.event.event_id);
  });
  std::unordered_map<uint64_t, Text<128>> names = ThreadNames(snapshot);
  for (OpenEvent& open : found) open.thread = names[open.event.thread_id];
  return found;
}

}  // namespace perfschema
