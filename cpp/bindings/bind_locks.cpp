// bindings/bind_locks.cpp: pfs.Lock, and the waits of one's own behind pfs.wait.
//
// Lock is a type of its own in the C API of Python: two calls of it per `with` block are what a program pays, and a pybind11
// method costs several times a plain one.
#include "bindings.h"  // Python.h comes first

#include <structmember.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "perfschema/pfs.h"

namespace perfschema::bindings {

namespace {

// ---- Lock ------------------------------------------------------------------------------------------------------------------------

struct LockObject {
  PyObject_HEAD
  PyThread_type_lock lock;
  pfs_instance_t* instance;    // nullptr = not instrumented
  PyObject* name;              // full name
  PyObject* weak_references;
  std::atomic<char> is_locked;  // what locked() says, and what makes release() legal
};

LockObject* AsLock(PyObject* object) { return reinterpret_cast<LockObject*>(object); }

// Runs a function of C++ for the interpreter: exceptions become Python's.
template <typename Function>
PyObject* Guarded(Function&& function) {
  try {
    return function();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const StatusError& error) {
    py::set_error(py::module_::import("pfs.errors").attr(error.python_class()), error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* LockNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", nullptr};
  PyObject* name = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "U:Lock", const_cast<char**>(names), &name)) return nullptr;
  return Guarded([&]() -> PyObject* {
    const auto text = py::reinterpret_borrow<py::str>(name).cast<std::string>();
    const uint32_t key = RegisterName(NameFamily::kMutex, text);
    const py::str full(FullName(NameFamily::kMutex, text));
    PyObject* object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    LockObject* self = AsLock(object);
    self->lock = PyThread_allocate_lock();
    self->name = py::object(full).release().ptr();
    if (self->lock == nullptr) {
      Py_DECREF(object);
      PyErr_SetString(PyExc_RuntimeError, "can't allocate lock");
      return nullptr;
    }
    self->instance = pfs_mutex_create(key, object);
    return object;
  });
}

void LockDealloc(PyObject* object) {
  LockObject* self = AsLock(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  if (self->lock != nullptr) {
    // Freeing a held lock is undefined for some kinds of lock.
    if (self->is_locked.load(std::memory_order_relaxed) != 0) {
      pfs_mutex_released(self->instance);
      PyThread_release_lock(self->lock);
    }
    PyThread_free_lock(self->lock);
  }
  pfs_mutex_discard(self->instance);
  Py_XDECREF(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

// Waits without the GIL, to the end or to a signal whose handler raises. -1: a Python exception is set.
int WaitForLock(LockObject* self, double timeout) {
  using Clock = std::chrono::steady_clock;
  const bool forever = timeout < 0;
  const auto limit = forever ? Clock::time_point::max() : Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(timeout * 1e9)));
  PY_TIMEOUT_T micros = forever ? -1 : static_cast<PY_TIMEOUT_T>(std::ceil(timeout * 1e6));
  for (;;) {
    PyLockStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = PyThread_acquire_lock_timed(self->lock, micros, 1);
    Py_END_ALLOW_THREADS;
    if (status == PY_LOCK_ACQUIRED) return 1;
    if (status == PY_LOCK_FAILURE) return 0;
    if (Py_MakePendingCalls() < 0) return -1;
    if (!forever) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(limit - Clock::now()).count();
      // As the standard lock does: the time is over, one last look.
      micros = left > 0 ? static_cast<PY_TIMEOUT_T>(left) : 0;
    }
  }
}

// One event per acquire, whatever becomes of it.
PyObject* Acquire(LockObject* self, bool blocking, double timeout) {
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled(self->instance)) {
    const CallSite site = FindCallSite();
    const pfs_lock_op op = !blocking ? PFS_TRY_LOCK : timeout < 0 ? PFS_LOCK : PFS_TIMED_LOCK;
    pfs_mutex_wait_begin_at(&wait, self->instance, op, site.file, site.line);
  }
  int got = PyThread_acquire_lock_timed(self->lock, 0, 0) == PY_LOCK_ACQUIRED ? 1 : 0;
  if (got == 0 && blocking && timeout != 0) got = WaitForLock(self, timeout);
  pfs_mutex_wait_end(&wait, got == 1 ? 0 : got == 0 ? (blocking ? ETIMEDOUT : EBUSY) : EINTR, PFS_NO_SPINS);
  if (got < 0) return nullptr;
  if (got == 1) self->is_locked.store(1, std::memory_order_relaxed);
  return PyBool_FromLong(got);
}

PyObject* LockAcquire(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"blocking", "timeout", nullptr};
  int blocking = 1;
  PyObject* limit = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pO:acquire", const_cast<char**>(names), &blocking, &limit)) return nullptr;
  double timeout = -1;
  if (limit != nullptr) {
    timeout = PyFloat_AsDouble(limit);
    if (timeout == -1 && PyErr_Occurred() != nullptr) return nullptr;
  }
  if (std::isnan(timeout)) {
    PyErr_SetString(PyExc_ValueError, "Invalid value NaN (not a number)");
  } else if (timeout < 0 && timeout != -1) {
    PyErr_SetString(PyExc_ValueError, "timeout value must be a non-negative number");
  } else if (!blocking && timeout != -1) {
    PyErr_SetString(PyExc_ValueError, "can't specify a timeout for a non-blocking call");
  } else if (timeout * 1e6 > static_cast<double>(PY_TIMEOUT_MAX)) {
    PyErr_SetString(PyExc_OverflowError, "timeout value is too large");
  } else {
    return Acquire(AsLock(object), blocking != 0, timeout);
  }
  return nullptr;
}

PyObject* LockEnter(PyObject* object, PyObject*) { return Acquire(AsLock(object), true, -1); }

PyObject* LockRelease(PyObject* object, PyObject*) {
  LockObject* self = AsLock(object);
  if (self->is_locked.exchange(0, std::memory_order_relaxed) == 0) {
    PyErr_SetString(PyExc_RuntimeError, "release unlocked lock");
    return nullptr;
  }
  pfs_mutex_released(self->instance);
  PyThread_release_lock(self->lock);
  Py_RETURN_NONE;
}

PyObject* LockExit(PyObject* object, PyObject* const*, Py_ssize_t) { return LockRelease(object, nullptr); }

PyObject* LockLocked(PyObject* object, PyObject*) { return PyBool_FromLong(AsLock(object)->is_locked.load(std::memory_order_relaxed)); }

// In the child of a fork() nobody holds the lock.
PyObject* LockAtForkReinit(PyObject* object, PyObject*) {
  LockObject* self = AsLock(object);
  const PyThread_type_lock fresh = PyThread_allocate_lock();
  if (fresh == nullptr) return PyErr_NoMemory();
  self->lock = fresh;  // the old one may be held by a thread that is no more: it is left behind
  pfs_mutex_released(self->instance);
  self->is_locked.store(0, std::memory_order_relaxed);
  Py_RETURN_NONE;
}

PyObject* LockRepr(PyObject* object) {
  LockObject* self = AsLock(object);
  return PyUnicode_FromFormat("<%s pfs.Lock object '%U' at %p>", self->is_locked.load(std::memory_order_relaxed) != 0 ? "locked" : "unlocked",
                              self->name, object);
}

PyObject* LockName(PyObject* object, void*) { return Py_NewRef(AsLock(object)->name); }

template <typename Function>
PyCFunction AsMethod(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyObject* MakeLockType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"acquire", AsMethod(LockAcquire), METH_VARARGS | METH_KEYWORDS,
       "acquire($self, blocking=True, timeout=-1)\n--\n\nTakes the lock; waits for it if blocking, for at most `timeout` seconds if given.\n"
       "Returns True if the lock was taken. Waiting releases the GIL; a signal handler that raises ends it."},
      {"release", LockRelease, METH_NOARGS,
       "release($self)\n--\n\nLets the lock go; any thread may. RuntimeError if it is not locked."},
      {"locked", LockLocked, METH_NOARGS, "locked($self)\n--\n\nTrue if somebody holds the lock."},
      {"__enter__", LockEnter, METH_NOARGS, "__enter__($self)\n--\n\nTakes the lock."},
      {"__exit__", AsMethod(LockExit), METH_FASTCALL, "__exit__($self, kind, error, trace, /)\n--\n\nLets the lock go."},
      {"_at_fork_reinit", LockAtForkReinit, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(LockObject, weak_references), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {{"name", LockName, nullptr, "Full name of the instrument.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] =
      "Lock(name)\n--\n\n"
      "A mutual-exclusion lock that is an instrumented mutex: a drop-in for threading.Lock.\n\n"
      "Lock('myapp/LOCK_queue') counts as wait/synch/mutex/myapp/LOCK_queue; the full name is accepted too. One event per acquire;\n"
      "SOURCE is the file and line of the caller. Waiting releases the GIL, and the time that is measured is that of the wait.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(LockNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(LockDealloc)},
                                {Py_tp_repr, reinterpret_cast<void*>(LockRepr)},
                                {Py_tp_methods, methods},
                                {Py_tp_members, members},
                                {Py_tp_getset, properties},
                                {Py_tp_doc, const_cast<char*>(doc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"pfs.Lock", sizeof(LockObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

// ---- Waits of one's own ------------------------------------------------------------------------------------------------------------

// Where a program waits for something: one per name, made at its first use, there for ever.
struct WaitPoint {
  std::string name;
  pfs_instance_t* instance;
};

WaitPoint* FindWaitPoint(const std::string& name) {
  static auto& points = *new std::map<std::string, WaitPoint*>;
  std::string full = FullName(NameFamily::kMutex, name);
  WaitPoint*& point = points[full];
  if (point == nullptr) {
    auto fresh = std::make_unique<WaitPoint>(WaitPoint{full, nullptr});
    fresh->instance = pfs_mutex_create(RegisterName(NameFamily::kMutex, name), fresh.get());
    point = fresh.release();
  }
  return point;
}

// The waits that a thread is in. They fill from the end, so that inner ones have lower addresses, as on a stack: the library takes
// waits at lower addresses than a new one's for left behind.
// Threads: owner thread.
struct OpenWaits {
  static constexpr int kMost = 64;
  struct Entry {
    const WaitPoint* point;  // nullptr = ended
    pfs_wait_t wait;
  } entries[kMost];
  int used;
};
thread_local OpenWaits t_open_waits;

void BeginWait(const WaitPoint* point) {
  OpenWaits& open = t_open_waits;
  if (open.used == OpenWaits::kMost) return;  // far deeper than events are recorded
  OpenWaits::Entry& entry = open.entries[OpenWaits::kMost - ++open.used];
  entry.point = point;
  entry.wait.instance = nullptr;
  if (pfs_enabled(point->instance)) {
    const CallSite site = FindCallSite();
    pfs_mutex_wait_begin_at(&entry.wait, point->instance, PFS_LOCK, site.file, site.line);
  }
}

// Ends the innermost open wait at this point. Nothing happens if this thread has none (it began elsewhere, or too deep).
void EndWait(const WaitPoint* point) {
  OpenWaits& open = t_open_waits;
  for (int depth = open.used; depth > 0; --depth) {
    OpenWaits::Entry& entry = open.entries[OpenWaits::kMost - depth];
    if (entry.point != point) continue;
    // Not 0: several threads may be in the wait at once, so that each counts for itself.
    pfs_mutex_wait_end(&entry.wait, EBUSY, PFS_NO_SPINS);
    entry.point = nullptr;
    break;
  }
  while (open.used > 0 && open.entries[OpenWaits::kMost - open.used].point == nullptr) --open.used;
}

}  // namespace

void BindLocks(py::module_& m) {
  PyObject* type = MakeLockType(m.ptr());
  if (type == nullptr) throw py::error_already_set();
  m.attr("Lock") = py::reinterpret_steal<py::object>(type);

  py::class_<WaitPoint, std::unique_ptr<WaitPoint, py::nodelete>>(m, "WaitPoint", "Where a program waits for something of its own.")
      .def(py::init(&FindWaitPoint), py::arg("name"))
      .def_property_readonly("name", [](const WaitPoint& point) { return point.name; })
      .def("begin", [](const WaitPoint& point) { BeginWait(&point); })
      .def("end", [](const WaitPoint& point) { EndWait(&point); });
}

}  // namespace perfschema::bindings
