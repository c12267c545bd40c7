// bindings/locks.h: code that the types of locks share: waiting, and the functions that a condition needs from its lock.
#pragma once

#include "bindings.h"  // Python.h comes first
#include "greenlets.h"
#include "perfschema/pfs.h"

namespace perfschema::bindings {

// ---- Types in the C API of Python --------------------------------------------------------------------------------------------------
//
// Locks are plain CPython types: a program pays for two calls per `with` block, and a pybind11 method costs several times a plain one.
// Their functions are C to the interpreter, so nothing may be thrown out of them: Guarded() turns C++ exceptions into Python ones.

template <typename Function>
PyCFunction AsMethod(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// The slow path of a METH_FASTCALL | METH_KEYWORDS method, for calls with uncommon arguments: makes the same call to a METH_VARARGS |
// METH_KEYWORDS function.
PyObject* CallWithTuple(PyCFunctionWithKeywords method, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);

// Sets the Python exception that belongs to the C++ exception being handled.
void SetPythonError();

template <typename Function>
PyObject* Guarded(Function&& function) {
  try {
    return function();
  } catch (const std::exception&) {  // not (...): a canceled thread goes on to its end
    SetPythonError();
  }
  return nullptr;
}

// ---- Waiting -------------------------------------------------------------------------------------------------------------------------

// Arguments of an acquire(), as threading.Lock takes them.
struct Limits {
  bool blocking = true;
  double timeout = -1;  // seconds; -1 = none

  bool may_wait() const { return blocking && timeout != 0; }
  pfs_lock_op op() const { return !blocking ? PFS_TRY_LOCK : timeout < 0 ? PFS_LOCK : PFS_TIMED_LOCK; }
};
// Parses the arguments. Returns false if a Python exception is set.
bool ParseLimits(PyObject* args, PyObject* keywords, Limits* limits);
// Reads a number of seconds that a lock can wait for. Returns false and sets a Python exception if it is no number, or too large.
bool ParseTimeout(PyObject* number, double* timeout);

enum class Waited { kGot, kTimeOver, kInterrupted };
// Returns the result that is passed to the end of the event.
int ResultOf(Waited waited, bool blocking = true);

// Takes the lock without waiting.
inline bool TryThreadLock(PyThread_type_lock lock) { return PyThread_acquire_lock_timed(lock, 0, 0) == PY_LOCK_ACQUIRED; }
// Waits for the lock without the GIL. Signal handlers run meanwhile; kInterrupted: one raised, and its exception is set.
Waited WaitForThreadLock(PyThread_type_lock lock, double timeout);
// Waits until it has the lock, whatever signals come: their handlers run later.
void AwaitThreadLock(PyThread_type_lock lock);

// Is one thread or greenlet in a WaitQueue. It is not on the thread's stack: a thread that the end of the interpreter stops stays in the
// queue.
// Threads: the GIL is held.
struct Waiter {
  PyThread_type_lock lock;  // held until it is woken; nullptr: `gate` is
  PyObject* gate;           // of a greenlet: MakeGate()
  Waiter* previous;
  Waiter* next;
  unsigned long thread;
  unsigned long who;  // Me()
  bool wants_write;   // RWLock
  bool is_woken;      // and removed from the queue

  // Makes a waiter for the running thread or greenlet. nullptr: a Python exception is set. Other greenlets may run meanwhile.
  static Waiter* Make();
  // Waits until it is woken, as WaitForThreadLock does, and switches to the task that runs then.
  Waited Wait(double timeout);
  void Free();
};

// Holds the waiting threads and greenlets of a lock: first come, first served. In a forked child only the thread that called fork() is
// left (it may have called it in a signal handler).
// Threads: the GIL is held.
class WaitQueue {
 public:
  Waiter* first() { return Refresh(), first_; }
  bool is_empty() { return first() == nullptr; }
  size_t size() { return Refresh(), size_; }
  void Join(Waiter* waiter);
  void Leave(Waiter* waiter);
  // Takes the first waiter out of the queue and lets it run. Other greenlets may run meanwhile.
  void Wake();
  void Forget() { first_ = last_ = nullptr, size_ = 0; }
  // Frees the remaining waiters. REQUIRES: the object is being destroyed, so none of them runs any more.
  void Free();

 private:
  void Refresh();

  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  size_t size_ = 0;
  unsigned forks_ = 0;  // how many this process had seen when the queue was last used
};
void StartWaitQueues();  // before the first

// ---- Lock and RLock --------------------------------------------------------------------------------------------------------------------

// Threads: the GIL is held.
struct LockObject {
  PyObject_HEAD PyThread_type_lock lock;
  pfs_instance_t* instance;  // nullptr = not instrumented
  PyObject* name;            // full name
  PyObject* weak_references;
  unsigned long depth;   // how often it is held; 0 = free. locked() shows it, and release() needs it
  unsigned long owner;   // RLock: Me() of the holder
  WaitQueue* greenlets;  // waiting greenlets; nullptr: none has waited yet
};
inline LockObject* AsLock(PyObject* object) { return reinterpret_cast<LockObject*>(object); }

enum class LockKind { kOther, kLock, kRLock };  // kOther: an object that has acquire() and release()
LockKind KindOf(PyObject* object);              // subclasses are kOther: they may override methods

// Makes an RLock. `name` as for the class. nullptr: a Python exception is set.
PyObject* MakeRLock(const std::string& name);

// Returns True, False, or nullptr and a Python exception. REQUIRES: not kOther.
PyObject* AcquireLock(LockKind kind, LockObject* lock, const Limits& limits);
// Returns None, or nullptr and a Python exception. REQUIRES: not kOther.
PyObject* ReleaseLock(LockKind kind, LockObject* lock);

// Remembers a released lock. A wait for a condition releases its lock and takes it back within one event, that of the condition.
// REQUIRES: not kOther.
struct KeptLock {
  unsigned long depth, owner;
  uint64_t shown_owner;
};
bool IsOwned(LockKind kind, const LockObject* lock);
KeptLock LetGo(LockObject* lock);
// Returns false if an exception has ended the wait of a greenlet. It is set, and the lock is not held.
bool TakeBack(LockObject* lock, const KeptLock& kept);

// Hides the holder of the lock from here on.
inline uint64_t HideOwner(pfs_instance_t* instance) {
  if (instance == nullptr) return 0;
  const uint64_t owner = __atomic_load_n(&instance->owner, __ATOMIC_RELAXED);
  if (__builtin_expect((owner & PFS_OWNER_HOLD_) != 0, 0)) return pfs_hold_end_(instance, owner);
  if (owner != 0) __atomic_store_n(&instance->owner, uint64_t{0}, __ATOMIC_RELAXED);
  return owner;
}

}  // namespace perfschema::bindings
