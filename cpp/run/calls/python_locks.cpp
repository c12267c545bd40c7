// run/calls/python_locks.cpp: see python_locks.h.
#include "run/calls/python_locks.h"

#include <cstring>
#include <utility>

#include "base/placement.h"
#include "run/calls/lock_calls.h"
#include "run/loader/real.h"
#include "run/python/python_api.h"
#include "run/python/python_calls.h"
#include "run/python/python_free_threaded.h"

namespace perfschema::run {
namespace {

// The types Lock and RLock of the main interpreter, whose objects are known: a PyObject, and then the byte. An RLock has its holder and its
// level behind it. REQUIRES: the GIL.
struct LockType {
  PyObject* type;
  bool is_recursive;
  PyObject* (*make)(PyObject*, PyObject*, PyObject*);
  void (*end)(PyObject*);
};
constinit LockType types[2] = {};
constexpr size_t kHead = 2 * sizeof(void*), kLevel = kHead + 2 * sizeof(void*), kBytesOfLock = kHead + sizeof(void*);
// PyTypeObject, unchanged from CPython 3.8 to 3.15, and the numbers of its slots in the stable ABI.
constexpr size_t kBasicSize = 4 * sizeof(void*), kEndOfType = 6 * sizeof(void*), kNewOfType = 39 * sizeof(void*);
constexpr int kEndSlot = 52, kNewSlot = 65;

// What this thread takes, and whether it waits or has waited for it.
struct Taking {
  const void* place;
  Object* object;
  bool has_waited;
};
thread_local constinit Taking t_taking __attribute__((tls_model("initial-exec"))) = {};

template <typename Value>
Value At(const void* object, size_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

const void* PlaceOf(const void* lock) { return static_cast<const char*>(lock) + kHead; }
size_t LevelOf(const void* lock) { return At<size_t>(lock, kLevel); }

const LockType* TypeOf(const void* lock) {
  const auto* const type = At<PyObject*>(lock, sizeof(void*));
  for (const LockType& known : types) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

Object* KnownAt(const void* place) {
  Object* const object = g_objects.Find(reinterpret_cast<uintptr_t>(place));
  return IsAwake(object) ? object : nullptr;
}

// Notes a new lock. Returns it; nullptr = it could not be made.
template <typename Lock>
Lock* Noted(Lock* made) {
  if (made != nullptr && !IsPlain() && TypeOf(made) != nullptr) NoteLockAt(PlaceOf(made));
  return made;
}

template <size_t kIndex>
PyObject* Make(PyObject* type, PyObject* arguments, PyObject* names) {
  return Noted(types[kIndex].make(type, arguments, names));
}

template <size_t kIndex>
void End(PyObject* lock) {
  if (TypeOf(lock) != nullptr) {
    EndObject(PlaceOf(lock));
    EndObject(PlaceOfWork(PlaceOf(lock)));
  }
  types[kIndex].end(lock);
}

void* Take(const NotedCall& call, bool is_back) {
  const void* const lock = call.arguments[0];
  const LockType* const type = IsPlain() ? nullptr : TypeOf(lock);
  if (type == nullptr) return call();
  const void* const place = PlaceOf(lock);
  Object* object = KnownAt(place);
  if (object == nullptr) {  // it was there before this layer
    NoteLockAt(place);
    object = KnownAt(place);
  }
  if (object == nullptr) return call();
  const Taking before = std::exchange(t_taking, {place, object, false});  // a handler of a signal may take another lock within
  void* const result = call();
  const bool has_waited = std::exchange(t_taking, before).has_waited;
  const bool is_held = is_back ? result != nullptr : result == g_py._Py_TrueStruct;
  const bool is_again = is_held && !is_back && type->is_recursive && LevelOf(lock) != 0;
  if (!is_held || is_again || object->kind != Kind::kPythonLock || !IsInstrumented(object)) return result;
  const SourceLine at = SourceAt(call.caller);
  if (!has_waited) {
    const auto done = [] { return 0; };
    (void)LockedObject(
        object, [at] { return at; }, Operation::kLock, done, done);
  } else if (ThreadState* const thread = t_locals.state; thread != nullptr && !IsForWork(*object)) {
    pfs_instance_t* const row = object->row.load(std::memory_order_relaxed);
    pfs_owner_restore_(row, thread->thread_id);  // its event was the wait
    if (pfs_measures_holds_(row)) pfs_hold_resume_(row, at.file, at.line);
  }
  return result;
}

void* Release(const NotedCall& call, bool is_whole) {
  const void* const lock = call.arguments[0];
  const LockType* const type = IsPlain() ? nullptr : TypeOf(lock);
  Object* const object = type != nullptr ? KnownObject(PlaceOf(lock), Kind::kPythonLock) : nullptr;
  const bool is_inner = object != nullptr && !is_whole && type->is_recursive && LevelOf(lock) != 0;
  if (object == nullptr || is_inner) return call();
  if (!is_whole && !type->is_recursive) NoteRelease(*object);  // nobody but the holder releases an RLock
  void* result = nullptr;
  (void)Released(object->row.load(std::memory_order_acquire), [&] {
    result = call();
    return result != nullptr ? 0 : 1;
  });
  return result;
}

// Puts a function in the place of another one in a type.
template <typename Function>
void PutInType(PyObject* type, size_t offset, Function function) {
  std::memcpy(reinterpret_cast<char*>(type) + offset, &function, sizeof function);
}

}  // namespace

void* AroundMaking(const NotedCall& call) { return Noted(call()); }
void* AroundTaking(const NotedCall& call) { return Take(call, false); }
void* AroundTakingBack(const NotedCall& call) { return Take(call, true); }
void* AroundRelease(const NotedCall& call) { return Release(call, false); }
void* AroundWholeRelease(const NotedCall& call) { return Release(call, true); }

Object* AwaitedLock(const void* semaphore) {
  if (t_taking.object == nullptr || LockOf(semaphore) != t_taking.place) return nullptr;
  t_taking.has_waited = true;
  const bool is_for_work = t_taking.object->kind == Kind::kPythonLock && IsForWork(*t_taking.object);
  return is_for_work ? ObjectOfWork(*t_taking.object, t_taking.place) : t_taking.object;
}

bool NoteLockType(PyObject* lock, bool is_recursive) {
  auto* const type = At<PyObject*>(lock, sizeof(void*));
  const size_t index = is_recursive ? 1 : 0;
  LockType& its = types[index];
  const size_t bytes = is_recursive ? kLevel + sizeof(size_t) : kBytesOfLock;
  void* const make = g_py.PyType_GetSlot(type, kNewSlot);
  void* const end = g_py.PyType_GetSlot(type, kEndSlot);
  const bool is_laid_out = make != nullptr && make == At<void*>(type, kNewOfType) && end != nullptr && end == At<void*>(type, kEndOfType);
  // A new lock that is a semaphore has its address where the byte would be.
  if (!is_laid_out || its.type != nullptr || At<size_t>(type, kBasicSize) != bytes || At<void*>(lock, kHead) != nullptr) return false;
  const bool is_first = its.make == nullptr;  // else it has been forgotten, and subclasses may still lead to it
  if (is_first) std::memcpy(&its.make, &make, sizeof make), std::memcpy(&its.end, &end, sizeof end);
  its.is_recursive = is_recursive;
  its.type = NewReference(type);  // it outlives its interpreter: ForgetLockTypes() finds it there
  PutInType(type, kNewOfType, is_recursive ? Make<1> : Make<0>);
  PutInType(type, kEndOfType, is_recursive ? End<1> : End<0>);
  return true;
}

void ForgetLockTypes() {
  for (LockType& its : types) {
    if (its.type == nullptr) continue;
    PutInType(its.type, kNewOfType, its.make);
    PutInType(its.type, kEndOfType, its.end);
    its.type = nullptr;
  }
}

}  // namespace perfschema::run
