// run/python/python_statements.h: statements that the Python layer begins and ends, and how functions of the module _pfs_run_native read
// their arguments.
//
// Threads: the caller has the GIL, in all functions here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "run/python/python_api.h"

namespace perfschema::run {

// What each request calls takes its arguments from an array (METH_FASTCALL): to make a tuple, and to parse it, takes a thousand
// instructions a call.
using Arguments = PyObject* const*;

// Returns None, with a new reference.
PyObject* None();
inline bool IsNone(const PyObject* object) { return object == reinterpret_cast<const PyObject*>(g_py._Py_NoneStruct); }
// Returns whether a function has got as many arguments as it takes. Raises TypeError.
bool HasCount(intptr_t count, intptr_t least, intptr_t most);
// Returns the text of a str. nullptr: it is no str, or has a zero inside, and an exception is raised.
const char* TextOf(PyObject* text);
// The same for a str or None.
bool ReadText(PyObject* object, const char** text);
bool ReadNumber(PyObject* object, long* number);
// Returns the bytes of a text up to a zero, or nullptr if there is none: no str, or one that UTF-8 cannot have.
const char* BytesOf(PyObject* text);

// Is what a statement begins with.
struct Beginning {
  long key;
  std::string_view text;
  const char* schema;
  const char* skipped;  // packages whose lines are no SOURCE; see PythonLineOfThread()
  bool is_detached;     // nothing is nested in it: other tasks may run in the thread
  const char* traceparent;
};

// Begins a statement. Returns a handle, which ends it when it dies; None if it is not recorded; nullptr with an exception.
PyObject* BeginStatement(const Beginning& beginning);

// Returns whether it was not asked before about this statement: one of several threads gets true.
bool IsFirstToLeave(PyObject* handle);

// Lets a statement go on: nothing is nested in it from now on. Returns false with an exception.
bool DetachStatement(PyObject* handle);

// Ends a statement; error: 0 = none. Returns false with an exception.
// Threads: any, and several at once; the caller may call the interpreter.
bool EndStatement(PyObject* handle, long rows, long affected, int error, const char* message);

// Reads the arguments from `at` on that functions share which begin a statement: skipped, detached, traceparent=None. Returns false with an
// exception.
bool ReadRest(Arguments arguments, intptr_t count, intptr_t at, Beginning* it);

// The functions of requests (python_requests.cpp), for the table of the module.
PyObject* RequestText(PyObject* module, Arguments arguments, intptr_t count);
PyObject* BeginRequest(PyObject* module, Arguments arguments, intptr_t count);
PyObject* BeginWsgi(PyObject* module, Arguments arguments, intptr_t count);
PyObject* LeaveWsgi(PyObject* module, PyObject* start);
PyObject* EndWsgi(PyObject* module, Arguments arguments, intptr_t count);
PyObject* Ask(PyObject* module, Arguments arguments, intptr_t count);
PyObject* TakeAsked(PyObject* module, Arguments arguments, intptr_t count);
PyObject* BeginSent(PyObject* module, Arguments arguments, intptr_t count);

}  // namespace perfschema::run
