// run/python_module.cpp: the module _pfs_run_native, through which the Python layer (python/pfs/_auto) names threads and makes statements.
//
// This library is the module's file: the interpreter finds PyInit__pfs_run_native() in the copy that is loaded already. The module uses the
// stable ABI only. Every function is called with the GIL.
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "run/clients.h"
#include "run/decoder.h"
#include "run/python.h"
#include "run/python_api.h"
#include "run/real.h"

using namespace perfschema::run;

namespace {

constexpr const char* kStatement = "pfs statement";

// Is a statement between begin() and end().
struct Handle {
  Suspendable running;
  pthread_t thread;
  bool is_open, is_suspended;
};

PyObject* None() {
  auto* const none = reinterpret_cast<PyObject*>(g_py._Py_NoneStruct);
  g_py.Py_IncRef(none);
  return none;
}

// Ends the statement. Another thread than the one that began it cannot: then it stays open, and is counted as lost.
void Close(Handle& handle) {
  if (!handle.is_open || pthread_equal(handle.thread, pthread_self()) == 0) return;
  handle.is_open = false;
  if (handle.is_suspended) Resume(handle.running);
  pfs_statement_end(&handle.running.statement);
}

void Drop(PyObject* capsule) {
  auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(capsule, kStatement));
  if (handle == nullptr) return;
  Close(*handle);
  std::free(handle->running.kept);
  delete handle;
}

// Returns the bytes of a text up to a zero, or nullptr if there is none: no str, or one that UTF-8 cannot have.
const char* BytesOf(PyObject* text) {
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, nullptr);
  if (bytes == nullptr) g_py.PyErr_Clear();
  return bytes;
}

// What each request calls takes its arguments from an array (METH_FASTCALL): to make a tuple, and to parse it, takes a thousand
// instructions a call.
using Arguments = PyObject* const*;

// Returns whether a function has got as many arguments as it takes. Raises TypeError.
bool HasCount(intptr_t count, intptr_t least, intptr_t most) {
  if (least <= count && count <= most) return true;
  g_py.PyErr_SetString(*g_py.PyExc_TypeError, "wrong number of arguments");
  return false;
}
bool IsNone(PyObject* object) { return object == reinterpret_cast<PyObject*>(g_py._Py_NoneStruct); }
// Returns the text of a str. nullptr: it is none, or has a zero inside, and an exception is raised.
const char* TextOf(PyObject* text) {
  intptr_t size = 0;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr || std::strlen(bytes) == static_cast<size_t>(size)) return bytes;
  g_py.PyErr_SetString(*g_py.PyExc_ValueError, "embedded null character");
  return nullptr;
}
// The same for a str or None.
bool ReadText(PyObject* object, const char** text) { return IsNone(object) || (*text = TextOf(object)) != nullptr; }
bool ReadNumber(PyObject* object, long* number) {
  *number = g_py.PyLong_AsLong(object);
  return *number != -1 || g_py.PyErr_Occurred() == nullptr;
}

// name_thread(name): names the calling thread thread/python/NAME, if that is a name.
PyObject* NameThread(PyObject*, PyObject* text) {
  if (const char* const name = BytesOf(text); name != nullptr && !IsPlain()) perfschema::run::NameThread("python", name);
  return None();
}

// key(component, name): returns the number of the instrument statement/COMPONENT/NAME; 0 if there is none.
PyObject* Key(PyObject*, PyObject* arguments) {
  const char* component = nullptr;
  const char* name = nullptr;
  if (g_py.PyArg_ParseTuple(arguments, "ss", &component, &name) == 0) return nullptr;
  if (IsPlain()) return g_py.PyLong_FromLong(0);
  return g_py.PyLong_FromLong(KeyOfNamed(pfs_register_statement, component, name, "Requests and queries of a Python program, by pfs run."));
}

// Returns a text without the bytes of a character that was cut.
std::string_view WithoutCutCharacter(std::string_view text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.remove_suffix(1);
  return text;
}

// request_text(method, target): returns the text of a request, as --decode http has it. `target` begins with a slash.
PyObject* RequestText(PyObject*, Arguments arguments, intptr_t count) {
  if (!HasCount(count, 2, 2)) return nullptr;
  const char* const method = TextOf(arguments[0]);
  const char* const target = method != nullptr ? TextOf(arguments[1]) : nullptr;
  if (target == nullptr) return nullptr;
  CommandText text;
  text.Clear();
  text.AddCommand(method);
  text.AddPath(target);
  const std::string_view whole = WithoutCutCharacter(text.text());
  return g_py.PyUnicode_FromStringAndSize(whole.data(), static_cast<intptr_t>(whole.size()));
}

// Is what a statement begins with.
struct Beginning {
  long key;
  std::string_view text;
  const char* schema;
  const char* skipped;
  bool is_detached;
  const char* traceparent;
};

// Begins a statement. Returns a handle, or None if it is not recorded.
PyObject* Begun(const Beginning& it) {
  if (IsPlain() || it.key == 0) return None();
  const SourceLine line = PythonLineOfThread(it.skipped);
  auto* const handle = new (std::nothrow) Handle{};
  if (handle == nullptr) return g_py.PyErr_NoMemory();
  const SourceLine at = line.file != nullptr ? line : SourceLine{"python", kWholePlace};
  if (!Begin(handle->running, static_cast<pfs_key_t>(it.key), at, it.text, it.schema)) {
    delete handle;
    return None();
  }
  if (it.traceparent != nullptr) {
    (void)pfs_statement_set_traceparent(&handle->running.statement, it.traceparent, std::strlen(it.traceparent));
  }
  handle->is_open = true;
  handle->thread = pthread_self();
  handle->is_suspended = it.is_detached;
  if (handle->is_suspended) Suspend(handle->running);
  PyObject* const capsule = g_py.PyCapsule_New(handle, kStatement, Drop);
  if (capsule == nullptr) {
    Close(*handle);
    std::free(handle->running.kept);
    delete handle;
  }
  return capsule;
}

// Reads the arguments from `at` on that both functions below have: skipped, detached, traceparent=None.
bool ReadRest(Arguments arguments, intptr_t count, intptr_t at, Beginning* it) {
  it->skipped = TextOf(arguments[at]);
  const int is_detached = it->skipped != nullptr ? g_py.PyObject_IsTrue(arguments[at + 1]) : -1;
  it->is_detached = is_detached > 0;
  return is_detached >= 0 && (count <= at + 2 || ReadText(arguments[at + 2], &it->traceparent));
}

// begin(key, text, schema, skipped, detached, traceparent=None): begins a statement. Returns a handle, or None if it is not recorded.
// SOURCE is the innermost frame outside of the packages in `skipped`. Nothing is nested in a statement that is detached: other tasks may
// run in the thread.
PyObject* BeginStatement(PyObject*, Arguments arguments, intptr_t count) {
  Beginning it = {};
  intptr_t size = 0;
  if (!HasCount(count, 5, 6) || !ReadNumber(arguments[0], &it.key)) return nullptr;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(arguments[1], &size);
  if (bytes == nullptr || !ReadText(arguments[2], &it.schema) || !ReadRest(arguments, count, 3, &it)) return nullptr;
  it.text = {bytes, static_cast<size_t>(size)};
  return Begun(it);
}

// Adds the target of a request to its text. It may have any characters: what is not ASCII becomes a ?, and a zero, too. Returns false with
// an exception.
bool AddTarget(PyObject* target, CommandText* text) {
  intptr_t size = 0;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(target, &size);
  if (bytes != nullptr && size == g_py.PyUnicode_GetLength(target) && std::strlen(bytes) == static_cast<size_t>(size)) {
    text->AddPath({bytes, static_cast<size_t>(size)});
    return true;
  }
  if (bytes == nullptr) g_py.PyErr_Clear();
  PyObject* const encoded = g_py.PyUnicode_AsEncodedString(target, "ascii", "replace");
  char* ascii = nullptr;
  if (encoded == nullptr) return false;
  const bool is_read = g_py.PyBytes_AsStringAndSize(encoded, &ascii, &size) == 0;
  if (is_read) {
    std::string clean(ascii, static_cast<size_t>(size));
    std::replace(clean.begin(), clean.end(), '\0', '?');
    text->AddPath(clean);
  }
  g_py.Py_DecRef(encoded);
  return is_read;
}

// begin_request(key, method, target, skipped, detached, traceparent=None): begins the statement of a request, whose text is that of
// request_text().
PyObject* BeginRequest(PyObject*, Arguments arguments, intptr_t count) {
  Beginning it = {};
  if (!HasCount(count, 5, 6) || !ReadNumber(arguments[0], &it.key)) return nullptr;
  const char* const method = TextOf(arguments[1]);
  if (method == nullptr || !ReadRest(arguments, count, 3, &it)) return nullptr;
  CommandText text;
  text.Clear();
  text.AddCommand(method);
  if (!AddTarget(arguments[2], &text)) return nullptr;
  it.text = WithoutCutCharacter(text.text());
  return Begun(it);
}

// end(handle, rows, affected, error, message): ends the statement. error: 0 = none. A message that is no text counts as none.
PyObject* EndStatement(PyObject*, Arguments arguments, intptr_t count) {
  long rows = 0, affected = 0, error = 0;
  if (!HasCount(count, 5, 5) || !ReadNumber(arguments[1], &rows) || !ReadNumber(arguments[2], &affected) ||
      !ReadNumber(arguments[3], &error)) {
    return nullptr;
  }
  if (error != static_cast<int>(error)) {
    g_py.PyErr_SetString(*g_py.PyExc_ValueError, "the number of an error is too large");
    return nullptr;
  }
  auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(arguments[0], kStatement));
  if (handle == nullptr) return nullptr;
  if (!handle->is_open || pthread_equal(handle->thread, pthread_self()) == 0) return None();
  if (handle->is_suspended) Resume(handle->running);
  handle->is_suspended = false;
  pfs_statement_t* const statement = &handle->running.statement;
  if (rows > 0) pfs_statement_set(statement, PFS_ROWS_SENT, static_cast<uint64_t>(rows));
  if (affected > 0) pfs_statement_set(statement, PFS_ROWS_AFFECTED, static_cast<uint64_t>(affected));
  if (error != 0) {
    const char* const message = BytesOf(arguments[4]);
    pfs_statement_set_error(statement, static_cast<int>(error), "HY000", message != nullptr ? message : "");
  }
  Close(*handle);
  return None();
}

// note(message): adds a row to error_log.
PyObject* Note(PyObject*, PyObject* arguments) {
  const char* message = nullptr;
  if (g_py.PyArg_ParseTuple(arguments, "s", &message) == 0) return nullptr;
  if (!IsPlain()) (void)pfs_log(PFS_LOG_WARNING, "PFS-PYTHON", "run", message);
  return None();
}

constexpr int kVarArgs = 1, kOne = 8, kFast = 0x80;  // METH_VARARGS, METH_O, METH_FASTCALL
using Fast = PyObject* (*)(PyObject*, Arguments, intptr_t);
constexpr PyMethod FastMethod(const char* name, Fast call, const char* doc) {
  PyMethod method{name, nullptr, kFast, doc};
  method.fast_call = call;
  return method;
}
const PyMethod kMethods[] = {
    {"name_thread", NameThread, kOne, "name_thread(name)"},
    {"key", Key, kVarArgs, "key(component, name) -> int"},
    FastMethod("request_text", RequestText, "request_text(method, target) -> str"),
    FastMethod("begin", BeginStatement, "begin(key, text, schema, skipped, detached, traceparent=None) -> handle or None"),
    FastMethod("begin_request", BeginRequest, "begin_request(key, method, target, skipped, detached, traceparent=None) -> handle or None"),
    FastMethod("end", EndStatement, "end(handle, rows, affected, error, message)"),
    {"note", Note, kVarArgs, "note(message)"},
    {nullptr, nullptr, 0, nullptr},
};
constinit PyModule module = {
    1,        nullptr, nullptr, 0,       nullptr, "_pfs_run_native", "Names and statements of a program under pfs run.", 0,
    kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

// A program that has loaded the interpreter later than at its start finds its functions here.
PFS_REPLACES PyObject* PyInit__pfs_run_native() {
  const bool is_there = g_py.PyModuleDef_Init != nullptr || FindPython() != nullptr;
  return is_there ? g_py.PyModuleDef_Init(&module) : nullptr;
}
