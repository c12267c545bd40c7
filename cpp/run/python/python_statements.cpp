#include "run/python/python_statements.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "run/loader/real.h"
#include "run/protocols/clients.h"
#include "run/python/python.h"

namespace perfschema::run {
namespace {

constexpr const char* kStatement = "pfs statement";

// A statement that runs. Any thread may end it, and without a GIL two may at once.
struct Handle {
  Suspendable running;
  bool is_open, is_suspended;
  std::atomic<bool> is_claimed, is_left;
};

// Claims a handle. Who does not get it has nothing to do: another thread ends the statement, or else it ends when the handle dies. Nobody
// waits here: a child of fork() would wait for a thread that it does not have.
class Claim {
 public:
  explicit Claim(Handle& handle) : handle_(handle), is_mine_(!handle.is_claimed.exchange(true, std::memory_order_acquire)) {}
  ~Claim() {
    if (is_mine_) handle_.is_claimed.store(false, std::memory_order_release);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool OfOpen() const { return is_mine_ && handle_.is_open; }

 private:
  Handle& handle_;
  const bool is_mine_;
};

void Detach(Handle& handle) {
  if (handle.is_open && !handle.is_suspended) Suspend(handle.running);
  handle.is_suspended = true;
}

void GoOn(Handle& handle) {
  if (handle.is_suspended) Resume(handle.running);
  handle.is_suspended = false;
}

// REQUIRES: GoOn().
void Close(Handle& handle) {
  handle.is_open = false;
  pfs_statement_end(&handle.running.statement);
}

void Free(Handle* handle) {
  if (handle->is_open) {
    GoOn(*handle);
    Close(*handle);
  }
  std::free(handle->running.kept);
  delete handle;
}

void Drop(PyObject* capsule) {
  if (auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(capsule, kStatement)); handle != nullptr) Free(handle);
}

}  // namespace

PyObject* None() {
  auto* const none = reinterpret_cast<PyObject*>(g_py._Py_NoneStruct);
  g_py.Py_IncRef(none);
  return none;
}

const char* BytesOf(PyObject* text) {
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, nullptr);
  if (bytes == nullptr) g_py.PyErr_Clear();
  return bytes;
}

bool HasCount(intptr_t count, intptr_t least, intptr_t most) {
  if (least <= count && count <= most) return true;
  g_py.PyErr_SetString(*g_py.PyExc_TypeError, "wrong number of arguments");
  return false;
}

const char* TextOf(PyObject* text) {
  intptr_t size = 0;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr || std::strlen(bytes) == static_cast<size_t>(size)) return bytes;
  g_py.PyErr_SetString(*g_py.PyExc_ValueError, "embedded null character");
  return nullptr;
}

bool ReadText(PyObject* object, const char** text) { return IsNone(object) || (*text = TextOf(object)) != nullptr; }

bool ReadNumber(PyObject* object, long* number) {
  *number = g_py.PyLong_AsLong(object);
  return *number != -1 || g_py.PyErr_Occurred() == nullptr;
}

bool ReadRest(Arguments arguments, intptr_t count, intptr_t at, Beginning* it) {
  it->skipped = TextOf(arguments[at]);
  const int is_detached = it->skipped != nullptr ? g_py.PyObject_IsTrue(arguments[at + 1]) : -1;
  it->is_detached = is_detached > 0;
  return is_detached >= 0 && (count <= at + 2 || ReadText(arguments[at + 2], &it->traceparent));
}

PyObject* BeginStatement(const Beginning& beginning) {
  if (IsPlain() || beginning.key == 0) return None();
  const SourceLine line = PythonLineOfThread(beginning.skipped);
  auto* const handle = new (std::nothrow) Handle{};
  if (handle == nullptr) return g_py.PyErr_NoMemory();
  const SourceLine at = line.file != nullptr ? line : SourceLine{"python", kWholePlace};
  if (!Begin(handle->running, static_cast<pfs_key_t>(beginning.key), at, beginning.text, beginning.schema)) {
    delete handle;
    return None();
  }
  if (beginning.traceparent != nullptr) {
    (void)pfs_statement_set_traceparent(&handle->running.statement, beginning.traceparent, std::strlen(beginning.traceparent));
  }
  handle->is_open = true;
  if (beginning.is_detached) Detach(*handle);
  PyObject* const capsule = g_py.PyCapsule_New(handle, kStatement, Drop);
  if (capsule == nullptr) Free(handle);
  return capsule;
}

bool IsFirstToLeave(PyObject* capsule) {
  auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(capsule, kStatement));
  return handle != nullptr && !handle->is_left.exchange(true, std::memory_order_relaxed);
}

bool DetachStatement(PyObject* capsule) {
  auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(capsule, kStatement));
  if (handle == nullptr) return false;
  if (const Claim claim(*handle); claim.OfOpen()) Detach(*handle);
  return true;
}

bool EndStatement(PyObject* capsule, long rows, long affected, int error, const char* message) {
  auto* const handle = static_cast<Handle*>(g_py.PyCapsule_GetPointer(capsule, kStatement));
  if (handle == nullptr) return false;
  const Claim claim(*handle);
  if (!claim.OfOpen()) return true;
  GoOn(*handle);
  pfs_statement_t* const statement = &handle->running.statement;
  if (rows > 0) pfs_statement_set(statement, PFS_ROWS_SENT, static_cast<uint64_t>(rows));
  if (affected > 0) pfs_statement_set(statement, PFS_ROWS_AFFECTED, static_cast<uint64_t>(affected));
  if (error != 0) pfs_statement_set_error(statement, error, "HY000", message != nullptr ? message : "");
  Close(*handle);
  return true;
}

}  // namespace perfschema::run
