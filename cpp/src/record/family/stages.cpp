#include "record/family/stages.h"

#include <cerrno>

#include "record/context/tasks.h"
#include "record/family/elsewhere.h"
#include "record/probe/nested.h"

namespace perfschema {
namespace {

constexpr uint64_t kNotRecorded = ~uint64_t{0};  // the number of a stage without a row

void CloseStage(ThreadState& thread, uint64_t end_ticks) {
  const OpenStage stage = thread.stage;
  thread.stage = {};
  const Measured measured = MeasuredUntil(stage.flags, stage.start_ticks, end_ticks);
  if (StillHas(stage.record, stage.begun_state)) EndRecord<Kind::kStage>(thread, stage.record, stage.begun_state, measured.end_ticks);
  AddToSums<Kind::kStage>(thread, stage.class_index, stage.flags,
                          [&](ShmCell& cell) { AddToStat(cell.stat, measured.timed, measured.wait_ps); });
}

// Ends one stage and begins the next; they share a reading of the timer. Either may be absent.
void ChangeStage(ThreadState& thread, uint32_t class_index, const char* file, uint32_t line) {
  const NestedProbe probe(thread);
  if (!probe) return;
  thread.shared->stage.store(class_index, kRelaxed);  // also of a disabled stage (semantics.md G9)
  const uint32_t old_flags = thread.stage.flags, flags = FlagsInThread(thread, class_index);
  const bool was_open = thread.stage.class_index != 0;
  const uint64_t old_end = was_open ? TicksOf(old_flags) : 0;
  if (was_open) CloseStage(thread, old_end);
  if (flags != 0) {
    constexpr uint32_t kTiming = kFlagTimed | kFlagTimerMask | kFlagSlowTimer;
    const bool shares_ticks = was_open && (old_flags & kTiming) == (flags & kTiming);
    const bool has_progress = (g_runtime.classes[class_index].properties & kPropertyProgress) != 0;
    const BegunRecord begun = BeginRecord<Kind::kStage>(thread, class_index, flags, RunningStatement(thread),
                                                        thread.sources.Find(file, line), has_progress ? kRecordHasProgress : 0);
    auto* const record = static_cast<ShmStageRecord*>(begun.record);
    if (record != nullptr && has_progress) {
      record->work_completed.store(0, kRelease);
      record->work_estimated.store(0, kRelease);
    }
    const uint64_t start = shares_ticks ? old_end : TicksOf(flags);
    ShowRecord(begun, start);
    thread.stage = {record, begun.begun_state, begun.event_id, start, flags, class_index};
  }
  SetParentOfWaits(thread);
}

// Returns the record of the running stage if that has progress, or nullptr.
ShmStageRecord* ProgressOf(const ThreadState* thread) {
  if (thread == nullptr || (thread->stage.begun_state & kRecordHasProgress) == 0) return nullptr;
  return StillHas(thread->stage.record, thread->stage.begun_state) ? thread->stage.record : nullptr;
}

}  // namespace

void BeginStage(uint32_t class_index, const char* file, uint32_t line) {
  if (ThreadState* const thread = CurrentThread(); thread != nullptr) ChangeStage(*thread, class_index, file, line);
}

void EndStage() {
  ThreadState* const thread = t_locals.state;
  if (thread != nullptr && thread->shared->stage.load(kRelaxed) + thread->stage.class_index != 0) ChangeStage(*thread, 0, nullptr, 0);
}

uint64_t EndStageElsewhere(ThreadState* owner, Task* task) {
  ThreadState* const here = CurrentThread();
  if (here == nullptr || owner == here || IsInterrupted(*here)) return 0;
  const int error = errno;
  OpenStage stage{};
  uint64_t number = 0, end_ticks = 0;
  if (const ColdLock lock; lock) {
    if (task != nullptr) owner = task->thread.load(kRelaxed);  // nullptr: it has ended
    const bool runs = owner != nullptr && owner->task == task;
    OpenStage* const place = runs ? &owner->stage : task != nullptr ? &task->stage : owner == nullptr ? nullptr : &owner->own_work->stage;
    if (place != nullptr) stage = *place;
    end_ticks = TicksOf(stage.flags);
    if (owner != nullptr && stage.record != nullptr) (void)EndRecordOf(*owner, stage.record, stage.begun_state, end_ticks);
    if (!runs && place != nullptr) {
      *place = {};
      Task& aside = task != nullptr ? *task : *owner->own_work;
      aside.shown_stage = 0;
    } else if (stage.class_index != 0) {
      number = stage.event_id != 0 ? stage.event_id : kNotRecorded;
    }
  }
  errno = error;
  if (stage.class_index == 0) {  // it does not run; or the thread and its stage are gone
    if (owner == nullptr && task == nullptr) CountLoss(Loss::kLockers);
    return 0;
  }
  if (const NestedProbe probe(*here); probe) {
    const Measured measured = MeasuredUntil(stage.flags, stage.start_ticks, end_ticks);
    AddToSums<Kind::kStage>(*here, stage.class_index, stage.flags,
                            [&](ShmCell& cell) { AddToStat(cell.stat, measured.timed, measured.wait_ps); });
  }
  return number;
}

void ForgetEndedStage(uint64_t number) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || thread->stage.class_index == 0 || thread->stage.event_id != (number == kNotRecorded ? 0 : number)) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  thread->stage = {};
  thread->shared->stage.store(0, kRelaxed);
  SetParentOfWaits(*thread);
}

void SetStageProgress(const uint64_t* completed, const uint64_t* estimated) {
  ShmStageRecord* const record = ProgressOf(t_locals.state);
  if (record == nullptr) return;
  if (completed != nullptr) record->work_completed.store(*completed, kRelease);
  if (estimated != nullptr) record->work_estimated.store(*estimated, kRelease);
}

void AddStageProgress(uint64_t completed) {
  ShmStageRecord* const record = ProgressOf(t_locals.state);
  if (record != nullptr) record->work_completed.store(record->work_completed.load(kRelaxed) + completed, kRelease);
}

}  // namespace perfschema
