// run/python_api.h: the functions of CPython that libperfschema-run.so calls in a program that is a Python interpreter.
//
// They are declared here by hand, as weak symbols: the library neither needs Python's headers nor Python. In another program they are null.
// All are in CPython 3.11 and later under these names and with these types (stable ABI, or public since 3.11).
#pragma once

#include <cstdint>

extern "C" {

#define PFS_PYTHON(declaration) declaration __attribute__((weak))

struct PyObject;
struct PyThreadState;
struct PyInterpreterState;
struct PyFrame;

PFS_PYTHON(extern char _PyRuntime[]);

PFS_PYTHON(PyThreadState* PyGILState_GetThisThreadState());
PFS_PYTHON(PyThreadState* PyThreadState_GetUnchecked());   // 3.13
PFS_PYTHON(PyThreadState* _PyThreadState_UncheckedGet());  // 3.11 and 3.12
PFS_PYTHON(void* PyThread_allocate_lock());
PFS_PYTHON(PyInterpreterState* PyThreadState_GetInterpreter(PyThreadState*));
PFS_PYTHON(PyInterpreterState* PyInterpreterState_Main());

PFS_PYTHON(PyFrame* PyThreadState_GetFrame(PyThreadState*));
PFS_PYTHON(PyFrame* PyFrame_GetBack(PyFrame*));
PFS_PYTHON(PyObject* PyFrame_GetCode(PyFrame*));
PFS_PYTHON(PyObject* PyFrame_GetGlobals(PyFrame*));
PFS_PYTHON(int PyFrame_GetLineNumber(PyFrame*));
PFS_PYTHON(int PyFrame_GetLasti(PyFrame*));
PFS_PYTHON(void Py_DecRef(PyObject*));
PFS_PYTHON(int PyGC_Disable());
PFS_PYTHON(int PyGC_Enable());
PFS_PYTHON(PyObject* PyErr_Occurred());
PFS_PYTHON(void PyErr_Clear());
PFS_PYTHON(PyObject* PyDict_GetItemWithError(PyObject*, PyObject*));
PFS_PYTHON(PyObject* PyObject_GetAttr(PyObject*, PyObject*));
PFS_PYTHON(PyObject* PyUnicode_InternFromString(const char*));
PFS_PYTHON(const char* PyUnicode_AsUTF8AndSize(PyObject*, intptr_t*));
PFS_PYTHON(unsigned long PyType_GetFlags(PyObject*));

// For a module.
PFS_PYTHON(int PyArg_ParseTuple(PyObject*, const char*, ...));
PFS_PYTHON(PyObject* PyLong_FromLong(long));
PFS_PYTHON(long PyLong_AsLong(PyObject*));
PFS_PYTHON(int PyObject_IsTrue(PyObject*));
PFS_PYTHON(intptr_t PyUnicode_GetLength(PyObject*));
PFS_PYTHON(PyObject* PyUnicode_AsEncodedString(PyObject*, const char* encoding, const char* errors));
PFS_PYTHON(int PyBytes_AsStringAndSize(PyObject*, char**, intptr_t*));
PFS_PYTHON(void PyErr_SetString(PyObject*, const char*));
PFS_PYTHON(extern PyObject* PyExc_TypeError);
PFS_PYTHON(extern PyObject* PyExc_ValueError);
PFS_PYTHON(PyObject* PyUnicode_FromStringAndSize(const char*, intptr_t));
PFS_PYTHON(PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*)));
PFS_PYTHON(void* PyCapsule_GetPointer(PyObject*, const char*));
PFS_PYTHON(PyObject* PyModuleDef_Init(void*));
PFS_PYTHON(PyObject* PyErr_NoMemory());
PFS_PYTHON(void Py_IncRef(PyObject*));
PFS_PYTHON(extern char _Py_NoneStruct[]);

// PyMethodDef and PyModuleDef of the stable ABI.
struct PyMethod {
  const char* name;
  union {
    PyObject* (*call)(PyObject* module, PyObject* arguments);
    PyObject* (*fast_call)(PyObject* module, PyObject* const* arguments, intptr_t count);
  };
  int flags;
  const char* doc;
};
struct PyModule {
  intptr_t references;
  void* type;
  void* init;
  intptr_t index;
  PyObject* copy;
  const char* name;
  const char* doc;
  intptr_t size;
  const PyMethod* methods;
  void* slots;
  void* traverse;
  void* clear;
  void* free;
};

#undef PFS_PYTHON
}  // extern "C"
