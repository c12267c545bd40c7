// bindings/bind_rwlocks.cpp: pfs.RWLock. First come, first served: consecutive waiting readers get it together.
#include <cstddef>
#include <string>

#include "locks.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

struct Reader {
  unsigned long who;    // Me()
  unsigned long depth;  // how many times it holds the lock
};

// A release hands the lock over: a waiter that was given the lock holds it, even if it has not run yet.
// Threads: the GIL is held.
struct RWLockObject {
  PyObject_HEAD pfs_instance_t* instance;  // nullptr = not instrumented
  PyObject* name;                          // full name
  PyObject* weak_references;
  unsigned long writer;  // 0 = none
  Reader* readers;
  size_t reader_count;
  size_t reader_capacity;
  WaitQueue waiters;

  Reader* FindReader(unsigned long who) {
    for (size_t i = 0; i < reader_count; ++i) {
      if (readers[i].who == who) return &readers[i];
    }
    return nullptr;
  }

  // Reserves capacity for one more reader and for all waiters, so that a handover cannot fail. Returns false if a Python exception is
  // set.
  bool ReserveReaders() {
    const size_t needed = reader_count + waiters.size() + 1;
    if (needed <= reader_capacity) return true;
    auto* more = static_cast<Reader*>(PyMem_Realloc(readers, 2 * needed * sizeof(Reader)));
    if (more == nullptr) return PyErr_NoMemory(), false;
    readers = more;
    reader_capacity = 2 * needed;
    return true;
  }

  // Returns whether the caller may have the lock now. A reader may always read again: behind a waiting writer it would wait for itself.
  bool IsFreeFor(bool write, unsigned long who) {
    if (write) return writer == 0 && reader_count == 0 && waiters.is_empty();
    return writer == 0 && (waiters.is_empty() || FindReader(who) != nullptr);
  }

  void Give(bool write, unsigned long who) {
    if (write) {
      writer = who;
    } else if (Reader* reader = FindReader(who); reader != nullptr) {
      ++reader->depth;
    } else {
      readers[reader_count++] = {who, 1};
    }
  }

  void TakeAway(bool write, unsigned long who) {
    if (write) {
      writer = 0;
    } else if (Reader* reader = FindReader(who); --reader->depth == 0) {
      *reader = readers[--reader_count];
    }
  }

  // Gives the lock to the waiters that may have it now.
  void HandOver() {
    while (Waiter* next = waiters.first()) {
      if (writer != 0 || (next->wants_write && reader_count != 0)) return;
      Give(next->wants_write, next->who);
      waiters.Wake();
    }
  }
};

RWLockObject* AsRWLock(PyObject* object) { return reinterpret_cast<RWLockObject*>(object); }

PyObject* MakeRWLock(PyTypeObject* type, const std::string& name) {
  const uint32_t key = RegisterName(NameFamily::kRwlock, name);
  Object full = Decoded(FullName(NameFamily::kRwlock, name));
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  RWLockObject* self = AsRWLock(object);
  self->name = full.Release();
  self->instance = pfs_rwlock_create(key, object);
  return object;
}

PyObject* RWLockNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", nullptr};
  PyObject* name = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:RWLock", const_cast<char**>(names), &name)) return nullptr;
  return Guarded([&] { return MakeRWLock(type, NameOr(name)); });
}

void RWLockDealloc(PyObject* object) {
  RWLockObject* self = AsRWLock(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  self->waiters.Free();
  PyMem_Free(self->readers);
  pfs_rwlock_discard(self->instance);
  Py_XDECREF(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

pfs_rwlock_op OperationOf(bool write, const Limits& limits) {
  switch (limits.op()) {
    case PFS_TRY_LOCK:
      return write ? PFS_TRY_WRITE_LOCK : PFS_TRY_READ_LOCK;
    case PFS_TIMED_LOCK:
      return write ? PFS_TIMED_WRITE_LOCK : PFS_TIMED_READ_LOCK;
    default:
      return write ? PFS_WRITE_LOCK : PFS_READ_LOCK;
  }
}

// Waits in the queue until it is given the lock.
Waited Queue(RWLockObject* self, bool write, double timeout) {
  Waiter* waiter = Waiter::Make();
  if (waiter == nullptr) return Waited::kInterrupted;
  if (!self->ReserveReaders()) {
    waiter->Free();
    return Waited::kInterrupted;
  }
  waiter->wants_write = write;
  self->waiters.Join(waiter);
  self->HandOver();  // it may have been released while the waiter was made
  Waited waited = waiter->Wait(timeout);
  if (waiter->is_woken && waited == Waited::kTimeOver) waited = Waited::kGot;  // given just in time
  if (!waiter->is_woken) self->waiters.Leave(waiter);
  if (waiter->is_woken && waited == Waited::kInterrupted) self->TakeAway(write, waiter->who);
  if (waited != Waited::kGot) self->HandOver();  // if a writer leaves the queue, the readers behind it may enter
  waiter->Free();
  return waited;
}

// Makes one event per acquire, whatever its result. REQUIRES: alone.
template <bool kWrite>
PyObject* AcquireAlone(RWLockObject* self, const Limits& limits) {
  const unsigned long me = Me();
  if (limits.may_wait() && (self->writer == me || (kWrite && self->FindReader(me) != nullptr))) {
    PyErr_Format(PyExc_RuntimeError, "this thread %s the lock already and would wait for itself",
                 self->writer == me ? "writes under" : "reads under");
    return nullptr;
  }
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled_(self->instance)) {
    const CallSite site = FindCallSite();
    pfs_rwlock_wait_begin_at(&wait, self->instance, OperationOf(kWrite, limits), site.file, site.line);
  }
  Waited waited = Waited::kTimeOver;
  if (self->IsFreeFor(kWrite, me)) {
    waited = self->ReserveReaders() ? Waited::kGot : Waited::kInterrupted;
    if (waited == Waited::kGot) self->Give(kWrite, me);
  } else if (limits.may_wait()) {
    waited = Queue(self, kWrite, limits.timeout);
  }
  pfs_rwlock_wait_end(&wait, ResultOf(waited, limits.blocking), PFS_NO_SPINS);
  if (waited == Waited::kInterrupted) return nullptr;
  return PyBool_FromLong(waited == Waited::kGot);
}

template <bool kWrite>
PyObject* Acquire(PyObject* object, const Limits& limits) {
  return Alone(object, [&] { return AcquireAlone<kWrite>(AsRWLock(object), limits); });
}

template <bool kWrite>
PyObject* RWLockRelease(PyObject* object, PyObject*) {
  RWLockObject* const self = AsRWLock(object);
  const unsigned long me = Me();
  if (kWrite ? self->writer != me : self->FindReader(me) == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, kWrite ? "release_write() without acquire_write()" : "release_read() without acquire_read()");
    return nullptr;
  }
  pfs_rwlock_released(self->instance, kWrite ? PFS_WRITE_LOCK : PFS_READ_LOCK);
  self->TakeAway(kWrite, me);
  self->HandOver();
  Py_RETURN_NONE;
}

template <bool kWrite>
PyObject* RWLockAcquireWith(PyObject* object, PyObject* args, PyObject* keywords) {
  Limits limits;
  return ParseLimits(args, keywords, &limits) ? Acquire<kWrite>(object, limits) : nullptr;
}

template <bool kWrite>
PyObject* RWLockAcquire(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 0 && names == nullptr) return Acquire<kWrite>(object, {});
  return CallWithTuple(RWLockAcquireWith<kWrite>, object, args, count, names);
}

PyObject* RWLockLocked(PyObject* object, PyObject*) {
  RWLockObject* self = AsRWLock(object);
  return PyBool_FromLong(self->writer != 0 || self->reader_count != 0);
}

// In the child of a fork() no thread holds the lock or waits.
PyObject* RWLockAtForkReinit(PyObject* object, PyObject*) {
  RWLockObject* self = AsRWLock(object);
  HideOwner(self->instance);
  self->writer = 0;
  self->reader_count = 0;
  self->waiters.Forget();
  Py_RETURN_NONE;
}

PyObject* RWLockRepr(PyObject* object) {
  RWLockObject* self = AsRWLock(object);
  const char* state = self->writer != 0 ? "write-locked" : self->reader_count != 0 ? "read-locked" : "unlocked";
  return PyUnicode_FromFormat("<%s pfs.RWLock object '%U' readers=%zu waiting=%zu at %p>", state, self->name, self->reader_count,
                              self->waiters.size(), object);
}

PyObject* RWLockName(PyObject* object, void*) { return Py_NewRef(AsRWLock(object)->name); }

// ---- Results of read() and write()
// -------------------------------------------------------------------------------------------------------

struct GuardObject {
  PyObject_HEAD PyObject* lock;
};
PyTypeObject* guard_types[2];

template <bool kWrite>
PyObject* RWLockGuard(PyObject* object, PyObject*) {
  auto* guard = PyObject_New(GuardObject, guard_types[kWrite]);
  if (guard == nullptr) return nullptr;
  guard->lock = Py_NewRef(object);
  return reinterpret_cast<PyObject*>(guard);
}

PyObject* LockOf(PyObject* guard) { return reinterpret_cast<GuardObject*>(guard)->lock; }

template <bool kWrite>
PyObject* GuardEnter(PyObject* object, PyObject*) {
  return Acquire<kWrite>(LockOf(object), {});
}

template <bool kWrite>
PyObject* GuardExit(PyObject* object, PyObject* const*, Py_ssize_t) {
  return kAlone<RWLockRelease<kWrite>>(LockOf(object), nullptr);
}

void GuardDealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_DECREF(reinterpret_cast<GuardObject*>(object)->lock);
  type->tp_free(object);
  Py_DECREF(type);
}

template <bool kWrite>
PyTypeObject* MakeGuardType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__enter__", GuardEnter<kWrite>, METH_NOARGS, "__enter__($self)\n--\n\nTakes the lock."},
      {"__exit__", AsMethod(GuardExit<kWrite>), METH_FASTCALL, "__exit__($self, kind, error, trace, /)\n--\n\nReleases the lock."},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(GuardDealloc)}, {Py_tp_methods, methods}, {0, nullptr}};
  static PyType_Spec spec = {kWrite ? "pfs._core.WriteGuard" : "pfs._core.ReadGuard", sizeof(GuardObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
}

PyObject* MakeRWLockType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"read", RWLockGuard<false>, METH_NOARGS, "read($self)\n--\n\n`with lock.read():` holds the lock for reading."},
      {"write", RWLockGuard<true>, METH_NOARGS, "write($self)\n--\n\n`with lock.write():` holds the lock for writing."},
      {"acquire_read", AsMethod(RWLockAcquire<false>), METH_FASTCALL | METH_KEYWORDS,
       "acquire_read($self, blocking=True, timeout=-1)\n--\n\n"
       "Takes the lock for reading; waits for it if blocking, for at most `timeout` seconds if given. Returns True if it was taken.\n"
       "A thread that reads may read again, at once. RuntimeError if it writes: that would be a deadlock."},
      {"acquire_write", AsMethod(RWLockAcquire<true>), METH_FASTCALL | METH_KEYWORDS,
       "acquire_write($self, blocking=True, timeout=-1)\n--\n\n"
       "Takes the lock for writing; waits for it if blocking, for at most `timeout` seconds if given. Returns True if it was taken.\n"
       "RuntimeError if this thread holds it already, for reading or writing: that would be a deadlock."},
      {"release_read", kAlone<RWLockRelease<false>>, METH_NOARGS,
       "release_read($self)\n--\n\nReleases the lock once. RuntimeError if this thread does not read."},
      {"release_write", kAlone<RWLockRelease<true>>, METH_NOARGS,
       "release_write($self)\n--\n\nReleases the lock. RuntimeError if this thread does not write."},
      {"locked", kAlone<RWLockLocked>, METH_NOARGS, "locked($self)\n--\n\nTrue if the lock is held, for reading or writing."},
      {"_at_fork_reinit", RWLockAtForkReinit, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(RWLockObject, weak_references), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {{"name", RWLockName, nullptr, "Full name of the instrument.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] =
      "RWLock(name=None)\n--\n\n"
      "A lock for many readers or one writer, as an instrumented read-write lock.\n\n"
      "    lock = pfs.RWLock('myapp/RW_cache')\n"
      "    with lock.read(): ...\n"
      "    with lock.write(): ...\n\n"
      "It counts as wait/synch/rwlock/myapp/RW_cache; rwlock_instances shows who writes and how many read. One event per acquire:\n"
      "read_lock, write_lock, try_read_lock, try_write_lock. First come, first served: neither readers nor writers starve.\n"
      "Waiting releases the GIL; a signal handler that raises ends it.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(RWLockNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(RWLockDealloc)},
                                {Py_tp_repr, reinterpret_cast<void*>(kAlone<RWLockRepr>)},
                                {Py_tp_methods, methods},
                                {Py_tp_members, members},
                                {Py_tp_getset, properties},
                                {Py_tp_doc, const_cast<char*>(doc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"pfs.RWLock", sizeof(RWLockObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace

void BindRWLocks(PyObject* module) {
  guard_types[false] = MakeGuardType<false>(module);
  guard_types[true] = MakeGuardType<true>(module);
  PyObject* type = MakeRWLockType(module);
  if (type == nullptr || guard_types[false] == nullptr || guard_types[true] == nullptr) throw PythonError();
  AddToModule(module, "ReadGuard", guard_types[false]);
  AddToModule(module, "WriteGuard", guard_types[true]);
  AddToModule(module, "RWLock", type);
}

}  // namespace perfschema::bindings
