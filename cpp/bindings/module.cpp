// bindings/module.cpp: the module pfs._core. Thin: each file binds one group of functions.
#include "tasks.h"  // Python.h comes first

#include "perfschema/pfs.h"

namespace perfschema::bindings {
namespace {

void Fill(py::module_& m) {
  m.doc() = "The compiled half of pfs. Private.";
  m.attr("__version__") = PFS_VERSION;
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      if (raised) std::rethrow_exception(raised);
    } catch (const StatusError& error) {
      error.SetPythonError();
    }
  });
  StartCallSites();
  BindDigest(m);
  BindIdentity(m);
  BindTables(m);
  BindSetup(m);
  StartLines();
  StartGreenlets();
  BindLocks(m);
  BindConditions(m);
  BindRWLocks(m);
  BindMemory(m);
  BindQueues(m);
  StartTasks();
  BindWaits(m);
  BindErrors(m);
  BindStages(m);
  BindStatements(m);
  BindTransactions(m);
  BindFiles(m);
  BindSockets(m);
  BindProgram(m);
}

PyObject* the_module;  // for the life of the process

// Types and names are of the process, and a lock knows one GIL: the interpreter that comes first has them, a second one would wait for itself.
// A module that is imported again is the same one.
PyObject* Create(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError, "pfs works in the main interpreter only: module pfs._core does not support loading in subinterpreters");
    return nullptr;
  }
  if (the_module != nullptr) return Py_NewRef(the_module);
  return Guarded([&]() -> PyObject* { return PyModule_NewObject(py::object(py::handle(spec).attr("name")).ptr()); });
}

int Execute(PyObject* module) {
  if (module == the_module) return 0;
  try {
    PYBIND11_ENSURE_INTERNALS_READY;
    auto m = py::reinterpret_borrow<py::module_>(module);
    Fill(m);
    the_module = Py_NewRef(module);
    return 0;
  }
  PYBIND11_CATCH_INIT_EXCEPTIONS
  return -1;
}

PyModuleDef_Slot slots[] = {{Py_mod_create, reinterpret_cast<void*>(Create)},
                            {Py_mod_exec, reinterpret_cast<void*>(Execute)},
#ifdef Py_mod_multiple_interpreters
                            {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
                            {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", "The compiled half of pfs. Private.", 0, nullptr, slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace perfschema::bindings

// Not PYBIND11_MODULE, which asks for the GIL of the main interpreter: in a subinterpreter that never comes.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  PYBIND11_CHECK_PYTHON_VERSION;
  return PyModuleDef_Init(&perfschema::bindings::definition);
}
