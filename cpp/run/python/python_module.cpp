// run/python/python_module.cpp: the module _pfs_run_native, through which the Python layer (python/pfs/_auto) names threads and makes
// statements.
//
// This library is the module's file: the interpreter finds PyInit__pfs_run_native() in the copy that is loaded already. The module uses the
// stable ABI, and functions that are public since CPython 3.11. Every function is called with the GIL, or by several threads at once in an
// interpreter without it.
#include "record/context/threads.h"
#include "run/loader/real.h"
#include "run/protocols/clients.h"
#include "run/python/python.h"
#include "run/python/python_api.h"
#include "run/python/python_free_threaded.h"
#include "run/python/python_statements.h"

using namespace perfschema::run;

namespace {

// name_thread(name): names the calling thread thread/python/NAME, if that is a name. Returns its THREAD_ID, or 0.
PyObject* NameThread(PyObject*, PyObject* text) {
  if (const char* const name = BytesOf(text); name != nullptr && !IsPlain()) perfschema::run::NameThread("python", name);
  const perfschema::ThreadState* const thread = IsPlain() ? nullptr : perfschema::t_locals.state;
  return g_py.PyLong_FromLong(thread != nullptr ? static_cast<long>(thread->thread_id) : 0);
}

// key(component, name, dialect=0): returns the number of the instrument statement/COMPONENT/NAME; 0 if there is none. `dialect`: the
// language of its texts, the number of PFS_DIALECT_... in perfschema/statement.h.
PyObject* Key(PyObject*, PyObject* arguments) {
  const char* component = nullptr;
  const char* name = nullptr;
  int dialect = 0;
  if (g_py.PyArg_ParseTuple(arguments, "ss|i", &component, &name, &dialect) == 0) return nullptr;
  if (IsPlain()) return g_py.PyLong_FromLong(0);
  return g_py.PyLong_FromLong(KeyOfNamed(pfs_register_statement, component, name, "Requests and queries of a Python program, by pfs run.",
                                         static_cast<uint32_t>(dialect) << PFS_DIALECT_SHIFT));
}

// begin(key, text, schema, skipped, detached, traceparent=None): begins a statement. Returns a handle, or None if it is not recorded.
// SOURCE is the innermost frame outside of the packages in `skipped`. Nothing is nested in a statement that is detached: other tasks may
// run in the thread.
PyObject* Begin(PyObject*, Arguments arguments, intptr_t count) {
  Beginning it = {};
  intptr_t size = 0;
  if (!HasCount(count, 5, 6) || !ReadNumber(arguments[0], &it.key)) return nullptr;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(arguments[1], &size);
  if (bytes == nullptr || !ReadText(arguments[2], &it.schema) || !ReadRest(arguments, count, 3, &it)) return nullptr;
  it.text = {bytes, static_cast<size_t>(size)};
  return BeginStatement(it);
}

// end(handle, rows, affected, error, message): ends the statement. error: 0 = none. A message that is no text counts as none.
PyObject* End(PyObject*, Arguments arguments, intptr_t count) {
  long rows = 0, affected = 0, error = 0;
  if (!HasCount(count, 5, 5) || !ReadNumber(arguments[1], &rows) || !ReadNumber(arguments[2], &affected) ||
      !ReadNumber(arguments[3], &error)) {
    return nullptr;
  }
  if (error != static_cast<int>(error)) {
    g_py.PyErr_SetString(*g_py.PyExc_ValueError, "the number of an error is too large");
    return nullptr;
  }
  const char* const message = error != 0 ? BytesOf(arguments[4]) : nullptr;
  return EndStatement(arguments[0], rows, affected, static_cast<int>(error), message) ? None() : nullptr;
}

// note_queues(type): locks that queue.SimpleQueue makes are conditions from here on. Returns whether that works.
PyObject* NoteQueues(PyObject*, PyObject* type) {
  constexpr unsigned long kIsHeapType = 1ul << 9;
  const bool is_type = IsOfType(type, kIsType) && (g_py.PyType_GetFlags(type) & kIsHeapType) != 0;
  return g_py.PyLong_FromLong(is_type && NoteQueueType(type) ? 1 : 0);
}

// note_lock(lock, is_recursive): locks of the type of this new one are known from here on. Returns whether that works.
PyObject* NoteLock(PyObject*, Arguments arguments, intptr_t count) {
  long is_recursive = 0;
  if (!HasCount(count, 2, 2) || !ReadNumber(arguments[1], &is_recursive)) return nullptr;
  return g_py.PyLong_FromLong(NoteLockType(arguments[0], is_recursive != 0) ? 1 : 0);
}

// note_calls(offset, around, *functions): waits and statements within these functions of C have the line that calls them, or the functions
// are methods of locks. `offset`: of the entry in the functions' objects. `around`: the number of the enumerator in python.h.
PyObject* NoteCalls(PyObject*, Arguments arguments, intptr_t count) {
  long offset = 0, around = 0;
  if (count < 2 || !ReadNumber(arguments[0], &offset) || !ReadNumber(arguments[1], &around)) return nullptr;
  long noted = 0;
  for (intptr_t i = 2; i < count; ++i) {
    const Reference<PyObject> name(g_py.PyObject_GetAttr(arguments[i], g_py.PyUnicode_InternFromString("__name__")));
    const char* const text = name.get() != nullptr ? BytesOf(name.get()) : nullptr;
    if (text == nullptr) return nullptr;
    noted += NoteCall(arguments[i], static_cast<size_t>(offset), text, static_cast<Around>(around)) ? 1 : 0;
  }
  return g_py.PyLong_FromLong(noted);
}

// note_instructions(rows, code, names): what the instructions of this interpreter without the GIL do, and the names of a code. Returns
// whether that works.
PyObject* NoteInstructions(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 3, 3)) return nullptr;
  return g_py.PyLong_FromLong(perfschema::run::NoteInstructions(arguments[0], arguments[1], arguments[2]) ? 1 : 0);
}

// forget_calls(): undoes note_queues(), note_lock() and note_calls().
PyObject* Forget(PyObject*, PyObject*) {
  ForgetQueueType();
  ForgetLockTypes();
  ForgetCalls();
  return None();
}

// name_early(native_id, name): names a thread that was there before the program was joined.
PyObject* NameEarly(PyObject*, Arguments arguments, intptr_t count) {
  long os_id = 0;
  if (!HasCount(count, 2, 2) || !ReadNumber(arguments[0], &os_id)) return nullptr;
  const char* const name = BytesOf(arguments[1]);
  if (name != nullptr && os_id > 0) NameEarlyThread(static_cast<uint64_t>(os_id), name);
  return None();
}

// note(message): adds a row to error_log.
PyObject* Note(PyObject*, PyObject* arguments) {
  const char* message = nullptr;
  if (g_py.PyArg_ParseTuple(arguments, "s", &message) == 0) return nullptr;
  if (!IsPlain()) (void)pfs_log(PFS_LOG_WARNING, "PFS-PYTHON", "run", message);
  return None();
}

// hide(): nothing that the calling thread does is recorded, until show(). Returns what show() takes.
PyObject* Hide(PyObject*, PyObject*) {
  const pfs_thread_t thread = IsPlain() ? 0 : pfs_thread_current();
  const bool is_hidden = thread != 0 && pfs_thread_detach() == PFS_OK;
  return g_py.PyLong_FromLong(is_hidden ? static_cast<long>(thread) : 0);
}
PyObject* Show(PyObject*, PyObject* hidden) {
  long thread = 0;
  if (!ReadNumber(hidden, &thread)) return nullptr;
  if (thread != 0) (void)pfs_thread_attach(static_cast<pfs_thread_t>(thread));
  return None();
}

// What finder() has made: `self` is the list of its arguments.
PyObject* FindSpec(PyObject* self, Arguments arguments, intptr_t count, PyObject* names) {
  PyObject* const wanted = g_py.PyList_GetItem(self, 0);
  PyObject* const find = g_py.PyList_GetItem(self, 1);
  if (wanted == nullptr || find == nullptr) return nullptr;
  if (names == nullptr && count > 0 && g_py.PyDict_GetItemWithError(wanted, arguments[0]) == nullptr)
    return g_py.PyErr_Occurred() != nullptr ? nullptr : None();
  return g_py.PyObject_Vectorcall(find, arguments, static_cast<size_t>(count), names);
}
const PyMethod kFindSpec = MethodWithNames("find_spec", FindSpec, "find_spec(name, path=None, target=None)");

// finder(wanted, find): returns find_spec(name, path, target), which asks find() for the names in the dictionary `wanted`, and finds no
// other module. It is no Python function: a tracer of the program's would see it in each import.
PyObject* Finder(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 2, 2)) return nullptr;
  const Reference<PyObject> self(ListOf(NewReference(arguments[0]), NewReference(arguments[1])));
  return self.get() != nullptr ? g_py.PyCFunction_NewEx(&kFindSpec, self.get(), nullptr) : nullptr;
}

const PyMethod kMethods[] = {
    {"name_thread", NameThread, kOneArgument, "name_thread(name) -> int"},
    {"key", Key, kTupleOfArguments, "key(component, name) -> int"},
    FastMethod("begin", Begin, "begin(key, text, schema, skipped, detached, traceparent=None) -> handle or None"),
    FastMethod("end", End, "end(handle, rows, affected, error, message)"),
    FastMethod("request_text", RequestText, "request_text(method, target) -> str"),
    FastMethod("begin_request", BeginRequest, "begin_request(key, method, target, skipped, detached, traceparent=None) -> handle or None"),
    FastMethod("begin_wsgi", BeginWsgi, "begin_wsgi(about, variables, start_response, detached) -> start_response or None"),
    {"leave_wsgi", LeaveWsgi, kOneArgument, "leave_wsgi(start_response)"},
    FastMethod("end_wsgi", EndWsgi, "end_wsgi(start_response, error=None, message=None)"),
    FastMethod("ask", Ask, "ask(about, asked, connection, method, url)"),
    FastMethod("take_asked", TakeAsked, "take_asked(asked, connection) -> handle or None"),
    FastMethod("begin_sent", BeginSent, "begin_sent(about, method, address, client=None) -> handle or None"),
    {"hide", Hide, kTupleOfArguments, "hide() -> int"},
    {"show", Show, kOneArgument, "show(hidden)"},
    {"note", Note, kTupleOfArguments, "note(message)"},
    FastMethod("note_calls", NoteCalls, "note_calls(offset, around, *functions) -> int"),
    FastMethod("note_lock", NoteLock, "note_lock(lock, is_recursive) -> int"),
    {"note_queues", NoteQueues, kOneArgument, "note_queues(type) -> int"},
    FastMethod("note_instructions", NoteInstructions, "note_instructions(rows, code, names) -> int"),
    {"forget_calls", Forget, kTupleOfArguments, "forget_calls()"},
    FastMethod("name_early", NameEarly, "name_early(native_id, name)"),
    FastMethod("finder", Finder, "finder(wanted, find) -> find_spec"),
    {nullptr, nullptr, 0, nullptr},
};
template <typename Head>
constexpr PyModule<Head> ModuleWith(Head head, const PyModuleSlot* slots) {
  constexpr auto kDoc = "Names and statements of a program under pfs run.";
  return {head, nullptr, 0, nullptr, "_pfs_run_native", kDoc, 0, kMethods, slots, nullptr, nullptr, nullptr};
}
constinit auto module = ModuleWith(HeadOfObject{1, nullptr}, nullptr);
// It is never freed, and leaves the GIL off (Py_mod_gil, Py_MOD_GIL_NOT_USED).
constexpr PyModuleSlot kWithoutGil[] = {{4, 1}, {0, 0}};
constexpr uint16_t kIsStatic = 4;  // _Py_STATICALLY_ALLOCATED_FLAG
constinit auto free_module = ModuleWith(HeadOfFreeObject{0, kIsStatic, 0, 0, UINT32_MAX, 0, nullptr}, kWithoutGil);

}  // namespace

namespace perfschema::run {
PyObject* NativeModule(PyObject* (*make)(void* definition, int version)) {
  constexpr int kVersion = 1013;  // PYTHON_API_VERSION, since CPython 2.5
  return make(&module, kVersion);
}
}  // namespace perfschema::run

// A program that has loaded the interpreter later than at its start finds its functions here. Where pfs is off, the layer that imports this
// has nothing to do: it wraps nothing then.
PFS_REPLACES PyObject* PyInit__pfs_run_native() {
  const bool is_there = g_py.PyModuleDef_Init != nullptr || FindPython() != nullptr;
  if (!is_there || g_py.PyModuleDef_Init == nullptr) return nullptr;
  const bool is_refused = g_python_is_free_threaded && !g_has_python_layer;
  if (!IsPlain() && !is_refused) return g_py.PyModuleDef_Init(g_python_is_free_threaded ? static_cast<void*>(&free_module) : &module);
  g_py.PyErr_SetString(*g_py.PyExc_ImportError, is_refused ? "a free-threaded Python of another version" : "pfs is off");
  return nullptr;
}
