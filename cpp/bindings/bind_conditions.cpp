// bindings/bind_conditions.cpp: pfs.Condition. A wait is one event of the condition, from the release of the lock until it is held again.
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>

#include "tasks.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

// Threads: the GIL is held.
struct ConditionObject {
  PyObject_HEAD PyObject* lock;
  LockKind kind;             // kind of `lock`
  pfs_instance_t* instance;  // nullptr = not instrumented
  PyObject* name;            // full name
  PyObject* weak_references;
  WaitQueue waiters;
};

ConditionObject* AsCondition(PyObject* object) { return reinterpret_cast<ConditionObject*>(object); }

PyObject* MakeCondition(PyTypeObject* type, const std::string& name, PyObject* lock) {
  const uint32_t key = RegisterName(NameFamily::kCond, name);
  Object full = Decoded(FullName(NameFamily::kCond, name));
  // Without a lock of its own, a condition makes one with the condition's name, in the lock's family.
  const Object inner(lock == Py_None ? MakeRLock(ShortName(NameFamily::kCond, name)) : Py_NewRef(lock));
  if (!inner) return nullptr;
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  ConditionObject* self = AsCondition(object);
  self->lock = Py_NewRef(inner.get());
  self->kind = KindOf(self->lock);
  self->name = full.Release();
  self->instance = pfs_cond_create(key, object);
  return object;
}

PyObject* ConditionNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", "lock", nullptr};
  PyObject* name = nullptr;
  PyObject* lock = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO:Condition", const_cast<char**>(names), &name, &lock)) return nullptr;
  return Guarded([&] { return MakeCondition(type, NameOr(name), lock); });
}

int ConditionTraverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(AsCondition(object)->lock);
  return 0;
}

// Breaks reference cycles. Methods may still be called afterwards: they find an object that is no lock.
int ConditionClear(PyObject* object) {
  ConditionObject* self = AsCondition(object);
  PyObject* lock = self->lock;
  self->kind = LockKind::kOther;
  self->lock = Py_NewRef(Py_None);
  Py_XDECREF(lock);
  return 0;
}

void ConditionDealloc(PyObject* object) {
  ConditionObject* self = AsCondition(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  self->waiters.Free();
  pfs_cond_discard(self->instance);
  Py_XDECREF(self->lock);
  Py_XDECREF(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- Locks of any kind
// -------------------------------------------------------------------------------------------------------------------

// Calls a method that not every lock has. Returns false if this lock lacks it.
bool CallIfThere(PyObject* lock, const char* name, PyObject* argument, PyObject** result) {
  PyObject* method = PyObject_GetAttrString(lock, name);
  if (method == nullptr) {
    *result = nullptr;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return true;
    PyErr_Clear();
    return false;
  }
  *result = argument == nullptr ? PyObject_CallNoArgs(method) : PyObject_CallOneArg(method, argument);
  Py_DECREF(method);
  return true;
}

// Returns 1, 0, or -1 and a Python exception.
int IsHeldByCaller(ConditionObject* self) {
  if (self->kind != LockKind::kOther) return IsOwned(self->kind, AsLock(self->lock)) ? 1 : 0;
  PyObject* result;
  bool is_owned = true;
  if (!CallIfThere(self->lock, "_is_owned", nullptr, &result)) {
    // A lock that can be acquired is not held.
    is_owned = false;
    result = PyObject_CallMethod(self->lock, "acquire", "O", Py_False);
  }
  const int answer = result == nullptr ? -1 : PyObject_IsTrue(result);
  Py_XDECREF(result);
  if (answer < 0 || is_owned) return answer;
  if (answer == 0) return 1;
  result = PyObject_CallMethod(self->lock, "release", nullptr);
  Py_XDECREF(result);
  return result == nullptr ? -1 : 0;
}

// Holds the state that is needed to take a released lock back.
struct Kept {
  KeptLock lock;
  PyObject* state;  // kOther
};

bool LetLockGo(ConditionObject* self, Kept* kept) {
  kept->state = nullptr;
  if (self->kind != LockKind::kOther) {
    kept->lock = LetGo(AsLock(self->lock));
    return true;
  }
  if (!CallIfThere(self->lock, "_release_save", nullptr, &kept->state)) {
    kept->state = PyObject_CallMethod(self->lock, "release", nullptr);
  }
  return kept->state != nullptr;
}

// Takes the lock back. An exception that is set stays, unless there is a new one.
bool TakeLockBack(ConditionObject* self, Kept* kept) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  bool done;
  if (self->kind != LockKind::kOther) {
    done = TakeBack(AsLock(self->lock), kept->lock);
  } else {
    PyObject* result;
    if (!CallIfThere(self->lock, "_acquire_restore", kept->state, &result)) result = PyObject_CallMethod(self->lock, "acquire", nullptr);
    Py_DECREF(kept->state);
    done = result != nullptr;
    Py_XDECREF(result);
    SwitchBackToRunningTask();
  }
  if (done || type == nullptr) {
    if (done) PyErr_Restore(type, error, trace);
    return done;
  }
  // Chains exceptions as in a `finally`: the new one, in the context of the old one.
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  PyObject *new_type, *new_error, *new_trace;
  PyErr_Fetch(&new_type, &new_error, &new_trace);
  PyErr_NormalizeException(&new_type, &new_error, &new_trace);
  PyException_SetContext(new_error, error);  // steals the reference
  Py_DECREF(type);
  Py_XDECREF(trace);
  PyErr_Restore(new_type, new_error, new_trace);
  return false;
}

// ---- Waiting and waking ----------------------------------------------------------------------------------------------------------------

// Returns True if the wait was woken, False at the timeout; nullptr: a Python exception is set. -1 seconds: no limit. REQUIRES: alone.
PyObject* WaitAlone(ConditionObject* self, double timeout) {
  const int is_held = IsHeldByCaller(self);
  if (is_held == 0) PyErr_SetString(PyExc_RuntimeError, "cannot wait on un-acquired lock");
  if (is_held != 1) return nullptr;
  Waiter* waiter = Waiter::Make();
  if (waiter == nullptr) return nullptr;
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled_(self->instance)) {
    const CallSite site = FindCallSite();
    pfs_cond_wait_begin_at(&wait, self->instance, timeout < 0 ? PFS_WAIT : PFS_TIMED_WAIT, site.file, site.line);
  }
  self->waiters.Join(waiter);
  Kept kept;
  Waited waited = Waited::kInterrupted;
  if (LetLockGo(self, &kept)) {
    waited = waiter->is_woken ? Waited::kGot : Waited::kTimeOver;
    if (waited != Waited::kGot && timeout != 0) waited = waiter->Wait(timeout);
    if (!TakeLockBack(self, &kept)) waited = Waited::kInterrupted;
  }
  // The waiter was woken after the timeout, but before it had the lock: a notification must not be lost.
  if (waiter->is_woken && waited == Waited::kTimeOver) waited = Waited::kGot;
  if (!waiter->is_woken) self->waiters.Leave(waiter);
  waiter->Free();
  pfs_cond_wait_end(&wait, ResultOf(waited));
  return waited == Waited::kInterrupted ? nullptr : PyBool_FromLong(waited == Waited::kGot);
}

PyObject* Wait(PyObject* object, double timeout) {
  return Alone(object, [=] { return WaitAlone(AsCondition(object), timeout); });
}

// Parses a timeout. None is no limit; 0 or less checks once.
bool ParseWait(PyObject* object, double* timeout) {
  *timeout = -1;
  if (object == Py_None) return true;
  if (!ParseTimeout(object, timeout)) return false;
  if (!(*timeout > 0)) *timeout = 0;
  return true;
}

PyObject* ConditionWaitWith(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"timeout", nullptr};
  PyObject* limit = Py_None;
  double timeout;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:wait", const_cast<char**>(names), &limit) || !ParseWait(limit, &timeout))
    return nullptr;
  return Wait(object, timeout);
}

PyObject* ConditionWait(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count > 1 || names != nullptr) return CallWithTuple(ConditionWaitWith, object, args, count, names);
  double timeout = -1;
  return count == 0 || ParseWait(args[0], &timeout) ? Wait(object, timeout) : nullptr;
}

PyObject* ConditionWaitFor(PyObject* object, PyObject* args, PyObject* keywords) {
  using Clock = std::chrono::steady_clock;
  static const char* names[] = {"predicate", "timeout", nullptr};
  PyObject* predicate;
  PyObject* limit = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:wait_for", const_cast<char**>(names), &predicate, &limit)) return nullptr;
  double timeout = -1;
  Clock::time_point start;
  for (bool is_first = true;; is_first = false) {
    PyObject* result = PyObject_CallNoArgs(predicate);
    const int is_true = result == nullptr ? -1 : PyObject_IsTrue(result);
    if (is_true == 1) return result;
    double left = -1;
    bool is_over = is_true < 0;
    if (is_first && !is_over) {
      start = Clock::now();
      is_over = !ParseWait(limit, &timeout);
      left = timeout;
    } else if (!is_over && timeout >= 0) {
      left = timeout - std::chrono::duration<double>(Clock::now() - start).count();
      if (left <= 0) return result;
    }
    Py_XDECREF(result);
    if (is_over) return nullptr;
    PyObject* woken = Wait(object, left);
    if (woken == nullptr) return nullptr;
    Py_DECREF(woken);
  }
}

PyObject* Notify(PyObject* object, Py_ssize_t count) {
  return Alone(object, [self = AsCondition(object), count]() mutable -> PyObject* {
    const int is_held = IsHeldByCaller(self);
    if (is_held == 0) PyErr_SetString(PyExc_RuntimeError, "cannot notify on un-acquired lock");
    if (is_held != 1) return nullptr;
    for (; count > 0 && !self->waiters.is_empty(); --count) self->waiters.Wake();
    Py_RETURN_NONE;
  });
}

PyObject* ConditionNotifyWith(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"n", nullptr};
  PyObject* number = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:notify", const_cast<char**>(names), &number)) return nullptr;
  const Py_ssize_t count = number == nullptr ? 1 : PyNumber_AsSsize_t(number, nullptr);
  if (count == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return Notify(object, count);
}

PyObject* ConditionNotify(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 0 && names == nullptr) return Notify(object, 1);
  return CallWithTuple(ConditionNotifyWith, object, args, count, names);
}

PyObject* ConditionNotifyAll(PyObject* object, PyObject*) { return Notify(object, PY_SSIZE_T_MAX); }

PyObject* ConditionNotifyAllOld(PyObject* object, PyObject* ignored) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning, "notifyAll() is deprecated, use notify_all() instead", 1) != 0) return nullptr;
  return ConditionNotifyAll(object, ignored);
}

// ---- Methods of the lock ---------------------------------------------------------------------------------------------------------------

PyObject* ConditionAcquire(PyObject* object, PyObject* args, PyObject* keywords) {
  ConditionObject* self = AsCondition(object);
  if (self->kind != LockKind::kOther) {
    Limits limits;
    return ParseLimits(args, keywords, &limits) ? AcquireLock(self->kind, AsLock(self->lock), limits) : nullptr;
  }
  PyObject* method = PyObject_GetAttrString(self->lock, "acquire");
  PyObject* result = method == nullptr ? nullptr : PyObject_Call(method, args, keywords);
  Py_XDECREF(method);
  return result;
}

PyObject* ConditionRelease(PyObject* object, PyObject*) {
  ConditionObject* self = AsCondition(object);
  if (self->kind != LockKind::kOther) return ReleaseLock(self->kind, AsLock(self->lock));
  return PyObject_CallMethod(self->lock, "release", nullptr);
}

PyObject* ConditionEnter(PyObject* object, PyObject*) {
  ConditionObject* self = AsCondition(object);
  if (self->kind != LockKind::kOther) return AcquireLock(self->kind, AsLock(self->lock), {});
  return PyObject_CallMethod(self->lock, "__enter__", nullptr);
}

PyObject* ConditionExit(PyObject* object, PyObject* args) {
  ConditionObject* self = AsCondition(object);
  if (self->kind != LockKind::kOther) return ReleaseLock(self->kind, AsLock(self->lock));
  PyObject* method = PyObject_GetAttrString(self->lock, "__exit__");
  PyObject* result = method == nullptr ? nullptr : PyObject_CallObject(method, args);
  Py_XDECREF(method);
  return result;
}

PyObject* ConditionLocked(PyObject* object, PyObject*) { return PyObject_CallMethod(AsCondition(object)->lock, "locked", nullptr); }

PyObject* ConditionIsOwned(PyObject* object, PyObject*) {
  const int is_held = IsHeldByCaller(AsCondition(object));
  return is_held < 0 ? nullptr : PyBool_FromLong(is_held);
}

// In the child of a fork() no thread holds the lock or waits.
PyObject* ConditionAtForkReinit(PyObject* object, PyObject*) {
  ConditionObject* self = AsCondition(object);
  self->waiters.Forget();
  return PyObject_CallMethod(self->lock, "_at_fork_reinit", nullptr);
}

PyObject* ConditionRepr(PyObject* object) {
  ConditionObject* self = AsCondition(object);
  return PyUnicode_FromFormat("<pfs.Condition '%U' (%R, %zu)>", self->name, self->lock, self->waiters.size());
}

PyObject* ConditionName(PyObject* object, void*) { return Py_NewRef(AsCondition(object)->name); }

PyObject* MakeConditionType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"wait", AsMethod(ConditionWait), METH_FASTCALL | METH_KEYWORDS,
       "wait($self, timeout=None)\n--\n\n"
       "Releases the lock, waits until notify() wakes this thread or `timeout` seconds are over, and takes the lock again. Returns True if "
       "it was woken.\n"
       "One event: wait, or timed_wait if there is a timeout. RuntimeError if the lock is not held."},
      {"wait_for", AsMethod(ConditionWaitFor), METH_VARARGS | METH_KEYWORDS,
       "wait_for($self, predicate, timeout=None)\n--\n\n"
       "Waits until predicate() is true or `timeout` seconds are over; returns its last result. One event per wait in it."},
      {"notify", AsMethod(ConditionNotify), METH_FASTCALL | METH_KEYWORDS,
       "notify($self, n=1)\n--\n\nWakes the `n` threads that have waited longest, or all if there are fewer. No event. RuntimeError if the "
       "lock is not held."},
      {"notify_all", ConditionNotifyAll, METH_NOARGS, "notify_all($self)\n--\n\nWakes all waiting threads. No event."},
      {"notifyAll", ConditionNotifyAllOld, METH_NOARGS, "notifyAll($self)\n--\n\nDeprecated name of notify_all()."},
      {"acquire", AsMethod(ConditionAcquire), METH_VARARGS | METH_KEYWORDS,
       "acquire($self, *args, **kwargs)\n--\n\nTakes the lock: its acquire()."},
      {"release", ConditionRelease, METH_NOARGS, "release($self)\n--\n\nReleases the lock: its release()."},
      {"locked", ConditionLocked, METH_NOARGS, "locked($self)\n--\n\nTrue if the lock is held."},
      {"__enter__", ConditionEnter, METH_NOARGS, "__enter__($self)\n--\n\nTakes the lock."},
      {"__exit__", ConditionExit, METH_VARARGS, "__exit__($self, kind, error, trace, /)\n--\n\nReleases the lock."},
      {"_is_owned", ConditionIsOwned, METH_NOARGS, nullptr},
      {"_at_fork_reinit", ConditionAtForkReinit, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(ConditionObject, weak_references), READONLY, nullptr},
                                  {"_lock", T_OBJECT_EX, offsetof(ConditionObject, lock), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {{"name", ConditionName, nullptr, "Full name of the instrument.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] =
      "Condition(name=None, lock=None)\n--\n\n"
      "A condition variable that is an instrumented condition: a drop-in for threading.Condition.\n\n"
      "Condition('myapp/COND_work') counts as wait/synch/cond/myapp/COND_work and has a row in cond_instances. `lock` is a pfs.Lock, a\n"
      "pfs.RLock or any other lock; without one the condition makes a pfs.RLock of its own, wait/synch/mutex/myapp/COND_work.\n\n"
      "A wait is one event, wait or timed_wait, from the release of the lock until it is held again. A lock of pfs makes no event in it,\n"
      "and its LOCKED_BY_THREAD_ID is NULL until it is held again.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(ConditionNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(ConditionDealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(ConditionTraverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(ConditionClear)},
                                {Py_tp_repr, reinterpret_cast<void*>(kAlone<ConditionRepr>)},
                                {Py_tp_methods, methods},
                                {Py_tp_members, members},
                                {Py_tp_getset, properties},
                                {Py_tp_doc, const_cast<char*>(doc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"pfs.Condition", sizeof(ConditionObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace

void BindConditions(PyObject* module) {
  PyObject* type = MakeConditionType(module);
  AddToModule(module, "Condition", type);
}

}  // namespace perfschema::bindings
