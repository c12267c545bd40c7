// bindings/module.cpp: the module pfs._core. Thin: each file binds one group of functions.
#include "tasks.h"  // Python.h comes first

#include "perfschema/pfs.h"

PYBIND11_MODULE(_core, m) {
  using namespace perfschema::bindings;
  m.doc() = "The compiled half of pfs. Private.";
  m.attr("__version__") = PFS_VERSION;
  py::register_exception_translator([](std::exception_ptr raised) {
    try {
      if (raised) std::rethrow_exception(raised);
    } catch (const StatusError& error) {
      py::set_error(py::module_::import("pfs.errors").attr(error.python_class()), error.what());
    }
  });
  StartCallSites();
  BindDigest(m);
  BindIdentity(m);
  BindTables(m);
  BindSetup(m);
  StartLines();
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
