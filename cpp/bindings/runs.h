// bindings/runs.h: events with an object of their own: one run of pfs.statement or pfs.transaction. The object that the user keeps says what begins;
// each block makes a run.
#pragma once

#include "tasks.h"  // Python.h comes first

namespace perfschema::bindings {

// Begins every run.
// Threads: the GIL is held.
struct RunHead {
  PyObject_HEAD
  TaskObject* task;   // held; nullptr: pfs could not begin
  LinkObject* link;   // PushLink
  RunHead* outer;     // the next of its object's open blocks; held
  bool is_open;
};

// The blocks of one object that are open, in whatever thread or task; the newest first.
struct OpenRuns {
  RunHead* newest;

  void Add(RunHead* run) {
    run->outer = newest;
    newest = run;
    Py_INCREF(reinterpret_cast<PyObject*>(run));
  }
  // The newest of the task that runs, else the newest. A reference; nullptr: there is none.
  RunHead* Take() {
    TurnObject* const turn = TakeTurn(Looks::kForBlock);
    RunHead** place = &newest;
    for (RunHead** at = &newest; *at != nullptr; at = &(*at)->outer) {
      if (turn == nullptr || (*at)->task != turn->current) continue;
      place = at;
      break;
    }
    RunHead* const run = *place;
    if (run != nullptr) *place = run->outer;
    return run;
  }
  void Clear() {
    while (newest != nullptr) {
      RunHead* const run = newest;
      newest = run->outer;
      Py_DECREF(reinterpret_cast<PyObject*>(run));
    }
  }
};

// begin(site) begins the event in the task that has the turn.
template <typename Begin>
void BeginRun(RunHead* run, Begin begin) {
  TurnObject* const turn = TakeTurn(Looks::kForBlock);
  const CallSite site = FindCallSite();
  begin(site);
  run->is_open = true;
  if (turn == nullptr) return;
  run->task = turn->current;
  Py_INCREF(reinterpret_cast<PyObject*>(run->task));
  run->link = PushLink(turn);
}

// May it be changed? The turn is its task's then.
inline bool MayChange(RunHead* run) {
  if (!run->is_open) return false;
  TakeTurnOf(run->task);
  return true;
}

// end() ends the event, once.
template <typename End>
void EndRun(RunHead* run, End end) {
  if (!MayChange(run)) return;
  run->is_open = false;
  end();
  LinkObject* const link = run->link;
  run->link = nullptr;
  if (t_turn.turn != nullptr && run->task != nullptr && run->task->turn == t_turn.turn->number) {
    PopLink(t_turn.turn, link);
  } else {
    Py_XDECREF(reinterpret_cast<PyObject*>(link));
  }
}

inline void ForgetRun(RunHead* run) {
  Py_XDECREF(reinterpret_cast<PyObject*>(run->task));
  Py_XDECREF(reinterpret_cast<PyObject*>(run->link));
}

}  // namespace perfschema::bindings
