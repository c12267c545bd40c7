#include "snapshot/event_reader.h"

namespace perfschema {

struct StageEvent {
  static constexpr Kind kKind = Kind::kStage;
  using Row = StageRow;
  struct Extra {
    uint64_t completed, estimated;
  };

  static bool Load(const Snapshot&, const ShmRecord& record, uint64_t, uint64_t state, Extra* extra) {
    const auto& stage = static_cast<const ShmStageRecord&>(record);
    const bool has_progress = (state & kRecordHasProgress) != 0;
    *extra = {has_progress ? stage.work_completed.load(kAcquire) : 0, has_progress ? stage.work_estimated.load(kAcquire) : 0};
    return true;
  }

  static bool IsNested(const EventHead&) { return false; }

  static void Emit(const Snapshot& snapshot, const EventHead& head, const Extra& extra, const std::function<void(const Row&)>& use) {
    const ClassRow* instrument = snapshot.ClassAt(head.class_index());
    if (instrument == nullptr) return;  // younger than this snapshot, or damaged
    StageRow row{};
    FillRow(snapshot, head, *instrument, &row.event);
    if ((head.state & kRecordHasProgress) != 0) {
      row.work_completed = extra.completed;
      row.work_estimated = extra.estimated;
    }
    use(row);
  }
};

void ForEachStage(const Snapshot& snapshot, uint32_t view, const std::function<void(const StageRow&)>& use, const Expect& expect) {
  EventReader<StageEvent>(snapshot).ForEach(view, use, expect);
}

void ForEachTracedStage(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use) {
  EventReader<StageEvent>(snapshot).ForEachTraced(cursor, use);
}

}  // namespace perfschema
