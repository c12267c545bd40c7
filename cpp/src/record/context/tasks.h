// record/context/tasks.h: tasks that share a thread, as coroutines and fibers do. While another task runs, the open
// events of a task (waits, stage, statements, transaction) are put aside. They stay open.
//
// Threads: a task belongs to the instrumentation that made it. Only its own thread may switch to it; any thread may
// destroy it.
#pragma once

#include <algorithm>
#include <atomic>

#include "record/context/threads.h"

namespace perfschema {

// The event that new tasks are nested in.
struct TaskParent {
  uint64_t thread_id;  // EVENT_IDs are numbers within a thread
  uint64_t statement;  // EVENT_ID, 0 = none
  uint64_t transaction;
  uint32_t depth;  // number of running statements
};

// The open events of a suspended task. The fields are those of ThreadState.
struct Task {
  std::atomic<ThreadState*> thread;  // nullptr: the instrumentation has ended. Changes under the cold lock
  std::atomic<bool> is_dead;         // destroyed by a thread that must not free it
  Task* next;                        // next task of the instrumentation
  char* texts;                       // the task's own buffers, also while it runs; for the thread's own work: the thread's buffers
  uint32_t shown_stage;
  uint32_t wait_depth;
  OpenWait open_waits[kMaxNestedWaits];
  OpenStage stage;
  OpenTransaction transaction;
  uint32_t statement_depth;
  OpenStatement statements[];  // capacity: the max_statement_stack option
};

// Describes the events that run in the calling thread.
TaskParent DescribeTaskParent();
// Makes a task. Returns nullptr without memory, without an instrumentation, or in a signal handler that interrupted
// pfs. Cold.
Task* MakeTask(const TaskParent* parent);
// Makes `task` the running task; nullptr: the thread's own work. Returns false if the task belongs to another thread,
// or in a signal handler that interrupted pfs.
bool SwitchTo(Task* task);
// Drops the open events of the task and frees it. If it is the running task, the thread's own work becomes the
// running one. Cold.
void DestroyTask(Task* task);

// Forgets all tasks when the instrumentation ends, or when a child of fork() has lost the records of its events.
// REQUIRES: cold lock.
void ForgetTasks(ThreadState& thread, bool has_records);

// Calls take() for the suspended tasks of a thread, its own work among them, until it returns true. Returns whether it has. REQUIRES: cold
// lock.
template <typename Take>
bool AnyAside(const ThreadState& thread, Take take) {
  if (thread.task != nullptr && take(*thread.own_work)) return true;
  for (Task* task = thread.tasks; task != nullptr; task = task->next) {
    if (task != thread.task && take(*task)) return true;
  }
  return false;
}

// Returns true if is_one() holds for an open event of the kind in a suspended task. REQUIRES: the calling thread.
template <typename IsOne>
bool AnyOpenInTasks(const ThreadState& thread, Kind kind, IsOne is_one) {
  const auto has = [&](const Task* task) {
    if (task == nullptr || task == thread.task) return false;
    switch (kind) {
      case Kind::kWait:
        return std::any_of(task->open_waits, task->open_waits + task->wait_depth,
                           [&](const OpenWait& open) { return is_one(open.record); });
      case Kind::kStage:
        return is_one(task->stage.record);
      case Kind::kStatement:
        return std::any_of(task->statements, task->statements + task->statement_depth,
                           [&](const OpenStatement& open) { return is_one(open.record); });
      default:
        return is_one(task->transaction.record);
    }
  };
  if (thread.task != nullptr && has(thread.own_work)) return true;
  for (const Task* task = thread.tasks; task != nullptr; task = task->next) {
    if (has(task)) return true;
  }
  return false;
}

}  // namespace perfschema
