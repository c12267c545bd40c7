// bindings/runs.h: code that pfs.statement, pfs.transaction and pfs.stage share. The object that the user makes describes an event; each
// block, and each begin(), makes a run: one event of a statement or a transaction.
#pragma once

#include <utility>
#include <vector>

#include "tasks.h"  // Python.h comes first

namespace perfschema::bindings {

// The beginning of every run.
// Threads: the GIL is held.
struct RunHead {
  PyObject_HEAD TaskObject* task;  // held; nullptr: the event could not begin
  LinkObject* link;                // PushLink
  RunHead* outer;                  // the next open block of its object; held
  bool is_open;
};

// Holds the open blocks of one object, in all threads and tasks, the newest first.
struct OpenRuns {
  RunHead* newest;

  void Add(PyObject* object, RunHead* run) {
    Py_INCREF(reinterpret_cast<PyObject*>(run));
    Alone(object, [&] {
      run->outer = newest;
      newest = run;
    });
  }
  // Returns a reference to the newest block of the running task, else to the newest of all; nullptr if no block is open.
  RunHead* Take(PyObject* object) {
    ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
    return Alone(object, [&] {
      RunHead** place = &newest;
      for (RunHead** at = &newest; *at != nullptr; at = &(*at)->outer) {
        if (tasks == nullptr || (*at)->task != tasks->current) continue;
        place = at;
        break;
      }
      RunHead* const run = *place;
      if (run != nullptr) *place = run->outer;
      return run;
    });
  }
  void Clear() {
    while (newest != nullptr) {
      RunHead* const run = newest;
      newest = run->outer;
      Py_DECREF(reinterpret_cast<PyObject*>(run));
    }
  }
};

// Calls begin(site), which begins the event in the running task.
template <typename Begin>
void BeginRun(RunHead* run, Begin begin) {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  const CallSite site = FindCallSite();
  begin(site);
  run->is_open = true;
  if (tasks == nullptr) return;
  run->task = tasks->current;
  Py_INCREF(reinterpret_cast<PyObject*>(run->task));
  run->link = PushLink(tasks);
}

// Returns true if the run may be changed, and switches to its task.
inline bool MayChange(RunHead* run) {
  if (!run->is_open) return false;
  SwitchToTask(run->task);
  return true;
}

// Returns whether the run began in another thread: a pool advances the generator whose block it is.
inline bool IsElsewhere(const RunHead* run) {
  if (run->task == nullptr) return false;
  if (t_tasks.thread_state != PyThreadState_Get()->id + 1) SwitchToRunningTask(Purpose::kWait);  // finds t_tasks
  return t_tasks.tasks != nullptr && run->task->thread_number != t_tasks.tasks->number;
}

// Calls end(), which ends the event, once; or end_elsewhere(), which returns the event's number for its thread. REQUIRES: alone.
template <typename End, typename EndElsewhere>
void EndRun(RunHead* run, End end, EndElsewhere end_elsewhere) {
  const bool is_elsewhere = run->is_open && IsElsewhere(run);
  if (!MayChange(run)) return;
  run->is_open = false;
  if (is_elsewhere) {
    StopOthers([&] {
      NoteEndedElsewhere(run->task, end_elsewhere(), Ended::kNested);
      if (run->link != nullptr) run->link->has_ended = true;
    });
  } else {
    end();
  }
  LinkObject* const link = run->link;
  run->link = nullptr;
  if (t_tasks.tasks != nullptr && run->task != nullptr && run->task->thread_number == t_tasks.tasks->number) {
    PopLink(t_tasks.tasks, link);
  } else {
    Py_XDECREF(reinterpret_cast<PyObject*>(link));
  }
}

// Is for the destructor of a run that was not ended: ends the event if its thread is this one. Otherwise the event ends with its task, or
// is dropped when its memory is reused. An exception that is set stays.
template <typename End>
void EndForgottenRun(RunHead* run, End end) {
  if (!run->is_open || t_tasks.tasks == nullptr || run->task == nullptr || run->task->thread_number != t_tasks.tasks->number) return;
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  end();
  PyErr_Restore(kind, error, trace);
}

inline void ForgetRun(RunHead* run) {
  Py_XDECREF(reinterpret_cast<PyObject*>(run->task));
  Py_XDECREF(reinterpret_cast<PyObject*>(run->link));
}

// Defines the methods of a type whose objects are blocks: `with`, `async with` and decorator.
template <PyObject* (*kEnter)(PyObject*, PyObject*), PyObject* (*kExit)(PyObject*, PyObject* const*, Py_ssize_t)>
struct BlockMethods {
  static PyObject* AsyncEnter(PyObject* object, PyObject* none) { return MakeReady(kEnter(object, none)); }
  static PyObject* AsyncExit(PyObject* object, PyObject* const* args, Py_ssize_t count) { return MakeReady(kExit(object, args, count)); }
  static PyObject* Call(PyObject* object, PyObject* args, PyObject* keywords) {
    static const char* names[] = {"function", nullptr};
    PyObject* function;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O", const_cast<char**>(names), &function)) return nullptr;
    return Decorated(object, function);
  }
};

// Makes the type of runs: its objects come from pfs alone.
inline PyTypeObject* MakeRunType(const char* name, size_t bytes, std::vector<PyType_Slot> slots) {
  return MakeType(nullptr, name, bytes, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                  std::move(slots));
}

}  // namespace perfschema::bindings
