// bindings/module.cpp: the module pfs._core. Thin: each file binds one group of functions.
#include "greenlets.h"
#include "perfschema/pfs.h"
#include "pybind.h"  // comes first
#include "tasks.h"

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
    } catch (const PythonError&) {  // the exception is set
    }
  });
  StartCallSites();
  BindDigest(m.ptr());
  BindIdentity(m.ptr());
  BindTables(m.ptr());
  BindArrow(m.ptr());
  BindSetup(m.ptr());
  StartWaitQueues();
  StartGreenlets();
  BindLocks(m.ptr());
  BindConditions(m.ptr());
  BindRWLocks(m.ptr());
  BindMemory(m.ptr());
  BindQueues(m.ptr());
  StartTasks();
  BindWaits(m.ptr());
  BindErrors(m.ptr());
  BindStages(m.ptr());
  BindStatements(m.ptr());
  BindTransactions(m.ptr());
  BindFiles(m.ptr());
  BindSockets(m.ptr());
  BindProgram(m.ptr());
  BindJoin(m.ptr());
}

PyObject* the_module;  // for the lifetime of the process

// Makes the module. Types and names belong to the process, and a lock knows one GIL. So the first interpreter owns them; a second one
// would deadlock. A module that is imported again is the same one.
PyObject* Create(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "pfs works in the main interpreter only: module pfs._core does not support loading in subinterpreters");
    return nullptr;
  }
  if (the_module != nullptr) return Py_NewRef(the_module);
  const Object name(PyObject_GetAttrString(spec, "name"));
  return name ? PyModule_NewObject(name.get()) : nullptr;
}

int Execute(PyObject* module) {
  if (module == the_module) return 0;
  try {
    PYBIND11_ENSURE_INTERNALS_READY;
    auto m = py::reinterpret_borrow<py::module_>(module);
    Fill(m);
    the_module = Py_NewRef(module);
    return 0;
  } catch (const PythonError&) {  // the exception is set
    // PYBIND11_CATCH_INIT_EXCEPTIONS returns nullptr in pybind11 2, and nothing in pybind11 3.
  } catch (py::error_already_set& error) {
    py::raise_from(error, PyExc_ImportError, "initialization failed");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
  }
  return -1;
}

PyModuleDef_Slot slots[] = {{Py_mod_create, reinterpret_cast<void*>(Create)},
                            {Py_mod_exec, reinterpret_cast<void*>(Execute)},
#ifdef Py_mod_gil
                            {Py_mod_gil, Py_MOD_GIL_NOT_USED},  // guard.h
#endif
#ifdef Py_mod_multiple_interpreters
                            {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
                            {0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The compiled half of pfs. Private.", 0, nullptr, slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace perfschema::bindings

// Is not PYBIND11_MODULE, which waits for the GIL of the main interpreter: a subinterpreter would wait forever.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  PYBIND11_CHECK_PYTHON_VERSION;
  return PyModuleDef_Init(&perfschema::bindings::definition);
}
