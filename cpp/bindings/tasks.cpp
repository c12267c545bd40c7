// bindings/tasks.cpp: see tasks.h.
#include "tasks.h"  // Python.h comes first

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "gil.h"
#include "record/family/elsewhere.h"

namespace perfschema::bindings {

thread_local KnownTasks t_tasks;

namespace {

PyTypeObject* task_type;
PyTypeObject* link_type;
PyTypeObject* tasks_type;
PyTypeObject* ready_type;
PyObject* link_variable;  // a contextvars.ContextVar
PyObject* tasks_key;      // in the dictionary of a thread
// By family: dicts of str: address of a KnownName.
PyObject* known_names[static_cast<size_t>(NameFamily::kOwnWait) + 1];

template <typename Object>
Object* New(PyTypeObject* type) {
  return reinterpret_cast<Object*>(type->tp_alloc(type, 0));  // zeroed
}
template <typename Object>
void Free(Object* object) {
  PyTypeObject* const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

bool IsEmpty(const pfs_fiber_parent_t& parent) { return (parent.opaque[1] | parent.opaque[2]) == 0; }

// ---- The three objects -----------------------------------------------------------------------------------------------------------------

TaskObject* MakeTask(ThreadTasks* tasks, PyObject* context, const pfs_fiber_parent_t* parent, bool is_own) {
  TaskObject* const task = New<TaskObject>(task_type);
  if (task == nullptr) return nullptr;
  task->thread_number = tasks->number;
  task->stages = new (std::nothrow) std::vector<OpenStageBlock>;
  task->context = context == nullptr ? nullptr : PyWeakref_NewRef(context, nullptr);
  if (!is_own) task->task = pfs_fiber_create(parent);
  if (task->stages != nullptr && (context == nullptr) == (task->context == nullptr) && (is_own || task->task != nullptr)) return task;
  Py_DECREF(task);
  return nullptr;
}

void TaskDealloc(PyObject* object) {
  auto* const task = reinterpret_cast<TaskObject*>(object);
  pfs_fiber_destroy(task->task);  // drops its waits, too
  FreeWaits(task->waits);
  if (task->stages != nullptr) {
    for (const OpenStageBlock& block : *task->stages) Py_DECREF(reinterpret_cast<PyObject*>(block.stage));
    delete task->stages;
  }
  Py_XDECREF(task->context);
  Free(task);
}

LinkObject* MakeLink(TaskObject* task, LinkObject* outer) {
  LinkObject* const link = New<LinkObject>(link_type);
  if (link == nullptr) return nullptr;
  Py_INCREF(task);
  link->task = task;
  Py_XINCREF(outer);
  link->outer = outer;
  pfs_fiber_parent(&link->parent);
  return link;
}

void LinkDealloc(PyObject* object) {
  auto* const link = reinterpret_cast<LinkObject*>(object);
  Py_XDECREF(link->task);
  Py_XDECREF(link->outer);
  Free(link);
}

// The tasks of all threads, by number. REQUIRES: alone with all_tasks_guard, or no other thread runs (StopOthers).
Guard all_tasks_guard;
std::map<uint64_t, ThreadTasks*>& AllTasks() {
  static auto& all = *new std::map<uint64_t, ThreadTasks*>;
  return all;
}

void ThreadTasksDealloc(PyObject* object) {
  auto* const tasks = reinterpret_cast<ThreadTasks*>(object);
  if (t_tasks.tasks == tasks) t_tasks = {};
  Alone(all_tasks_guard, [tasks] { AllTasks().erase(tasks->number); });
  delete tasks->ended;
  delete tasks->ended_stages;
  delete tasks->ended_waits;
  Py_XDECREF(tasks->current);
  Py_XDECREF(tasks->blank);
  Py_XDECREF(tasks->own);
  Free(tasks);
}

// Makes the ThreadTasks of a thread at its first event. Returns nullptr if there is no memory.
ThreadTasks* MakeThreadTasks(PyThreadState* state) {
  static uint64_t numbers = 0;
  PyObject* const dictionary = PyThreadState_GetDict();  // borrowed
  if (dictionary == nullptr) return nullptr;
  ThreadTasks* tasks = reinterpret_cast<ThreadTasks*>(PyDict_GetItemWithError(dictionary, tasks_key));
  if (tasks == nullptr) {
    tasks = New<ThreadTasks>(tasks_type);
    if (tasks == nullptr) return nullptr;
    tasks->number = Next(numbers);
    tasks->ended = new std::vector<uint64_t>;
    tasks->ended_stages = new std::vector<uint64_t>;
    tasks->ended_waits = new std::vector<uint64_t>;
    Alone(all_tasks_guard, [tasks] { AllTasks()[tasks->number] = tasks; });
    // A thread without a context runs no task, unless it is in a greenlet. If it has a context, that may be a task's: then each context
    // counts as a task's.
    const bool is_outside = state->context == nullptr && CurrentGreenlet() == 0;
    Py_XDECREF(PyContext_CopyCurrent());  // creates the context
    tasks->own = MakeTask(tasks, is_outside ? state->context : nullptr, nullptr, true);
    const int rc = tasks->own == nullptr ? -1 : PyDict_SetItem(dictionary, tasks_key, reinterpret_cast<PyObject*>(tasks));
    Py_XINCREF(tasks->own);
    tasks->current = tasks->own;
    Py_DECREF(tasks);  // the dictionary owns it
    if (rc != 0) return nullptr;
  }
  t_tasks = {tasks, state->id + 1};
  return tasks;
}

bool IsOf(const TaskObject* task, PyObject* context) {
  if (task == nullptr || task->context == nullptr) return false;
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* its_own;
  if (PyWeakref_GetRef(task->context, &its_own) <= 0) return false;
  Py_DECREF(its_own);
  return its_own == context;
#else
  return PyWeakref_GET_OBJECT(task->context) == context;
#endif
}

// Takes the events that other threads have ended out of this thread's stack. REQUIRES: the calling thread; `current` still is the task
// that it ran then.
void ForgetAllEnded(ThreadTasks* tasks) {
  for (const uint64_t number : std::exchange(*tasks->ended, {})) ForgetEnded(number);
  for (const uint64_t number : std::exchange(*tasks->ended_stages, {})) ForgetEndedStage(number);
  for (const uint64_t number : std::exchange(*tasks->ended_waits, {})) ForgetEndedWait(number);
  tasks->open_in_own -= std::min(tasks->open_in_own, std::exchange(tasks->ended_in_own, 0u));
}

LinkObject* CurrentLink() {  // new reference, or nullptr
  PyObject* found = nullptr;
  if (PyContextVar_Get(link_variable, nullptr, &found) != 0) PyErr_Clear();
  return reinterpret_cast<LinkObject*>(found);
}
void SetLink(LinkObject* link) {
  PyObject* const token = PyContextVar_Set(link_variable, reinterpret_cast<PyObject*>(link));
  token == nullptr ? PyErr_Clear() : Py_DECREF(token);
}

// Switches the thread to the task and takes the reference. Returns false if that is not possible: the running task stays.
bool SwitchTo(ThreadTasks* tasks, TaskObject* task) {
  if (task == tasks->current) {
    Py_DECREF(task);
    return true;
  }
  if (tasks->current == tasks->own) pfs_fiber_parent(&tasks->own_parent);
  if (pfs_fiber_switch(task->task) == 0) {
    Py_DECREF(task);
    return false;
  }
  TaskObject* const before = tasks->current;
  tasks->current = task;
  Py_DECREF(before);
  return true;
}

// Returns a new reference to the task of this context, or nullptr if it has none and needs none.
TaskObject* TaskOf(ThreadTasks* tasks, PyObject* context, Purpose purpose) {
  LinkObject* const link = CurrentLink();
  if (link != nullptr && link->task->thread_number == tasks->number && IsOf(link->task, context)) {
    TaskObject* const task = link->task;
    Py_INCREF(task);
    Py_DECREF(link);
    return task;
  }
  if (tasks->current == tasks->own) pfs_fiber_parent(&tasks->own_parent);
  // A greenlet begins with an empty context: pfs cannot know where it was started, and the thread's own work continues in parallel.
  const pfs_fiber_parent_t parent = link != nullptr ? link->parent : CurrentGreenlet() != 0 ? pfs_fiber_parent_t{} : tasks->own_parent;
  Py_XDECREF(link);
  if (purpose == Purpose::kWait && IsEmpty(parent)) return nullptr;
  TaskObject* const task = MakeTask(tasks, context, &parent, false);
  if (task == nullptr) return nullptr;
  ++tasks->made;
  if (LinkObject* const first = MakeLink(task, nullptr); first != nullptr) {
    first->parent = parent;
    SetLink(first);
    Py_DECREF(first);
  }
  return task;
}

}  // namespace

ThreadTasks* FindRunningTask(Purpose purpose) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);  // a block may end by an exception
  PyThreadState* const state = PyThreadState_Get();
  ThreadTasks* const tasks = t_tasks.thread_state == state->id + 1 ? t_tasks.tasks : MakeThreadTasks(state);
  if (state->context == nullptr) Py_XDECREF(PyContext_CopyCurrent());  // creates the context, at the first event of a greenlet
  if (IsGreen()) purpose = Purpose::kBlock;                            // a wait may be suspended
  PyObject* const context = state->context;
  if (tasks != nullptr) {
    tasks->is_settled = true;
    if (tasks->ended->size() + tasks->ended_stages->size() + tasks->ended_waits->size() + tasks->ended_in_own != 0) ForgetAllEnded(tasks);
    if (IsOf(tasks->own, context)) {
      Py_INCREF(tasks->own);
      tasks->is_settled = SwitchTo(tasks, tasks->own);
    } else if (!IsOf(tasks->current, context) && context != nullptr &&
               (purpose == Purpose::kBlock || tasks->made + tasks->open_in_own != 0)) {
      TaskObject* task = TaskOf(tasks, context, purpose);
      tasks->is_settled = task != nullptr;
      if (task == nullptr && tasks->made != 0) {
        if (tasks->blank == nullptr) tasks->blank = MakeTask(tasks, nullptr, nullptr, false);
        Py_XINCREF(tasks->blank);
        task = tasks->blank;
      }
      if (task != nullptr && !SwitchTo(tasks, task)) tasks->is_settled = false;
    } else if (!IsOf(tasks->current, context)) {
      tasks->is_settled = false;
    }
    tasks->context_version = state->context_ver;
  }
  PyErr_Clear();
  PyErr_Restore(kind, error, trace);
  return tasks;
}

ThreadTasks* TasksOf(const TaskObject* task) {
  const auto found = AllTasks().find(task->thread_number);
  return found == AllTasks().end() ? nullptr : found->second;
}

void NoteEndedElsewhere(const TaskObject* task, uint64_t number, Ended what) {
  ThreadTasks* const tasks = TasksOf(task);
  if (tasks == nullptr) return;
  tasks->ended_in_own += what != Ended::kWait && task == tasks->own ? 1 : 0;
  if (number != 0)
    (what == Ended::kWait ? tasks->ended_waits : what == Ended::kStage ? tasks->ended_stages : tasks->ended)->push_back(number);
  tasks->context_version = 0;  // its next event looks
}

bool SwitchToTask(TaskObject* task) {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kWait);
  if (tasks == nullptr || task == nullptr || task->thread_number != tasks->number) return false;
  if (task == tasks->current) return true;
  Py_INCREF(task);
  tasks->context_version = 0;  // the next event determines the running task
  return SwitchTo(tasks, task);
}

LinkObject* PushLink(ThreadTasks* tasks) {
  if (tasks->current == tasks->own) {
    ++tasks->open_in_own;
    return nullptr;
  }
  LinkObject* const outer = CurrentLink();
  LinkObject* const link = MakeLink(tasks->current, outer);
  Py_XDECREF(outer);
  if (link != nullptr) SetLink(link);
  PyErr_Clear();
  return link;
}

void PopLink(ThreadTasks* tasks, LinkObject* link) {
  if (link == nullptr) {
    if (tasks->open_in_own != 0 && tasks->current == tasks->own) --tasks->open_in_own;
    return;
  }
  link->has_ended = true;
  LinkObject* const now = CurrentLink();
  if (now == link) {
    LinkObject* outer = link->outer;
    while (outer != nullptr && outer->has_ended && outer->outer != nullptr) outer = outer->outer;
    if (outer != nullptr) SetLink(outer);
  }
  Py_XDECREF(now);
  Py_DECREF(link);
}

// ---- Functions that the types of events share ------------------------------------------------------------------------------------------

namespace {

struct ReadyObject {
  PyObject_HEAD PyObject* value;
};

PyObject* ReadyAwait(PyObject* object) { return Py_NewRef(object); }

PySendResult ReadySend(PyObject* object, PyObject*, PyObject** result) {
  auto* const ready = reinterpret_cast<ReadyObject*>(object);
  *result = ready->value != nullptr ? ready->value : Py_NewRef(Py_None);
  ready->value = nullptr;
  return PYGEN_RETURN;
}

PyObject* ReadyNext(PyObject* object) {
  PyObject* value;
  ReadySend(object, nullptr, &value);
  PyObject* const stop = PyObject_CallOneArg(PyExc_StopIteration, value);
  Py_DECREF(value);
  if (stop != nullptr) PyErr_SetObject(PyExc_StopIteration, stop);
  Py_XDECREF(stop);
  return nullptr;
}

void ReadyDealloc(PyObject* object) {
  auto* const ready = reinterpret_cast<ReadyObject*>(object);
  Py_XDECREF(ready->value);
  Free(ready);
}

PyObject* CallHelper(const char* module, const char* function, PyObject* first, PyObject* second) {
  PyObject* const found = PyImport_ImportModule(module);
  PyObject* const callee = found == nullptr ? nullptr : PyObject_GetAttrString(found, function);
  PyObject* const result =
      callee == nullptr ? nullptr : ParkIfUnwound([&] { return PyObject_CallFunctionObjArgs(callee, first, second, nullptr); });
  Py_XDECREF(callee);
  Py_XDECREF(found);
  return result;
}

}  // namespace

PyObject* MakeReady(PyObject* value) {
  if (value == nullptr) return nullptr;
  auto* const ready = New<ReadyObject>(ready_type);
  if (ready == nullptr) {
    Py_DECREF(value);
    return nullptr;
  }
  ready->value = value;
  return reinterpret_cast<PyObject*>(ready);
}

PyObject* Decorated(PyObject* object, PyObject* function) { return CallHelper("pfs._record.decorated", "decorated", object, function); }

bool DescribeError(PyObject* error, ErrorDetails* details) {
  PyObject* const found = CallHelper("pfs._record.decorated", "error_facts", error, nullptr);
  PyObject *state, *message;
  const bool ok = found != nullptr && PyArg_ParseTuple(found, "iUU", &details->number, &state, &message) != 0;
  if (ok) {
    details->sqlstate = BytesOf(state);
    details->message = BytesOf(message);
  }
  Py_XDECREF(found);
  PyErr_Clear();
  return ok;
}

const KnownName* FindName(NameFamily family, PyObject* name, uint32_t flags) {
  PyObject* const names = known_names[static_cast<size_t>(family)];
  if (const Item found(names, name); found.get() != nullptr) return static_cast<const KnownName*>(PyLong_AsVoidPtr(found.get()));
  if (PyErr_Occurred() != nullptr) return nullptr;
  try {
    const std::string text = BytesOf(name);
    const Object full = Decoded(FullName(family, text));
    if (const Item found(names, full.get()); found.get() != nullptr && PyDict_SetItem(names, name, found.get()) == 0) {
      return static_cast<const KnownName*>(PyLong_AsVoidPtr(found.get()));
    }
    auto fresh =
        std::make_unique<KnownName>(KnownName{Py_NewRef(full.get()), RegisterName(family, text, flags), (flags & PFS_PROGRESS) != 0});
    const Object address(PyLong_FromVoidPtr(fresh.get()));
    if (!address || PyDict_SetItem(names, name, address.get()) != 0 || PyDict_SetItem(names, full.get(), address.get()) != 0)
      return nullptr;
    return fresh.release();
  } catch (const std::exception&) {
    SetPythonError();
    return nullptr;
  }
}

bool TextOf(PyObject* object, const char* what, const char** text, Py_ssize_t* bytes, std::string* holder) {
  if (PyUnicode_Check(object)) {
    *text = PyUnicode_AsUTF8AndSize(object, bytes);
    if (*text != nullptr) return true;
    PyErr_Clear();  // surrogates
    *holder = BytesOf(object);
    *text = holder->data();
    *bytes = static_cast<Py_ssize_t>(holder->size());
    return true;
  } else if (!PyBytes_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be str or bytes, not %.100s", what, Py_TYPE(object)->tp_name);
    return false;
  }
  *text = PyBytes_AS_STRING(object);
  *bytes = PyBytes_GET_SIZE(object);
  return true;
}

int TextOrNone(PyObject* object, void* text) {
  auto& result = *static_cast<std::optional<std::string>*>(text);
  if (object == Py_None) return result.reset(), 1;
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "a str or None is needed, not %.100s", Py_TYPE(object)->tp_name);
    return 0;
  }
  result = BytesOf(object);
  if (result->find('\0') == std::string::npos) return 1;
  PyErr_SetString(PyExc_ValueError, "embedded null character");
  return 0;
}

PyTypeObject* MakeType(PyObject* module, const char* name, size_t bytes, unsigned int flags, std::vector<PyType_Slot> slots) {
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, static_cast<int>(bytes), 0, flags, slots.data()};
  return reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
}

void StartTasks() {
  constexpr unsigned int kPrivate = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
  const auto make = [](const char* name, size_t bytes, destructor dealloc, std::vector<PyType_Slot> more = {}) {
    more.push_back({Py_tp_dealloc, reinterpret_cast<void*>(dealloc)});
    return MakeType(nullptr, name, bytes, kPrivate, more);
  };
  task_type = make("pfs._core.Task", sizeof(TaskObject), TaskDealloc);
  link_type = make("pfs._core.Link", sizeof(LinkObject), LinkDealloc);
  tasks_type = make("pfs._core.ThreadTasks", sizeof(ThreadTasks), ThreadTasksDealloc);
  ready_type = make("pfs._core.Ready", sizeof(ReadyObject), ReadyDealloc,
                    {{Py_am_await, reinterpret_cast<void*>(ReadyAwait)},
                     {Py_am_send, reinterpret_cast<void*>(ReadySend)},
                     {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
                     {Py_tp_iternext, reinterpret_cast<void*>(ReadyNext)}});
  link_variable = PyContextVar_New("pfs", nullptr);
  tasks_key = PyUnicode_InternFromString("pfs._core.ThreadTasks");
  for (PyObject*& names : known_names) names = Checked(PyDict_New()).Release();
  if (task_type == nullptr || link_type == nullptr || tasks_type == nullptr || ready_type == nullptr || link_variable == nullptr ||
      tasks_key == nullptr) {
    throw PythonError();
  }
}

}  // namespace perfschema::bindings
