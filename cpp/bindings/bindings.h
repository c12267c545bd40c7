// bindings/bindings.h: declarations that the files of this folder share. Only this folder includes pybind11 or Python.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/sql_dialect.h"
#include "base/status.h"
#include "guard.h"
#include "python.h"

namespace perfschema::bindings {

// Returns the bytes of a str as os.fsencode does: UTF-8, and the byte that a surrogate stands for if os.fsdecode made it. A surrogate that
// stands for no byte becomes three bytes, so that different texts stay different. REQUIRES: it is a str.
std::string BytesOf(PyObject* text);
// Returns the str of bytes as os.fsdecode does. Throws PythonError if there is no memory.
Object Decoded(std::string_view bytes);

// Is raised as the class of pfs.errors that belongs to the code.
// Threads: immutable.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status, const char* python_class = nullptr) : status_(std::move(status)), python_class_(python_class) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  void SetPythonError() const;

 private:
  const char* python_class() const;  // name in pfs.errors

  Status status_;
  const char* python_class_;  // overrides the code
};

// Throws if the status is a failure. `python_class` overrides the class that belongs to the code.
inline void RaiseIfBad(Status status, const char* python_class = nullptr) {
  if (!status.ok()) throw StatusError(std::move(status), python_class);
}

// Returns the dialect of that name. Throws if there is none.
Dialect DialectNamed(std::string_view name);

// The call site of the running Python code: the innermost frame outside this package, and outside threading, queue and socket. `file`
// is valid as long as the process runs. Throws nothing, leaves no exception. May collect garbage, so that any finalizer runs.
// Threads: the GIL is held.
struct CallSite {
  const char* file;  // nullptr = no Python frame
  uint32_t line;
};
CallSite FindCallSite();
// Returns the name that a user gives an object. None or nullptr: "python/<module>:<line>" of that frame, as pfs run names it. Throws
// PythonError for another object.
std::string NameOr(PyObject* name);
void StartCallSites();  // before that

// Gives the calling thread its name of Python at its first call; FindCallSite does so as well.
void NameThisThreadOnce();
// Notes that the calling thread has its final name.
void KeepThreadName();

// Registers "component/name", or the full name that begins with `family`, and returns its key; 0 if pfs is off or is full. `what` is the
// user's term for such a name, for the message. Throws StatusError for a name that breaks the rules.
// In the order of the table in common.cpp.
enum class NameFamily { kMutex, kFile, kRwlock, kCond, kThread, kSocket, kMemory, kStage, kStatement, kOwnWait };
uint32_t RegisterName(NameFamily family, const std::string& name, uint32_t flags = 0);  // flags: of its first registration
// Return the full name, and the short one, "component/name".
std::string FullName(NameFamily family, const std::string& name);
std::string ShortName(NameFamily family, const std::string& name);

void BindArrow(PyObject* module);
void BindConditions(PyObject* module);
void BindDigest(PyObject* module);
void BindErrors(PyObject* module);
void BindFiles(PyObject* module);
void BindIdentity(PyObject* module);
void BindLocks(PyObject* module);
void BindMemory(PyObject* module);
void BindProgram(PyObject* module);
void BindJoin(PyObject* module);
void BindQueues(PyObject* module);
void BindRWLocks(PyObject* module);
void BindSockets(PyObject* module);
void BindSetup(PyObject* module);
void BindStages(PyObject* module);
void BindStatements(PyObject* module);
void BindTables(PyObject* module);
void BindTransactions(PyObject* module);
void BindWaits(PyObject* module);

}  // namespace perfschema::bindings
