// bindings/bindings.h: what the files of this folder share. Only this folder includes pybind11 or Python.h.
#pragma once

#include "text.h"  // before the rest of pybind11

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace perfschema::bindings {

namespace py = pybind11;

// Raised as the class of pfs.errors that belongs to the code.
// Threads: immutable.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status, const char* python_class = nullptr)
      : status_(std::move(status)), python_class_(python_class) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  void SetPythonError() const;

 private:
  const char* python_class() const;  // name in pfs.errors

  Status status_;
  const char* python_class_;  // overrides the code
};

// `python_class` overrides the class that belongs to the code of a failure.
inline void RaiseIfBad(Status status, const char* python_class = nullptr) {
  if (!status.ok()) throw StatusError(std::move(status), python_class);
}

// Where the running Python code was called from: the innermost frame outside this package, and outside threading, queue and socket. `file`
// lives as long as the process. Throws nothing, leaves no exception. May collect garbage, so that any finalizer runs.
// Threads: the GIL is held.
struct CallSite {
  const char* file;  // nullptr = no Python frame
  uint32_t line;
};
CallSite FindCallSite();
void StartCallSites();  // before that

// Gives the calling thread its name of Python at its first call; FindCallSite does so as well.
void NameThisThreadOnce();
// The calling thread has the name that it is to have.
void KeepThreadName();

// Registers "component/name", or the full name that begins with `family`, and gives its key; 0 if pfs is off or has no room for it.
// `what` is what the user calls such a name, for the message. Throws StatusError for a name that breaks the rules.
enum class NameFamily { kMutex, kFile, kRwlock, kCond, kThread, kSocket, kMemory, kStage, kStatement };  // as in the table in common.cpp
uint32_t RegisterName(NameFamily family, const std::string& name, uint32_t flags = 0);  // flags: of its first registration
// The full name that RegisterName gives it, and the short one, "component/name".
std::string FullName(NameFamily family, const std::string& name);
std::string ShortName(NameFamily family, const std::string& name);

void BindConditions(py::module_& m);
void BindDigest(py::module_& m);
void BindErrors(py::module_& m);
void BindFiles(py::module_& m);
void BindIdentity(py::module_& m);
void BindLocks(py::module_& m);
void BindMemory(py::module_& m);
void BindProgram(py::module_& m);
void BindQueues(py::module_& m);
void BindRWLocks(py::module_& m);
void BindSockets(py::module_& m);
void BindSetup(py::module_& m);
void BindStages(py::module_& m);
void BindStatements(py::module_& m);
void BindTables(py::module_& m);
void BindTransactions(py::module_& m);
void BindWaits(py::module_& m);

}  // namespace perfschema::bindings
