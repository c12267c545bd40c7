#include "record/context/tasks.h"

#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/rounding.h"
#include "record/family/text_buffers.h"
#include "record/probe/nested.h"

namespace perfschema {
namespace {

// Returns nullptr without memory. The text buffers follow the task.
Task* NewTask(ThreadState& thread, bool has_texts) {
  const size_t bytes = RoundUp(sizeof(Task) + g_runtime.statement_stack * sizeof(OpenStatement), 64);
  void* const memory = std::malloc(bytes + (has_texts ? BytesOfTextBuffers() : 0));
  if (memory == nullptr) return nullptr;
  Task* const task = new (memory) Task{};
  std::fill_n(task->statements, g_runtime.statement_stack, OpenStatement{});
  task->thread.store(&thread, kRelaxed);
  task->texts = has_texts ? static_cast<char*>(memory) + bytes : thread.texts;
  if (has_texts) std::fill_n(reinterpret_cast<uint64_t*>(task->texts), g_runtime.statement_stack + 1, 0);
  return task;
}

void PutAside(ThreadState& thread, Task& task) {
  task.shown_stage = static_cast<uint32_t>(thread.shared->stage.load(kRelaxed));
  task.wait_depth = thread.wait_depth();
  std::copy_n(thread.open_waits, task.wait_depth, task.open_waits);
  task.stage = thread.stage;
  task.transaction = thread.transaction;
  task.statement_depth = thread.statement_depth;
  std::copy_n(thread.statements, task.statement_depth, task.statements);
}

// Makes the task's events the running ones. REQUIRES: inside a probe, which goes on.
void PutBack(ThreadState& thread, const Task& task) {
  thread.shared->stage.store(task.shown_stage, kRelaxed);
  // Its waits may have begun on another stack: none of them lies below a frame of this one.
  for (uint32_t i = 0; i < task.wait_depth; ++i) thread.open_waits[i] = {task.open_waits[i].record, kNoFrame};
  EnterProbe(thread, task.wait_depth);
  thread.fast_bytes = 0;
  thread.stage = task.stage;
  thread.transaction = task.transaction;
  thread.statement_depth = task.statement_depth;
  std::copy_n(task.statements, task.statement_depth, thread.statements);
  thread.texts = task.texts;
  SetParentOfWaits(thread);
}

// Drops the task's open events, which will never be ended.
void DropEvents(const Task& task) {
  for (uint32_t i = 0; i < task.wait_depth; ++i) DropRecord(task.open_waits[i].record, task.open_waits[i].record->state.load(kRelaxed));
  DropRecord(task.stage.record, task.stage.begun_state);
  DropRecord(task.transaction.record, task.transaction.begun_state);
  for (uint32_t i = 0; i < task.statement_depth; ++i) DropRecord(task.statements[i].record, task.statements[i].begun_state);
}

// REQUIRES: cold lock; the calling thread has this instrumentation attached, and runs another task.
void Free(ThreadState& thread, Task* task) {
  DropEvents(*task);
  Task** place = &thread.tasks;
  while (*place != nullptr && *place != task) place = &(*place)->next;
  if (*place != nullptr) *place = task->next;
  std::free(task);
}

// Frees the tasks that other threads destroyed. REQUIRES: cold lock.
void FreeDead(ThreadState& thread) {
  for (Task* task = thread.tasks; task != nullptr;) {
    Task* const next = task->next;
    if (task->is_dead.load(kRelaxed) && task != thread.task) Free(thread, task);
    task = next;
  }
}

}  // namespace

TaskParent DescribeTaskParent() {
  const ThreadState* const thread = AttachedThread();
  if (thread == nullptr) return {};
  return {thread->thread_id, RunningStatement(*thread).event_id, thread->transaction.event_id, thread->statement_depth};
}

Task* MakeTask(const TaskParent* parent) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr || IsInterrupted(*thread)) return nullptr;
  const int error = errno;
  Task* task = nullptr;
  if (const ColdLock lock; lock) {
    FreeDead(*thread);
    if (thread->own_work == nullptr) thread->own_work = NewTask(*thread, false);
    if (thread->own_work != nullptr) task = NewTask(*thread, true);
    if (task != nullptr) {
      task->next = thread->tasks;
      thread->tasks = task;
    }
  }
  errno = error;
  if (task == nullptr || parent == nullptr || parent->thread_id != thread->thread_id) return task;
  // Enclosing statements are in its stack, too, but without a record: the parent ends them.
  task->statement_depth = parent->depth;
  if (parent->depth != 0) task->statements[parent->depth - 1].event_id = parent->statement;
  task->transaction.event_id = parent->transaction;
  return task;
}

bool SwitchTo(Task* task) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || (task != nullptr && task->thread.load(kRelaxed) != thread)) return false;
  if (thread->task == task) return true;
  if (IsInterrupted(*thread)) return false;
  const NestedProbe probe(*thread);
  PutAside(*thread, thread->task == nullptr ? *thread->own_work : *thread->task);
  PutBack(*thread, task == nullptr ? *thread->own_work : *task);
  thread->task = task;
  return true;
}

void DestroyTask(Task* task) {
  if (task == nullptr) return;
  const int error = errno;
  ThreadState* const here = t_locals.state;
  if (here != nullptr && here->task == task) SwitchTo(nullptr);
  if (const ColdLock lock; lock) {
    ThreadState* const thread = task->thread.load(kRelaxed);
    if (thread == nullptr) {
      std::free(task);
    } else if (thread == here && here->task != task) {
      Free(*thread, task);
    } else {
      task->is_dead.store(true, kRelaxed);
    }
  } else {
    task->is_dead.store(true, kRelaxed);
  }
  errno = error;
}

void ForgetTasks(ThreadState& thread, bool has_records) {
  if (thread.task != nullptr) PutAside(thread, *thread.task);
  if (thread.task != nullptr && has_records) DropEvents(*thread.own_work);
  for (Task* task = thread.tasks; task != nullptr;) {
    Task* const next = task->next;
    if (has_records) DropEvents(*task);
    task->thread.store(nullptr, kRelaxed);
    if (task->is_dead.load(kRelaxed)) std::free(task);
    task = next;
  }
  std::free(thread.own_work);
  thread.task = thread.own_work = thread.tasks = nullptr;
}

}  // namespace perfschema
