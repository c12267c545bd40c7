// bindings/tasks.h: which task of a thread's the running Python code is, and what statements, stages and transactions share.
//
// A task is what has a context of its own (contextvars): one of asyncio, trio, anyio, a greenlet, or whatever runs under Context.run(). What
// begins in it is nested in what began in it before, and outermost in what ran where its context was copied. The interpreter says nothing when it changes
// contexts, so each event that begins or ends looks whether it has, which is one comparison if not, and gives the turn to the task that runs
// (perfschema/fiber.h).
#pragma once

#include "locks.h"  // Python.h comes first

#include <optional>
#include <vector>

namespace perfschema::bindings {

struct StageObject;

// A stage whose block a task is in. `file` as in CallSite.
struct OpenStageBlock {
  StageObject* stage;  // held
  CallSite site;
  uint64_t completed, estimated;
};

// Threads: the GIL is held. It works in one thread only.
struct TaskObject {
  PyObject_HEAD
  pfs_fiber_t* task;        // nullptr: the thread's own work
  PyObject* context;       // weak reference; nullptr: none
  uint64_t turn;           // TurnObject::number of its thread
  std::vector<OpenStageBlock>* stages;  // outermost first
  void* waits;             // bind_waits.cpp; PyMem_Raw
};

// What is in the context of a task: for itself who it is, for tasks that are started from here what they are nested in. Constant but for `has_ended`.
// Threads: the GIL is held.
struct LinkObject {
  PyObject_HEAD
  TaskObject* task;
  LinkObject* outer;  // nullptr: the task's first
  pfs_fiber_parent_t parent;
  bool has_ended;     // the event is over
};

// Whose turn it is in a thread. Lives in the thread's dictionary.
// Threads: owner thread; the GIL is held.
struct TurnObject {
  PyObject_HEAD
  uint64_t number;
  uint64_t context_version;  // when it was last looked at; 0 = look again
  bool is_settled;           // `current` is the task of that context, not only good enough for a wait that is nested in nothing
  uint32_t tasks;            // made so far
  uint32_t open_in_own;      // blocks of the thread's own work
  TaskObject* own;
  TaskObject* blank;         // for waits in contexts that have no task
  TaskObject* current;
  pfs_fiber_parent_t own_parent;  // what `own` is in, as of when another one took its turn
};

// What the caller is about to begin: an event that others may be nested in, or be suspended in, or one that ends before anything else comes.
enum class Looks { kForBlock, kForWait };

struct KnownTurn {
  TurnObject* turn;
  uint64_t thread_state;  // PyThreadState::id + 1
};
extern thread_local KnownTurn t_turn;
TurnObject* LookForTurn(Looks looks);

// The turn is that of the task that runs. nullptr: no memory. Throws nothing, leaves no exception.
inline TurnObject* TakeTurn(Looks looks) {
  PyThreadState* const state = PyThreadState_Get();
  TurnObject* const turn = t_turn.turn;
  if (t_turn.thread_state == state->id + 1 && turn->context_version == state->context_ver && (turn->is_settled || looks == Looks::kForWait)) {
    return turn;
  }
  return LookForTurn(looks);
}

// In an event, after a call that may have let other greenlets run: the turn is again that of the task that runs.
inline void TakeTurnBack() {
  if (__builtin_expect(IsGreen(), 0)) TakeTurn(Looks::kForBlock);
}

// For an event of this task that is changed or ended: the turn is this task's, whoever runs. False: it is of another thread.
bool TakeTurnOf(TaskObject* task);

// Around an event of the task that has the turn: tasks that start from here on are nested in it. A new reference; nullptr: the thread's own work,
// which needs none.
LinkObject* PushLink(TurnObject* turn);
void PopLink(TurnObject* turn, LinkObject* link);  // takes the reference

void StartTasks();

// ---- What the types of events share ----------------------------------------------------------------------------------------------------

// What __aenter__ and __aexit__ return: it is done already. Takes the reference to `value`; nullptr stays nullptr.
PyObject* MakeReady(PyObject* value);
// A decorated function: with `object` around each call.
PyObject* Decorated(PyObject* object, PyObject* function);
// MYSQL_ERRNO, RETURNED_SQLSTATE and MESSAGE_TEXT of an exception. False: none could be had; no exception is left.
struct ErrorFacts {
  int number;
  std::string sqlstate, message;
};
bool DescribeError(PyObject* error, ErrorFacts* facts);

// A name of a family, looked up once. nullptr: a Python exception is set. Lives for ever.
struct KnownName {
  PyObject* full;  // str
  uint32_t key;
  bool has_progress;
};
const KnownName* FindName(NameFamily family, PyObject* name, uint32_t flags);

// The bytes of a str, as BytesOf gives them, or of a bytes object. False: a Python exception is set. `holder` keeps what had to be made.
bool TextOf(PyObject* object, const char* what, const char** text, Py_ssize_t* bytes, std::string* holder);
// A converter of PyArg_Parse ("O&") into a std::optional<std::string>: a str, or None.
int TextOrNone(PyObject* object, void* text);

PyTypeObject* MakeType(PyObject* module, const char* name, size_t bytes, unsigned int flags, std::vector<PyType_Slot> slots);

}  // namespace perfschema::bindings
