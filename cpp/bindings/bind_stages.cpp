// bindings/bind_stages.cpp: pfs.stage.
#include <algorithm>
#include <iterator>
#include <new>

#include "record/family/elsewhere.h"
#include "runs.h"  // Python.h comes first

namespace perfschema::bindings {

// Threads: the GIL is held.
struct StageObject {
  PyObject_HEAD const KnownName* name;
  uint64_t estimated;                 // initial value of a block
  std::vector<TaskObject*>* entered;  // tasks that are in a block of it, the newest last; held. nullptr: none yet
};

namespace {

PyTypeObject* stage_type;
StageObject* AsStage(PyObject* object) { return reinterpret_cast<StageObject*>(object); }

// Converts a number. Returns false if a Python exception is set.
bool UintOf(PyObject* value, const char* what, uint64_t* number) {
  if (value == nullptr) {
    PyErr_Format(PyExc_AttributeError, "%s cannot be deleted", what);
    return false;
  }
  *number = PyLong_AsUnsignedLongLong(value);
  return *number != ~uint64_t{0} || PyErr_Occurred() == nullptr;
}

PyObject* StageNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", "estimated", "progress", nullptr};
  PyObject *name, *estimated = Py_None;
  int progress = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|O$p:stage", const_cast<char**>(names), &name, &estimated, &progress)) return nullptr;
  uint64_t number = 0;
  if (estimated != Py_None && !UintOf(estimated, "estimated", &number)) return nullptr;
  const bool has_progress = progress != 0 || estimated != Py_None;
  const KnownName* const known = FindName(NameFamily::kStage, name, has_progress ? PFS_PROGRESS : 0);
  if (known == nullptr) return nullptr;
  return Guarded([&]() -> PyObject* {
    if (has_progress && !known->has_progress) {
      throw StatusError(
          Status(Code::kState, "this stage says nothing of its progress: its name was first used without 'estimated' or 'progress'"));
    }
    PyObject* const object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    AsStage(object)->name = known;
    AsStage(object)->estimated = number;
    return object;
  });
}

void StageDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  delete AsStage(object)->entered;  // it is empty: a block holds its stage
  type->tp_free(object);
  Py_DECREF(type);
}

void Show(const OpenStageBlock& block) {
  pfs_stage_begin_at(block.stage->name->key, block.site.file, block.site.line);
  if (!block.stage->name->has_progress) return;
  if (block.completed != 0) pfs_stage_set_completed(block.completed);
  if (block.estimated != 0) pfs_stage_set_estimated(block.estimated);
}

PyObject* StageEnter(PyObject* object, PyObject*) {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  if (tasks == nullptr) return Py_NewRef(object);
  StageObject* const stage = AsStage(object);
  const OpenStageBlock block{stage, FindCallSite(), 0, stage->estimated};
  try {
    tasks->current->stages->reserve(tasks->current->stages->size() + 1);
    Alone(object, [&] {
      if (stage->entered == nullptr) stage->entered = new std::vector<TaskObject*>;
      stage->entered->push_back(tasks->current);
      Py_INCREF(reinterpret_cast<PyObject*>(tasks->current));
    });
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  Py_INCREF(object);  // owned by the block
  tasks->current->stages->push_back(block);
  if (tasks->current == tasks->own) ++tasks->open_in_own;
  Show(block);
  tasks->current->owner = EventOwner();
  return Py_NewRef(object);
}

// Returns the innermost block of this stage in the running task, or end() if there is none: it began elsewhere.
std::vector<OpenStageBlock>::iterator FindBlock(std::vector<OpenStageBlock>& blocks, const StageObject* stage) {
  for (auto block = blocks.end(); block != blocks.begin();) {
    if ((--block)->stage == stage) return block;
  }
  return blocks.end();
}

// Returns the task whose block of this stage ends: the running one, else the newest of all. nullptr: no block is open. Takes it off the
// list, with the reference. REQUIRES: alone.
TaskObject* TakeTask(StageObject* stage, const TaskObject* running) {
  if (stage->entered == nullptr || stage->entered->empty()) return nullptr;
  std::vector<TaskObject*>& all = *stage->entered;
  auto place = std::find(all.rbegin(), all.rend(), running);
  if (place == all.rend()) place = all.rbegin();
  TaskObject* const task = *place;
  all.erase(std::next(place).base());
  return task;
}

PyObject* StageExit(PyObject* object, PyObject* const*, Py_ssize_t) {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  TaskObject* const task = tasks == nullptr ? nullptr : Alone(object, [=] { return TakeTask(AsStage(object), tasks->current); });
  if (task == nullptr) Py_RETURN_NONE;
  const bool is_elsewhere = task->thread_number != tasks->number;
  std::vector<OpenStageBlock>& blocks = *task->stages;
  bool is_there = false, is_innermost = false;
  const auto take_block = [&] {
    const auto block = FindBlock(blocks, AsStage(object));
    is_there = block != blocks.end();
    if (!is_there) return;
    is_innermost = block + 1 == blocks.end();
    blocks.erase(block);
  };
  if (is_elsewhere) {
    StopOthers([&] {
      take_block();
      if (!is_there) return;
      const ThreadTasks* const its = TasksOf(task);
      ThreadState* const owner = its != nullptr ? task->owner : nullptr;
      // The stage around one that ended elsewhere has not begun again.
      const bool runs = is_innermost && (its == nullptr || its->current != task || its->ended_stages->empty());
      const uint64_t number = runs ? EndStageElsewhere(owner, reinterpret_cast<Task*>(task->task)) : 0;
      NoteEndedElsewhere(task, number, Ended::kStage);
    });
  } else {
    take_block();
    if (is_there && SwitchToTask(task)) {
      if (is_innermost) blocks.empty() ? pfs_stage_end() : Show(blocks.back());
      if (tasks->open_in_own != 0 && task == tasks->own) --tasks->open_in_own;
    }
  }
  if (is_there) Py_DECREF(object);
  Py_DECREF(reinterpret_cast<PyObject*>(task));
  Py_RETURN_NONE;
}

using StageBlock = BlockMethods<StageEnter, StageExit>;

// Returns the block that the running task is in. nullptr: none, a Python exception is set.
OpenStageBlock* BlockOf(StageObject* stage, bool* is_innermost) {
  ThreadTasks* const tasks = SwitchToRunningTask(Purpose::kBlock);
  const char* problem = "the stage does not run here";
  if (tasks != nullptr) {
    std::vector<OpenStageBlock>& blocks = *tasks->current->stages;
    const auto block = FindBlock(blocks, stage);
    *is_innermost = block + 1 == blocks.end();
    if (block != blocks.end() && stage->name->has_progress) return &*block;
    if (block != blocks.end()) problem = "this stage says nothing of its progress: give it 'estimated' or 'progress=True'";
  }
  Guarded([&]() -> PyObject* { throw StatusError(Status(Code::kState, problem)); });
  return nullptr;
}

template <uint64_t OpenStageBlock::*kNumber>
PyObject* StageGet(PyObject* object, void*) {
  bool is_innermost;
  const OpenStageBlock* const block = BlockOf(AsStage(object), &is_innermost);
  return block == nullptr ? nullptr : PyLong_FromUnsignedLongLong(block->*kNumber);
}

template <uint64_t OpenStageBlock::*kNumber>
int StageSet(PyObject* object, PyObject* value, void*) {
  uint64_t number;
  bool is_innermost;
  if (!UintOf(value, "progress", &number)) return -1;
  OpenStageBlock* const block = BlockOf(AsStage(object), &is_innermost);
  if (block == nullptr) return -1;
  block->*kNumber = number;
  if (is_innermost) kNumber == &OpenStageBlock::completed ? pfs_stage_set_completed(number) : pfs_stage_set_estimated(number);
  return 0;
}

PyObject* StageName(PyObject* object, void*) { return Py_NewRef(AsStage(object)->name->full); }
PyObject* StageRepr(PyObject* object) { return PyUnicode_FromFormat("pfs.stage('%U')", AsStage(object)->name->full); }

}  // namespace

void BindStages(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__enter__", StageEnter, METH_NOARGS, "__enter__($self)\n--\n\nPuts the thread, or the task, into the stage."},
      {"__exit__", AsMethod(StageExit), METH_FASTCALL,
       "__exit__($self, kind, error, trace, /)\n--\n\nReturns to the stage around it, if there is one."},
      {"__aenter__", StageBlock::AsyncEnter, METH_NOARGS, "__aenter__($self)\n--\n\nAs __enter__."},
      {"__aexit__", AsMethod(StageBlock::AsyncExit), METH_FASTCALL, "__aexit__($self, kind, error, trace, /)\n--\n\nAs __exit__."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {
      {"name", StageName, nullptr, "Full name of the instrument.", nullptr},
      {"completed", StageGet<&OpenStageBlock::completed>, StageSet<&OpenStageBlock::completed>,
       "WORK_COMPLETED of the running block, in units of the program. StateError if no block runs here, or the stage has no progress.",
       nullptr},
      {"estimated", StageGet<&OpenStageBlock::estimated>, StageSet<&OpenStageBlock::estimated>,
       "WORK_ESTIMATED of the running block. StateError as for completed.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] =
      "stage(name, estimated=None, *, progress=False)\n--\n\n"
      "The present activity of the program: an event stage/<component>/<name> from begin to end of a block or function.\n\n"
      "    with pfs.stage('myapp/parsing'):\n"
      "        ...\n"
      "    loading = pfs.stage('myapp/loading rows', estimated=len(rows))      # many threads may use it, repeatedly\n"
      "    with loading:\n"
      "        for row in rows:\n"
      "            loading.completed += 1\n\n"
      "    @pfs.stage('myapp/answering')\n"
      "    async def answer(request): ...\n\n"
      "`with`, `async with` and decorator. A thread is in one stage at a time: a stage in a stage ends the outer one, which begins again\n"
      "after the inner one (two rows, with the outer block's SOURCE and progress). Stages of different asyncio tasks are\n"
      "independent. Rows of events_stages_current, _history, _history_long and events_stages_summary_*; PROCESSLIST_STATE of threads is "
      "the\n"
      "stage. Waits in it have it as their parent (NESTING_EVENT_ID), and its parent is the running statement.\n\n"
      "name: 'component/name', or in full. estimated, progress: the stage reports its progress, in its own units (WORK_COMPLETED,\n"
      "WORK_ESTIMATED; NULL otherwise); the first use of a name decides for all.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names; StateError for progress of a name without it;\n"
      "TypeError if a generator function is decorated.";
  stage_type = MakeType(module, "pfs.stage", sizeof(StageObject), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                        {{Py_tp_new, reinterpret_cast<void*>(StageNew)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(StageDealloc)},
                         {Py_tp_call, reinterpret_cast<void*>(StageBlock::Call)},
                         {Py_tp_repr, reinterpret_cast<void*>(StageRepr)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, properties},
                         {Py_tp_doc, const_cast<char*>(doc)}});
  if (stage_type == nullptr) throw PythonError();
  AddToModule(module, "stage", stage_type);
}

}  // namespace perfschema::bindings
