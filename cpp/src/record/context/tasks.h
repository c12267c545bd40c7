// record/context/tasks.h: tasks that a thread works at by turns, as coroutines and fibers are. What runs in one (waits, stage, statements, transaction) is
// put aside while another one has its turn, and is open all the time.
//
// Threads: a task belongs to the instrumentation that made it. Its own thread takes turns; any thread destroys.
#pragma once

#include <algorithm>
#include <atomic>

#include "record/context/threads.h"

namespace perfschema {

// What new tasks are nested in.
struct TaskParent {
  uint64_t thread_id;       // EVENT_IDs are numbers within a thread
  uint64_t statement;       // EVENT_ID, 0 = none
  uint64_t transaction;
  uint32_t depth;           // statements that run
};

// The work of a task that has not its turn: the same things of ThreadState.
struct Task {
  std::atomic<ThreadState*> thread;  // nullptr: the instrumentation is gone. Changes under the cold lock
  std::atomic<bool> is_dead;         // destroyed by a thread that must not free it
  Task* next;                        // of the instrumentation
  char* texts;                       // its own, also while it has its turn; of the thread's own work: the thread's
  uint32_t shown_stage;
  uint32_t wait_depth;
  ShmWaitRecord* open_waits[kMaxNestedWaits];
  OpenStage stage;
  OpenTransaction transaction;
  uint32_t statement_depth;
  OpenStatement statements[];        // as many as options say
};

// What runs in the calling thread.
TaskParent DescribeTaskParent();
// nullptr: no memory, no instrumentation, or in a signal handler that interrupted pfs. Cold.
Task* MakeTask(const TaskParent* parent);
// It has the turn from here on; nullptr: the thread's own work. False: it is not this thread's, or this is a signal handler that interrupted pfs.
bool SwitchTo(Task* task);
// Its events that run are dropped. If it has the turn, the thread's own work has it then. Cold.
void DestroyTask(Task* task);

// The instrumentation ends, or (in a child of fork()) has no record of its events any more. REQUIRES: cold lock.
void ForgetTasks(ThreadState& thread, bool has_records);

// Is any event of the kind that runs in a task without its turn such a one? REQUIRES: the calling thread.
template <typename IsOne>
bool AnyOpenInTasks(const ThreadState& thread, Kind kind, IsOne is_one) {
  const auto has = [&](const Task* task) {
    if (task == nullptr || task == thread.task) return false;
    switch (kind) {
      case Kind::kWait: return std::any_of(task->open_waits, task->open_waits + task->wait_depth, is_one);
      case Kind::kStage: return is_one(task->stage.record);
      case Kind::kStatement:
        return std::any_of(task->statements, task->statements + task->statement_depth,
                           [&](const OpenStatement& open) { return is_one(open.record); });
      default: return is_one(task->transaction.record);
    }
  };
  if (thread.task != nullptr && has(thread.own_work)) return true;
  for (const Task* task = thread.tasks; task != nullptr; task = task->next) {
    if (has(task)) return true;
  }
  return false;
}

}  // namespace perfschema
