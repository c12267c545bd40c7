// bindings/waiting.cpp: arguments of acquire(), waiting without the GIL, queues of waiting threads.
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cmath>

#include "gil.h"
#include "tasks.h"  // Python.h comes first

namespace perfschema::bindings {

PyObject* CallWithTuple(PyCFunctionWithKeywords method, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* tuple = PyTuple_New(count);
  PyObject* keywords = names == nullptr ? nullptr : PyDict_New();
  bool done = tuple != nullptr && (names == nullptr || keywords != nullptr);
  for (Py_ssize_t i = 0; done && i < count; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; done && i < named; ++i) done = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[count + i]) == 0;
  PyObject* result = done ? method(self, tuple, keywords) : nullptr;
  Py_XDECREF(tuple);
  Py_XDECREF(keywords);
  return result;
}

void SetPythonError() {
  try {
    throw;
  } catch (const PythonError&) {  // the exception is set
  } catch (const StatusError& error) {
    error.SetPythonError();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

bool ParseTimeout(PyObject* number, double* timeout) {
  // Takes what the standard locks take: floats and integers, since Python 3.15 all real numbers.
  if (PyFloat_Check(number) || (PY_VERSION_HEX >= 0x030f0000 && !PyIndex_Check(number))) {
    *timeout = PyFloat_AsDouble(number);
  } else {
    PyObject* const integer = PyNumber_Index(number);
    if (integer == nullptr) return false;
    *timeout = PyLong_AsDouble(integer);
    Py_DECREF(integer);
  }
  if (*timeout == -1 && PyErr_Occurred() != nullptr) return false;
  if (*timeout * 1e6 > static_cast<double>(PY_TIMEOUT_MAX)) {
    PyErr_SetString(PyExc_OverflowError, "timeout value is too large");
    return false;
  }
  return true;
}

bool ParseLimits(PyObject* args, PyObject* keywords, Limits* limits) {
  static const char* names[] = {"blocking", "timeout", nullptr};
  int blocking = 1;
  PyObject* timeout = nullptr;
  // As the locks of this Python: any object since 3.13, a whole number before.
  constexpr const char* kFormat = PY_VERSION_HEX >= 0x030d0000 ? "|pO:acquire" : "|iO:acquire";
  if (!PyArg_ParseTupleAndKeywords(args, keywords, kFormat, const_cast<char**>(names), &blocking, &timeout)) return false;
  limits->blocking = blocking != 0;
  if (timeout == nullptr) return true;
  if (!ParseTimeout(timeout, &limits->timeout)) return false;
  if (std::isnan(limits->timeout)) {
    PyErr_SetString(PyExc_ValueError, "Invalid value NaN (not a number)");
  } else if (limits->timeout < 0 && limits->timeout != -1) {
    PyErr_SetString(PyExc_ValueError, "timeout value must be a non-negative number");
  } else if (!limits->blocking && limits->timeout != -1) {
    PyErr_SetString(PyExc_ValueError, "can't specify a timeout for a non-blocking call");
  } else {
    return true;
  }
  return false;
}

int ResultOf(Waited waited, bool blocking) {
  switch (waited) {
    case Waited::kGot:
      return 0;
    case Waited::kTimeOver:
      return blocking ? ETIMEDOUT : EBUSY;
    case Waited::kInterrupted:
      break;
  }
  return EINTR;
}

Waited WaitForThreadLock(PyThread_type_lock lock, double timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr double kAges = 1e9;  // seconds: a point in time so far away might overflow
  const bool forever = timeout < 0;
  const auto limit = forever || timeout > kAges ? Clock::time_point::max()
                                                : Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(timeout * 1e9)));
  PY_TIMEOUT_T micros = forever ? -1 : static_cast<PY_TIMEOUT_T>(std::ceil(timeout * 1e6));
  for (;;) {
    const PyLockStatus status = WithoutGil([=] { return PyThread_acquire_lock_timed(lock, micros, 1); });
    if (status == PY_LOCK_ACQUIRED) return Waited::kGot;
    if (status == PY_LOCK_FAILURE) return Waited::kTimeOver;
    if (Py_MakePendingCalls() < 0) return Waited::kInterrupted;
    if (!forever && timeout <= kAges) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(limit - Clock::now()).count();
      // Like the standard lock: after the timeout it tries once more.
      micros = left > 0 ? static_cast<PY_TIMEOUT_T>(left) : 0;
    }
  }
}

void AwaitThreadLock(PyThread_type_lock lock) {
  if (TryThreadLock(lock)) return;
  WithoutGil([=] { PyThread_acquire_lock(lock, WAIT_LOCK); });
}

Waiter* Waiter::Make() {
  const bool is_green = IsGreen();
  PyObject* const gate = is_green ? MakeGate() : nullptr;
  if (is_green && gate == nullptr) return nullptr;
  auto* waiter = static_cast<Waiter*>(PyMem_Malloc(sizeof(Waiter)));
  if (waiter != nullptr) {
    *waiter = {is_green ? nullptr : PyThread_allocate_lock(), gate, nullptr, nullptr, PyThread_get_thread_ident(), Me(), false, false};
    if (is_green) return waiter;
    if (waiter->lock != nullptr) {
      PyThread_acquire_lock(waiter->lock, NOWAIT_LOCK);
      return waiter;
    }
    PyMem_Free(waiter);
  }
  Py_XDECREF(gate);
  PyErr_NoMemory();
  return nullptr;
}

Waited Waiter::Wait(double timeout) {
  if (gate == nullptr) return WaitForThreadLock(lock, timeout);
  const int got = WaitAtGate(gate, timeout);
  SwitchBackToRunningTask();
  return got < 0 ? Waited::kInterrupted : got != 0 ? Waited::kGot : Waited::kTimeOver;
}

void Waiter::Free() {
  if (lock != nullptr) PyThread_free_lock(lock);
  Py_XDECREF(gate);
  PyMem_Free(this);
}

namespace {

// Counts the forks of this process and its ancestors; and holds the thread that survived in a forked child.
unsigned forks;
unsigned long survivor;

}  // namespace

void StartWaitQueues() {
  pthread_atfork(nullptr, nullptr, [] {
    ++forks;
    survivor = PyThread_get_thread_ident();
  });
}

void WaitQueue::Refresh() {
  if (__builtin_expect(forks_ == forks, 1)) return;
  forks_ = forks;
  for (Waiter* waiter = first_; waiter != nullptr;) {
    Waiter* next = waiter->next;
    if (waiter->thread != survivor) Leave(waiter);  // and is never freed: its lock may be in any state
    waiter = next;
  }
}

void WaitQueue::Join(Waiter* waiter) {
  Refresh();
  waiter->previous = last_;
  (last_ == nullptr ? first_ : last_->next) = waiter;
  last_ = waiter;
  ++size_;
}

void WaitQueue::Leave(Waiter* waiter) {
  (waiter->previous == nullptr ? first_ : waiter->previous->next) = waiter->next;
  (waiter->next == nullptr ? last_ : waiter->next->previous) = waiter->previous;
  waiter->previous = waiter->next = nullptr;
  --size_;
}

void WaitQueue::Wake() {
  Waiter* waiter = first_;
  Leave(waiter);
  waiter->is_woken = true;
  if (waiter->gate == nullptr) return PyThread_release_lock(waiter->lock);
  PyObject* const gate = Py_NewRef(waiter->gate);  // the waiter may run, and be freed
  OpenGate(gate);
  Py_DECREF(gate);
}

void WaitQueue::Free() {
  while (first_ != nullptr) {
    Waiter* waiter = first_;
    Leave(waiter);
    waiter->Free();
  }
}

}  // namespace perfschema::bindings
