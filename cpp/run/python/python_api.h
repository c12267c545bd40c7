// run/python/python_api.h: what libperfschema-run.so calls of CPython in a program that is a Python interpreter.
//
// The functions are declared here by hand: the library neither needs Python's headers nor Python. It looks for them itself, because
// the dynamic linker would look for each in every object of every program. All are in CPython 3.11 and later under these names and with
// these types (stable ABI, or public since 3.11).
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace perfschema::run {

struct PyObject;
struct PyThreadState;
struct PyInterpreterState;
struct PyFrame;
struct PyMethod;

// F(result, name, parameters)
#define PFS_PYTHON_FUNCTIONS(F)                                                                  \
  F(PyThreadState*, PyGILState_GetThisThreadState, ())                                           \
  F(void*, PyThread_allocate_lock, ())                                                           \
  F(PyInterpreterState*, PyThreadState_GetInterpreter, (PyThreadState*))                         \
  F(PyInterpreterState*, PyInterpreterState_Main, ())                                            \
  F(PyFrame*, PyThreadState_GetFrame, (PyThreadState*))                                          \
  F(PyFrame*, PyFrame_GetBack, (PyFrame*))                                                       \
  F(PyObject*, PyFrame_GetCode, (PyFrame*))                                                      \
  F(PyObject*, PyFrame_GetGlobals, (PyFrame*))                                                   \
  F(int, PyFrame_GetLineNumber, (PyFrame*))                                                      \
  F(int, PyFrame_GetLasti, (PyFrame*))                                                           \
  F(void, Py_DecRef, (PyObject*))                                                                \
  F(int, PyGC_Disable, ())                                                                       \
  F(int, PyGC_Enable, ())                                                                        \
  F(PyObject*, PyErr_Occurred, ())                                                               \
  F(int, PyErr_ExceptionMatches, (PyObject*))                                                    \
  F(void, PyErr_Clear, ())                                                                       \
  F(PyObject*, PyDict_GetItemWithError, (PyObject*, PyObject*))                                  \
  F(PyObject*, PyObject_GetAttr, (PyObject*, PyObject*))                                         \
  F(PyObject*, PyUnicode_InternFromString, (const char*))                                        \
  F(const char*, PyUnicode_AsUTF8AndSize, (PyObject*, intptr_t*))                                \
  F(unsigned long, PyType_GetFlags, (PyObject*))                                                 \
  F(void*, PyType_GetSlot, (PyObject*, int))                                                     \
  F(int, PyArg_ParseTuple, (PyObject*, const char*, ...))                                        \
  F(PyObject*, PyLong_FromLong, (long))                                                          \
  F(long, PyLong_AsLong, (PyObject*))                                                            \
  F(int, PyObject_IsTrue, (PyObject*))                                                           \
  F(intptr_t, PyUnicode_GetLength, (PyObject*))                                                  \
  F(PyObject*, PyUnicode_AsEncodedString, (PyObject*, const char* encoding, const char* errors)) \
  F(int, PyBytes_AsStringAndSize, (PyObject*, char**, intptr_t*))                                \
  F(void, PyErr_SetString, (PyObject*, const char*))                                             \
  F(PyObject*, PyUnicode_FromStringAndSize, (const char*, intptr_t))                             \
  F(PyObject*, PyCapsule_New, (void*, const char*, void (*)(PyObject*)))                         \
  F(void*, PyCapsule_GetPointer, (PyObject*, const char*))                                       \
  F(PyObject*, PyModuleDef_Init, (void*))                                                        \
  F(PyObject*, PyErr_NoMemory, ())                                                               \
  F(void, Py_IncRef, (PyObject*))                                                                \
  F(PyObject*, PyObject_GetItem, (PyObject*, PyObject*))                                         \
  F(PyObject*, PyObject_Vectorcall, (PyObject*, PyObject* const*, size_t, PyObject*))            \
  F(PyObject*, PyCFunction_NewEx, (const PyMethod*, PyObject* self, PyObject* module))           \
  F(PyObject*, PyCFunction_GetSelf, (PyObject*))                                                 \
  F(PyObject*, PyTuple_GetItem, (PyObject*, intptr_t))                                           \
  F(PyObject*, PyList_New, (intptr_t))                                                           \
  F(PyObject*, PyList_GetItem, (PyObject*, intptr_t))                                            \
  F(int, PyList_SetItem, (PyObject*, intptr_t, PyObject*))                                       \
  F(int, PyDict_SetItem, (PyObject*, PyObject*, PyObject*))                                      \
  F(int, PyDict_DelItem, (PyObject*, PyObject*))                                                 \
  F(PyObject*, PyLong_FromVoidPtr, (void*))                                                      \
  F(PyObject*, PyWeakref_NewRef, (PyObject*, PyObject*))                                         \
  F(int, PyContextVar_Get, (PyObject*, PyObject*, PyObject**))                                   \
  F(PyObject*, PyContextVar_Set, (PyObject*, PyObject*))                                         \
  F(int, PyContextVar_Reset, (PyObject*, PyObject*))                                             \
  F(const char*, Py_GetVersion, ())

// What gives a reference: the object that another thread has replaced lives on. They may be absent before 3.13, which has the GIL.
#define PFS_PYTHON_REFERENCES(F)                                           \
  F(int, PyDict_GetItemRef, (PyObject*, PyObject*, PyObject**)) /* 3.13 */ \
  F(PyObject*, PyList_GetItemRef, (PyObject*, intptr_t))        /* 3.13 */

// The current thread's state: one of them is there.
#define PFS_PYTHON_STATES(F)                                    \
  F(PyThreadState*, PyThreadState_GetUnchecked, ())  /* 3.13 */ \
  F(PyThreadState*, _PyThreadState_UncheckedGet, ()) /* 3.11 and 3.12 */

// Variables: F(type, name)
#define PFS_PYTHON_VARIABLES(F)      \
  F(char, _PyRuntime)                \
  F(const unsigned long, Py_Version) \
  F(PyObject*, PyExc_Exception)      \
  F(PyObject*, PyExc_ImportError)    \
  F(PyObject*, PyExc_TypeError)      \
  F(PyObject*, PyExc_ValueError)     \
  F(char, _Py_NoneStruct)            \
  F(char, _Py_TrueStruct)

// Has the addresses, which are nullptr without an interpreter. Threads: constant after start.
struct PythonApi {
#define PFS_MEMBER(result, name, parameters) result(*name) parameters;
  PFS_PYTHON_FUNCTIONS(PFS_MEMBER)
  PFS_PYTHON_REFERENCES(PFS_MEMBER)
  PFS_PYTHON_STATES(PFS_MEMBER)
#undef PFS_MEMBER
#define PFS_MEMBER(type, name) type* name;
  PFS_PYTHON_VARIABLES(PFS_MEMBER)
#undef PFS_MEMBER
};
extern PythonApi g_py __attribute__((visibility("hidden")));

// Holds a reference of an object of Python, or nothing. REQUIRES: the GIL.
template <typename Object>
class Reference {
 public:
  explicit Reference(Object* object) : object_(object) {}
  ~Reference() { Drop(); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  void operator=(Object* object) {
    Drop();
    object_ = object;
  }
  Object* get() const { return object_; }

 private:
  void Drop() {
    if (object_ != nullptr) g_py.Py_DecRef(reinterpret_cast<PyObject*>(object_));
  }
  Object* object_;
};

inline PyObject* NewReference(PyObject* object) {
  g_py.Py_IncRef(object);
  return object;
}

// Return what a list or a dict has there, with a reference. nullptr: with an exception, or the dict has nothing.
inline PyObject* ItemOf(PyObject* list, intptr_t at) {
  if (g_py.PyList_GetItemRef != nullptr) return g_py.PyList_GetItemRef(list, at);
  PyObject* const item = g_py.PyList_GetItem(list, at);
  return item != nullptr ? NewReference(item) : nullptr;
}
inline PyObject* ValueOf(PyObject* dict, PyObject* key) {
  PyObject* value = nullptr;
  if (g_py.PyDict_GetItemRef != nullptr) return g_py.PyDict_GetItemRef(dict, key, &value) > 0 ? value : nullptr;
  value = g_py.PyDict_GetItemWithError(dict, key);
  return value != nullptr ? NewReference(value) : nullptr;
}

// Returns a list of objects, whose references it takes; nullptr with an exception.
template <typename... Objects>
PyObject* ListOf(Objects... objects) {
  PyObject* const list = g_py.PyList_New(sizeof...(objects));
  intptr_t at = 0;
  if (list != nullptr) {
    (g_py.PyList_SetItem(list, at++, objects), ...);
  } else {
    (g_py.Py_DecRef(objects), ...);
  }
  return list;
}

// The heads of objects: with the GIL, in the stable ABI, and without the GIL, from 3.13 on.
struct HeadOfObject {
  intptr_t references;
  void* type;
};
struct HeadOfFreeObject {
  uintptr_t owner;
  uint16_t flags;
  uint8_t lock, collected;
  uint32_t own_references;
  intptr_t other_references;
  void* type;
};

// True if the interpreter was built without the GIL: its objects have another form, and several threads run at once. FindPython() sets it.
extern bool g_python_is_free_threaded __attribute__((visibility("hidden")));

// Flags of the types of texts, bytes and types, for IsOfType(): Py_TPFLAGS_BYTES_SUBCLASS, Py_TPFLAGS_UNICODE_SUBCLASS,
// Py_TPFLAGS_TYPE_SUBCLASS.
constexpr unsigned long kIsBytes = 1ul << 27, kIsText = 1ul << 28, kIsType = 1ul << 31;
inline bool IsOfType(PyObject* object, unsigned long flag) {
  void* const type =
      g_python_is_free_threaded ? reinterpret_cast<HeadOfFreeObject*>(object)->type : reinterpret_cast<HeadOfObject*>(object)->type;
  return (g_py.PyType_GetFlags(static_cast<PyObject*>(type)) & flag) != 0;
}

// Fills `g_py`, and returns the object of the program that is the interpreter; nullptr if there is none that has all of them. A
// free-threaded interpreter is returned in any case, and is only called if g_has_python_layer.
const link_map* FindPython();

// PyMethodDef and PyModuleDef of the stable ABI.
constexpr int kTupleOfArguments = 1, kWithNames = 2, kOneArgument = 8, kFast = 0x80;  // METH_VARARGS, METH_KEYWORDS, METH_O, METH_FASTCALL
struct PyMethod {
  using Fast = PyObject* (*)(PyObject* self, PyObject* const* arguments, intptr_t count);
  using FastWithNames = PyObject* (*)(PyObject* self, PyObject* const* arguments, intptr_t count, PyObject* names);
  const char* name;
  union {
    PyObject* (*call)(PyObject* self, PyObject* arguments);
    Fast fast_call;
    FastWithNames call_with_names;
  };
  int flags;
  const char* doc;
};
constexpr PyMethod FastMethod(const char* name, PyMethod::Fast call, const char* doc) {
  PyMethod method{name, {nullptr}, kFast, doc};
  method.fast_call = call;
  return method;
}
constexpr PyMethod MethodWithNames(const char* name, PyMethod::FastWithNames call, const char* doc) {
  PyMethod method{name, {nullptr}, kFast | kWithNames, doc};
  method.call_with_names = call;
  return method;
}
struct PyModuleSlot {
  int number;
  uintptr_t value;
};
template <typename Head>
struct PyModule {
  Head head;
  void* init;
  intptr_t index;
  PyObject* copy;
  const char* name;
  const char* doc;
  intptr_t size;
  const PyMethod* methods;
  const PyModuleSlot* slots;
  void* traverse;
  void* clear;
  void* free;
};

}  // namespace perfschema::run
