// bindings/greenlets.cpp: see greenlets.h.
#include "greenlets.h"  // Python.h comes first

namespace perfschema::bindings {

ThreadModule g_thread_module;

namespace {

PyObject* allocate_name;
PyObject* greenlet_name;

// The C API of greenlet: two entries of the table in its capsule.
struct GreenletApi {
  PyObject* (*current)();
  PyObject* (*parent)(PyObject* greenlet);
};

// Returns nullptr if greenlet is not imported. Leaves no exception.
const GreenletApi* FindApi() {
  static GreenletApi api;
  if (Load(api.current) != nullptr) return &api;
  PyObject* const module = PyImport_GetModule(greenlet_name);
  PyObject* const capsule = module == nullptr ? nullptr : PyObject_GetAttrString(module, "_C_API");
  auto** const places = capsule == nullptr ? nullptr : static_cast<void**>(PyCapsule_GetPointer(capsule, "greenlet._C_API"));
  if (places != nullptr) {
    constexpr int kCurrent = 4, kParent = 11;
    api.parent = reinterpret_cast<PyObject* (*)(PyObject*)>(places[kParent]);
    Store(api.current, reinterpret_cast<PyObject* (*)()>(places[kCurrent]));
  }
  Py_XDECREF(capsule);
  Py_XDECREF(module);
  PyErr_Clear();
  return places == nullptr ? nullptr : &api;
}

}  // namespace

bool CheckThreadModule() {
#if PY_VERSION_HEX < 0x030c0000
  g_thread_module.version = reinterpret_cast<PyDictObject*>(g_thread_module.names)->ma_version_tag;
#endif
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  const bool is_replaced = Alone(g_thread_module.names, [] {  // the interpreter stores and tells the watcher in one step, too
    Store(g_thread_module.has_changed, false);
    const Item allocate(g_thread_module.names, allocate_name);
    Store(g_thread_module.is_replaced, allocate.get() != nullptr && !PyCFunction_CheckExact(allocate.get()));
    return g_thread_module.is_replaced;
  });
  PyErr_Restore(kind, error, trace);
  return is_replaced;
}

unsigned long CurrentGreenlet() {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  unsigned long number = 0;
  if (const GreenletApi* const api = FindApi(); api != nullptr) {
    PyObject* const current = api->current();
    PyObject* const parent = current == nullptr ? nullptr : api->parent(current);
    if (parent != nullptr) number = static_cast<unsigned long>(reinterpret_cast<uintptr_t>(current));
    Py_XDECREF(parent);
    Py_XDECREF(current);  // it is running, so it is alive
  }
  PyErr_Restore(kind, error, trace);  // drops the exception of greenlet
  return number;
}

PyObject* MakeGate() {
  if (!kHasGil) {
    PyErr_SetString(PyExc_RuntimeError, "locks of pfs do not wait in greenlets of a Python without the GIL: use the build with the GIL");
    return nullptr;
  }
  const Item allocate(g_thread_module.names, allocate_name);
  PyObject* const gate = allocate.get() == nullptr ? nullptr : PyObject_CallNoArgs(allocate.get());
  if (gate == nullptr) return PyErr_Occurred() != nullptr ? nullptr : PyErr_NoMemory();
  PyObject* const taken = PyObject_CallMethod(gate, "acquire", nullptr);
  if (taken == nullptr) {
    Py_DECREF(gate);
    return nullptr;
  }
  Py_DECREF(taken);
  return gate;
}

int WaitAtGate(PyObject* gate, double timeout) {
  PyObject* const got =
      timeout < 0 ? PyObject_CallMethod(gate, "acquire", nullptr) : PyObject_CallMethod(gate, "acquire", "Od", Py_True, timeout);
  const int result = got == nullptr ? -1 : PyObject_IsTrue(got);
  Py_XDECREF(got);
  return result;
}

void OpenGate(PyObject* gate) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyObject* const done = PyObject_CallMethod(gate, "release", nullptr);
  if (done == nullptr) PyErr_WriteUnraisable(gate);
  Py_XDECREF(done);
  PyErr_Restore(kind, error, trace);
}

void StartGreenlets() {
  allocate_name = PyUnicode_InternFromString("allocate_lock");
  greenlet_name = PyUnicode_InternFromString("greenlet");
  g_thread_module.names = Py_NewRef(PyModule_GetDict(Checked(PyImport_ImportModule("_thread")).get()));
  if (allocate_name == nullptr || greenlet_name == nullptr) throw PythonError();
#if PY_VERSION_HEX >= 0x030c0000
  const int watcher = PyDict_AddWatcher([](PyDict_WatchEvent, PyObject*, PyObject*, PyObject*) {
    Store(g_thread_module.has_changed, true);  // it is not stored yet
    return 0;
  });
  if (watcher < 0 || PyDict_Watch(watcher, g_thread_module.names) != 0) throw PythonError();
#endif
  CheckThreadModule();
}

}  // namespace perfschema::bindings
