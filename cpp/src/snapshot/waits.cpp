#include "snapshot/event_reader.h"

namespace perfschema {

struct WaitEvent {
  static constexpr Kind kKind = Kind::kWait;
  using Row = WaitRow;
  // Each word is zero unless `state` says that it is used.
  struct Extra {
    uint64_t bytes, flags_and_name, version_and_type, index_name;
  };

  static bool Load(const Snapshot&, const ShmRecord& record, uint64_t capacity, uint64_t state, Extra* extra) {
    constexpr uint64_t kHasDetails = kRecordHasBytes | kRecordHasFlags | kRecordHasName | kRecordHasIndex;
    *extra = {};
    if ((state & kHasDetails) == 0) return true;
    if (capacity < sizeof(ShmWaitRecord) + sizeof(ShmWaitDetails)) return false;  // damaged: there is no second place
    const ShmWaitDetails& details = static_cast<const ShmWaitRecord&>(record).details();
    extra->bytes = details.bytes.load(kAcquire);
    extra->flags_and_name = details.flags_and_name.load(kAcquire);
    extra->version_and_type = details.version_and_type.load(kAcquire);
    if ((state & kRecordHasIndex) != 0) extra->index_name = details.index_name.load(kAcquire);
    return true;
  }

  static bool IsNested(const EventHead& head) { return head.nesting_event_id != 0 && head.nesting_type() == kNestingWait; }

  static void Emit(const Snapshot& snapshot, const EventHead& head, const Extra& extra, const std::function<void(const Row&)>& use) {
    const ClassRow* instrument = snapshot.ClassAt(head.class_index());
    const uint64_t operation = head.operation();
    if (instrument == nullptr || operation >= std::size(kOperations)) return;  // younger than this snapshot, or damaged
    WaitRow row{};
    FillRow(snapshot, head, *instrument, &row.event);
    if (!head.is_open() && (head.state & kRecordHasSpins) != 0) row.spins = static_cast<uint32_t>(head.end_info >> 32);
    if ((head.state & kRecordHasName) != 0) {
      DescribeObject(snapshot, head.state, extra.flags_and_name, extra.version_and_type, &row.object_schema, &row.object_name);
    }
    const std::string_view object_type = kFamilies[static_cast<int>(instrument->family)].object_type;
    if (!object_type.empty()) row.object_type = object_type;
    if ((head.state & kRecordHasName) != 0) {
      const uint64_t type = extra.version_and_type >> 32;
      if (type > 0 && type < std::size(kObjectTypeNames)) row.object_type = kObjectTypeNames[type];
    }
    if ((head.state & kRecordHasIndex) != 0) {
      std::string_view name;
      if (snapshot.CopyName(static_cast<uint32_t>(extra.index_name >> 32), static_cast<uint32_t>(extra.index_name), &name))
        row.index_name = name;
    }
    row.object = head.object;
    row.operation = kOperations[operation].shown;
    if ((head.state & kRecordHasBytes) != 0) row.number_of_bytes = static_cast<int64_t>(extra.bytes);
    if ((head.state & kRecordHasFlags) != 0) {
      row.flags = static_cast<uint32_t>(extra.flags_and_name);
    } else if (instrument->family == Family::kFile) {
      row.flags = 0;  // MySQL shows NULL for other waits only
    }
    use(row);
  }
};

void DescribeObject(const Snapshot& snapshot, uint64_t state, uint64_t flags_and_name, uint64_t version_and_type,
                    std::optional<Text<64>>* schema, std::optional<Text<512>>* name) {
  std::string_view full;
  if (!snapshot.CopyName(static_cast<uint32_t>(flags_and_name >> 32), static_cast<uint32_t>(version_and_type), &full)) return;
  const size_t end = (state & kRecordHasSchema) != 0 ? full.find('\0') : std::string_view::npos;
  if (end != std::string_view::npos) {
    if (end != 0) *schema = full.substr(0, end);
    full.remove_prefix(end + 1);
    full = full.substr(0, full.find('\0'));
  }
  if (end == std::string_view::npos || !full.empty()) *name = full;
}

void ForEachWait(const Snapshot& snapshot, uint32_t view, const std::function<void(const WaitRow&)>& use, const Expect& expect) {
  EventReader<WaitEvent>(snapshot).ForEach(view, use, expect);
}

void ForEachTracedWait(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use) {
  EventReader<WaitEvent>(snapshot).ForEachTraced(cursor, use);
}

}  // namespace perfschema
