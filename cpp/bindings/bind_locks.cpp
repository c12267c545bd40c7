// bindings/bind_locks.cpp: pfs.Lock and pfs.RLock.
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <new>
#include <string>

#include "locks.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

PyTypeObject* lock_type;
PyTypeObject* rlock_type;

PyObject* MakeLock(PyTypeObject* type, const std::string& name) {
  const uint32_t key = RegisterName(NameFamily::kMutex, name);
  Object full = Decoded(FullName(NameFamily::kMutex, name));
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  LockObject* self = AsLock(object);
  self->lock = PyThread_allocate_lock();
  self->name = full.Release();
  if (self->lock == nullptr) {
    Py_DECREF(object);
    PyErr_SetString(PyExc_RuntimeError, "can't allocate lock");
    return nullptr;
  }
  self->instance = pfs_mutex_create(key, object);
  return object;
}

PyObject* LockNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", nullptr};
  PyObject* name = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:Lock", const_cast<char**>(names), &name)) return nullptr;
  return Guarded([&] { return MakeLock(type, NameOr(name)); });
}

void LockDealloc(PyObject* object) {
  LockObject* self = AsLock(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  if (self->lock != nullptr) {
    if (self->depth != 0) {  // freeing a held lock is undefined for some kinds of lock
      HideOwner(self->instance);
      PyThread_release_lock(self->lock);
    }
    PyThread_free_lock(self->lock);
  }
  pfs_mutex_discard(self->instance);
  if (self->greenlets != nullptr) self->greenlets->Free();
  delete self->greenlets;
  Py_XDECREF(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

// ---- Greenlets
// ---------------------------------------------------------------------------------------------------------------------------
//
// A greenlet must not wait for the thread lock: no other greenlet of its thread could release it then. It waits in a queue and tries again
// when the lock is released.

void Unlock(LockObject* self) {
  PyThread_release_lock(self->lock);
  if (__builtin_expect(self->greenlets != nullptr, 0) && !self->greenlets->is_empty()) self->greenlets->Wake();
}

Waited WaitAsGreenlet(LockObject* self, double timeout) {
  using Clock = std::chrono::steady_clock;
  if (self->greenlets == nullptr) self->greenlets = new (std::nothrow) WaitQueue;
  if (self->greenlets == nullptr) return PyErr_NoMemory(), Waited::kInterrupted;
  WaitQueue* const queue = self->greenlets;
  const Clock::time_point start = Clock::now();
  for (double left = timeout;;) {
    Waiter* const waiter = Waiter::Make();
    if (waiter == nullptr) return Waited::kInterrupted;
    queue->Join(waiter);
    Waited waited = TryThreadLock(self->lock) ? Waited::kGot : Waited::kTimeOver;  // released while the waiter was made
    bool is_ours = waited == Waited::kGot;
    if (!is_ours) {
      waited = waiter->Wait(left);
      is_ours = waited != Waited::kInterrupted && TryThreadLock(self->lock);
    }
    const bool is_woken = waiter->is_woken;
    if (!is_woken) queue->Leave(waiter);
    waiter->Free();
    if (is_ours) return Waited::kGot;
    // Another waiter may take it.
    if (waited == Waited::kInterrupted && is_woken && Load(self->depth) == 0 && !queue->is_empty()) queue->Wake();
    if (waited != Waited::kGot) return waited;
    if (timeout < 0) continue;
    left = timeout - std::chrono::duration<double>(Clock::now() - start).count();
    if (left <= 0) return Waited::kTimeOver;
  }
}

// Waits to the end, whatever signals come. Returns false if an exception has ended the wait of a greenlet; it is set.
bool AwaitLock(LockObject* self) {
  if (IsGreen()) return TryThreadLock(self->lock) || WaitAsGreenlet(self, -1) == Waited::kGot;
  AwaitThreadLock(self->lock);
  return true;
}

// ----------------------------------------------------------------------------------------------------------------------------------------

// Makes one event per acquire, whatever its result.
template <LockKind kKind>
PyObject* Acquire(LockObject* self, const Limits& limits) {
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled_(self->instance)) {
    const CallSite site = FindCallSite();
    pfs_mutex_wait_begin_at(&wait, self->instance, limits.op(), site.file, site.line);
  }
  if (kKind == LockKind::kRLock && Load(self->depth) != 0 && Load(self->owner) == Me()) {
    pfs_mutex_wait_end(&wait, 0, PFS_NO_SPINS);
    Store(self->depth, self->depth + 1);
    Py_RETURN_TRUE;
  }
  Waited waited = TryThreadLock(self->lock) ? Waited::kGot : Waited::kTimeOver;
  if (waited != Waited::kGot && limits.may_wait()) {
    waited = IsGreen() ? WaitAsGreenlet(self, limits.timeout) : WaitForThreadLock(self->lock, limits.timeout);
  }
  pfs_mutex_wait_end(&wait, ResultOf(waited, limits.blocking), PFS_NO_SPINS);
  if (waited == Waited::kInterrupted) return nullptr;
  if (waited == Waited::kTimeOver) Py_RETURN_FALSE;
  // The owner comes first: the thread that was the owner before may look.
  if (kKind == LockKind::kRLock) Store(self->owner, Me());
  Store(self->depth, 1);
  Py_RETURN_TRUE;
}

template <LockKind kKind>
PyObject* Release(LockObject* self) {
  if (kKind == LockKind::kLock && Exchange(self->depth, 0) == 0) {
    PyErr_SetString(PyExc_RuntimeError, "release unlocked lock");
    return nullptr;
  }
  if (kKind == LockKind::kRLock && !IsOwned(kKind, self)) {
    PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock");
    return nullptr;
  }
  if (kKind == LockKind::kRLock) Store(self->depth, self->depth - 1);
  if (kKind == LockKind::kLock || self->depth == 0) {
    HideOwner(self->instance);
    Unlock(self);
  } else if (self->instance != nullptr && self->instance->owner >> 48 != 0) {
    pfs_mutex_released(self->instance);  // one level; the outermost may not have been recorded
  }
  Py_RETURN_NONE;
}

// ---- Methods ---------------------------------------------------------------------------------------------------------------------------

template <LockKind kKind>
PyObject* LockAcquireWith(PyObject* object, PyObject* args, PyObject* keywords) {
  Limits limits;
  return ParseLimits(args, keywords, &limits) ? Acquire<kKind>(AsLock(object), limits) : nullptr;
}

template <LockKind kKind>
PyObject* LockAcquire(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 0 && names == nullptr) return Acquire<kKind>(AsLock(object), {});
  return CallWithTuple(LockAcquireWith<kKind>, object, args, count, names);
}

template <LockKind kKind>
PyObject* LockEnter(PyObject* object, PyObject*) {
  return Acquire<kKind>(AsLock(object), {});
}

template <LockKind kKind>
PyObject* LockRelease(PyObject* object, PyObject*) {
  return Release<kKind>(AsLock(object));
}

template <LockKind kKind>
PyObject* LockExit(PyObject* object, PyObject* const*, Py_ssize_t) {
  return Release<kKind>(AsLock(object));
}

PyObject* LockLocked(PyObject* object, PyObject*) { return PyBool_FromLong(Load(AsLock(object)->depth) != 0); }

template <LockKind kKind>
PyObject* LockIsOwned(PyObject* object, PyObject*) {
  return PyBool_FromLong(IsOwned(kKind, AsLock(object)));
}

// In the child of a fork() no thread holds the lock.
PyObject* LockAtForkReinit(PyObject* object, PyObject*) {
  LockObject* self = AsLock(object);
  const PyThread_type_lock fresh = PyThread_allocate_lock();
  if (fresh == nullptr) return PyErr_NoMemory();
  self->lock = fresh;  // the old one may be held by a thread that does not exist here: it is leaked
  HideOwner(self->instance);
  self->depth = self->owner = 0;
  if (self->greenlets != nullptr) self->greenlets->Forget();
  Py_RETURN_NONE;
}

void Restore(LockObject* self, const KeptLock& kept) {
  Store(self->owner, kept.owner);
  Store(self->depth, kept.depth);
}

// threading.Condition uses these two functions.

PyObject* RLockReleaseSave(PyObject* object, PyObject*) {
  LockObject* self = AsLock(object);
  if (Load(self->depth) == 0) {
    PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock");
    return nullptr;
  }
  const KeptLock kept = LetGo(self);
  return Py_BuildValue("kk", kept.depth, kept.owner);
}

PyObject* RLockAcquireRestore(PyObject* object, PyObject* state) {
  KeptLock kept;
  if (!PyArg_Parse(state, "(kk):_acquire_restore", &kept.depth, &kept.owner)) return nullptr;
  LockObject* self = AsLock(object);
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled_(self->instance)) {
    const CallSite site = FindCallSite();
    pfs_mutex_wait_begin_at(&wait, self->instance, PFS_LOCK, site.file, site.line);
  }
  const bool is_taken = AwaitLock(self);
  pfs_mutex_wait_end(&wait, is_taken ? 0 : EINTR, PFS_NO_SPINS);
  if (!is_taken) return nullptr;
  Restore(self, kept);
  Py_RETURN_NONE;
}

PyObject* RLockRecursionCount(PyObject* object, PyObject*) {
  LockObject* self = AsLock(object);
  return PyLong_FromUnsignedLong(IsOwned(LockKind::kRLock, self) ? self->depth : 0);
}

PyObject* LockRepr(PyObject* object) {
  LockObject* self = AsLock(object);
  const char* state = Load(self->depth) != 0 ? "locked" : "unlocked";
  return PyUnicode_FromFormat("<%s pfs.Lock object '%U' at %p>", state, self->name, object);
}

PyObject* RLockRepr(PyObject* object) {
  LockObject* self = AsLock(object);
  const unsigned long depth = Load(self->depth);
  return PyUnicode_FromFormat("<%s %s object '%U' owner=%lu count=%lu at %p>", depth != 0 ? "locked" : "unlocked", Py_TYPE(object)->tp_name,
                              self->name, Load(self->owner), depth, object);
}

PyObject* LockName(PyObject* object, void*) { return Py_NewRef(AsLock(object)->name); }

// ---- Types -----------------------------------------------------------------------------------------------------------------------------

PyMemberDef lock_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(LockObject, weak_references), READONLY, nullptr},
                              {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef lock_properties[] = {{"name", LockName, nullptr, "Full name of the instrument.", nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* MakeType(PyObject* module, const char* name, unsigned int flags, reprfunc repr, PyMethodDef* methods, const char* doc) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(LockNew)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(LockDealloc)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_methods, methods},
                         {Py_tp_members, lock_members},
                         {Py_tp_getset, lock_properties},
                         {Py_tp_doc, const_cast<char*>(doc)},
                         {0, nullptr}};
  PyType_Spec spec = {name, sizeof(LockObject), 0, flags, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
}

PyTypeObject* MakeLockType(PyObject* module) {
  constexpr LockKind kKind = LockKind::kLock;
  static PyMethodDef methods[] = {
      {"acquire", AsMethod(LockAcquire<kKind>), METH_FASTCALL | METH_KEYWORDS,
       "acquire($self, blocking=True, timeout=-1)\n--\n\nTakes the lock; waits for it if blocking, for at most `timeout` seconds if "
       "given.\n"
       "Returns True if the lock was taken. Waiting releases the GIL; a signal handler that raises ends it."},
      {"release", LockRelease<kKind>, METH_NOARGS,
       "release($self)\n--\n\nReleases the lock; any thread may do so. RuntimeError if it is not locked."},
      {"locked", LockLocked, METH_NOARGS, "locked($self)\n--\n\nTrue if the lock is held."},
      {"__enter__", LockEnter<kKind>, METH_NOARGS, "__enter__($self)\n--\n\nTakes the lock."},
      {"__exit__", AsMethod(LockExit<kKind>), METH_FASTCALL, "__exit__($self, kind, error, trace, /)\n--\n\nReleases the lock."},
      {"_is_owned", LockIsOwned<kKind>, METH_NOARGS, nullptr},
      {"_at_fork_reinit", LockAtForkReinit, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static const char doc[] =
      "Lock(name=None)\n--\n\n"
      "A mutual-exclusion lock that is an instrumented mutex: a drop-in for threading.Lock.\n\n"
      "Lock('myapp/LOCK_queue') counts as wait/synch/mutex/myapp/LOCK_queue; the full name is accepted too. Without a name it is\n"
      "python/MODULE:LINE of the line that makes it. One event per acquire;\n"
      "SOURCE is the file and line of the caller. Waiting releases the GIL, and the time that is measured is that of the wait.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  return MakeType(module, "pfs.Lock", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, LockRepr, methods, doc);
}

PyTypeObject* MakeRLockType(PyObject* module) {
  constexpr LockKind kKind = LockKind::kRLock;
  static PyMethodDef methods[] = {
      {"acquire", AsMethod(LockAcquire<kKind>), METH_FASTCALL | METH_KEYWORDS,
       "acquire($self, blocking=True, timeout=-1)\n--\n\n"
       "Takes the lock, once more if this thread has it; waits for it if blocking, for at most `timeout` seconds if given.\n"
       "Returns True if the lock was taken. Waiting releases the GIL; a signal handler that raises ends it."},
      {"release", LockRelease<kKind>, METH_NOARGS,
       "release($self)\n--\n\nReleases the lock once; it is free after as many calls as acquire() had. RuntimeError if this thread does "
       "not hold it."},
      {"locked", LockLocked, METH_NOARGS, "locked($self)\n--\n\nTrue if the lock is held."},
      {"__enter__", AsMethod(LockAcquire<kKind>), METH_FASTCALL | METH_KEYWORDS,
       "__enter__($self, blocking=True, timeout=-1)\n--\n\nTakes the lock."},
      {"__exit__", AsMethod(LockExit<kKind>), METH_FASTCALL, "__exit__($self, kind, error, trace, /)\n--\n\nReleases the lock."},
      {"_is_owned", LockIsOwned<kKind>, METH_NOARGS, nullptr},
      {"_recursion_count", RLockRecursionCount, METH_NOARGS, nullptr},
      {"_release_save", RLockReleaseSave, METH_NOARGS, nullptr},
      {"_acquire_restore", RLockAcquireRestore, METH_O, nullptr},
      {"_at_fork_reinit", LockAtForkReinit, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static const char doc[] =
      "RLock(name=None)\n--\n\n"
      "A lock that its holder may take again: a drop-in for threading.RLock, as an instrumented mutex.\n\n"
      "RLock('myapp/LOCK_tree') counts as wait/synch/mutex/myapp/LOCK_tree. One event per acquire, also for those of the thread that\n"
      "holds it already. LOCKED_BY_THREAD_ID of mutex_instances is NULL again when the last level is released.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  return MakeType(module, "pfs.RLock", Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, RLockRepr, methods, doc);
}

}  // namespace

// ---- Functions for conditions ----------------------------------------------------------------------------------------------------------

LockKind KindOf(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return type == lock_type ? LockKind::kLock : type == rlock_type ? LockKind::kRLock : LockKind::kOther;
}

PyObject* MakeRLock(const std::string& name) {
  return Guarded([&] { return MakeLock(rlock_type, name); });
}

PyObject* AcquireLock(LockKind kind, LockObject* lock, const Limits& limits) {
  return kind == LockKind::kLock ? Acquire<LockKind::kLock>(lock, limits) : Acquire<LockKind::kRLock>(lock, limits);
}

PyObject* ReleaseLock(LockKind kind, LockObject* lock) {
  return kind == LockKind::kLock ? Release<LockKind::kLock>(lock) : Release<LockKind::kRLock>(lock);
}

// Returns whether the lock is held, for a Lock, whose holder is unknown. threading.Condition checks no more than that, too.
bool IsOwned(LockKind kind, const LockObject* lock) {
  return Load(lock->depth) != 0 && (kind == LockKind::kLock || Load(lock->owner) == Me());
}

KeptLock LetGo(LockObject* lock) {
  const KeptLock kept{Load(lock->depth), Load(lock->owner), HideOwner(lock->instance)};
  Store(lock->depth, 0);
  Store(lock->owner, 0);
  Unlock(lock);
  return kept;
}

bool TakeBack(LockObject* lock, const KeptLock& kept) {
  if (!AwaitLock(lock)) return false;
  Restore(lock, kept);
  if (lock->instance != nullptr) __atomic_store_n(&lock->instance->owner, kept.shown_owner, __ATOMIC_RELAXED);
  if (pfs_measures_holds_(lock->instance) != 0) {
    const CallSite site = FindCallSite();
    pfs_hold_resume_(lock->instance, site.file, site.line);
  }
  return true;
}

void BindLocks(PyObject* module) {
  lock_type = MakeLockType(module);
  rlock_type = lock_type == nullptr ? nullptr : MakeRLockType(module);
  if (rlock_type == nullptr) throw PythonError();
  AddToModule(module, "Lock", lock_type);
  AddToModule(module, "RLock", rlock_type);
}

}  // namespace perfschema::bindings
