// bindings/tasks.h: finds the running task of a thread; functions that statements, stages and transactions share.
//
// A task is any code with its own context (contextvars): a task of asyncio, trio or anyio, a greenlet, or a call under Context.run(). An
// event is nested in the events that its task began before. The first event of a task is nested in the event that ran where its context
// was copied. CPython has no callback for context switches. So each begin and each end compares the context's version, which is one
// comparison if it is unchanged, and otherwise switches to the fiber (perfschema/fiber.h) of the running task.
#pragma once

#include <optional>
#include <vector>

#include "locks.h"  // Python.h comes first

namespace perfschema {
struct ThreadState;
}

namespace perfschema::bindings {

struct OpenWaits;
struct StageObject;

// A stage whose block a task is in. `file` as in CallSite.
struct OpenStageBlock {
  StageObject* stage;  // held
  CallSite site;
  uint64_t completed, estimated;
};

// Threads: the GIL is held. It runs in one thread only.
struct TaskObject {
  PyObject_HEAD pfs_fiber_t* task;      // nullptr: the thread's own work
  PyObject* context;                    // weak reference; nullptr: none
  uint64_t thread_number;               // ThreadTasks::number of its thread
  std::vector<OpenStageBlock>* stages;  // outermost first
  ThreadState* owner;                   // of the stages; nullptr: nothing yet
  OpenWaits* waits;                     // bind_waits.cpp
};

// A value in the context of a task. The task finds itself by it; tasks that are started from here find the parent of their events.
// Only `has_ended` changes.
// Threads: the GIL is held.
struct LinkObject {
  PyObject_HEAD TaskObject* task;
  LinkObject* outer;  // nullptr: the task's first
  pfs_fiber_parent_t parent;
  bool has_ended;  // the event is over
};

// Holds the tasks of a thread, and the running one. It is in the thread's dictionary.
// Threads: owner thread; the GIL is held.
struct ThreadTasks {
  PyObject_HEAD uint64_t number;
  uint64_t context_version;  // at the last check; 0 = check again
  bool is_settled;           // `current` is the task of that context; false: it only suffices for a wait without a parent
  uint32_t made;             // tasks of this thread so far
  uint32_t open_in_own;      // blocks of the thread's own work
  TaskObject* own;
  TaskObject* blank;  // for waits in contexts that have no task
  TaskObject* current;
  std::vector<uint64_t>* ended;         // of `current`: statements and transactions that another thread has ended; ForgetEnded
  std::vector<uint64_t>* ended_stages;  // the same; ForgetEndedStage
  std::vector<uint64_t>* ended_waits;   // the same; ForgetEndedWait
  uint32_t ended_in_own;                // blocks of the thread's own work that another thread has ended
  pfs_fiber_parent_t own_parent;        // events that `own` was in when the thread switched to another task
};

// Says what the caller is about to begin: an event in which others may be nested or suspended, or a wait, which ends before any other
// event begins.
enum class Purpose { kBlock, kWait };

// Returns the tasks of the thread in which a task runs; nullptr: the thread has ended. REQUIRES: no other thread runs (StopOthers).
ThreadTasks* TasksOf(const TaskObject* task);
// Notes that the calling thread has ended an event of another one. `number`: of record/family/elsewhere.h. REQUIRES: as TasksOf.
enum class Ended { kNested, kStage, kWait };
void NoteEndedElsewhere(const TaskObject* task, uint64_t number, Ended what);

struct KnownTasks {
  ThreadTasks* tasks;
  uint64_t thread_state;  // PyThreadState::id + 1
};
extern thread_local KnownTasks t_tasks;
ThreadTasks* FindRunningTask(Purpose purpose);

// Switches to the fiber of the running task. Returns nullptr if there is no memory. Throws nothing, and leaves no exception set.
inline ThreadTasks* SwitchToRunningTask(Purpose purpose) {
  PyThreadState* const state = PyThreadState_Get();
  ThreadTasks* const tasks = t_tasks.tasks;
  if (t_tasks.thread_state == state->id + 1 && tasks->context_version == state->context_ver &&
      (tasks->is_settled || purpose == Purpose::kWait)) {
    return tasks;
  }
  return FindRunningTask(purpose);
}

// Switches back to the running task, inside an event, after a call that may have let other greenlets run.
inline void SwitchBackToRunningTask() {
  if (__builtin_expect(IsGreen(), 0)) SwitchToRunningTask(Purpose::kBlock);
}

// Switches to `task`, whichever task runs, so that its event can be changed or ended. Returns false if the task is of another thread.
bool SwitchToTask(TaskObject* task);

// Begins and ends an event of the running task in which tasks that start from here on are nested. PushLink returns a new reference, or
// nullptr for the thread's own work, which needs none.
LinkObject* PushLink(ThreadTasks* tasks);
void PopLink(ThreadTasks* tasks, LinkObject* link);  // takes the reference

// Frees the waits of a task that dies; nullptr: it has none.
void FreeWaits(OpenWaits* waits);

void StartTasks();

// ---- Functions that the types of events share ------------------------------------------------------------------------------------------

// Returns an awaitable that is done already, for __aenter__ and __aexit__. Takes the reference to `value`; nullptr stays nullptr.
PyObject* MakeReady(PyObject* value);
// Returns a function that calls `function` inside `with object`.
PyObject* Decorated(PyObject* object, PyObject* function);
// Holds MYSQL_ERRNO, RETURNED_SQLSTATE and MESSAGE_TEXT of an exception. DescribeError returns false if there are none, and leaves no
// exception set.
struct ErrorDetails {
  int number;
  std::string sqlstate, message;
};
bool DescribeError(PyObject* error, ErrorDetails* details);

// A registered name. FindName returns nullptr and sets a Python exception if the name is bad; a KnownName is never freed.
struct KnownName {
  PyObject* full;  // str
  uint32_t key;
  bool has_progress;
};
const KnownName* FindName(NameFamily family, PyObject* name, uint32_t flags);

// Returns the bytes of a str, as BytesOf does, or of a bytes object; `holder` keeps a copy if one had to be made. Returns false if a
// Python exception is set.
bool TextOf(PyObject* object, const char* what, const char** text, Py_ssize_t* bytes, std::string* holder);
// Converts a str, or None, for PyArg_Parse ("O&"), into a std::optional<std::string>.
int TextOrNone(PyObject* object, void* text);

PyTypeObject* MakeType(PyObject* module, const char* name, size_t bytes, unsigned int flags, std::vector<PyType_Slot> slots);

}  // namespace perfschema::bindings
