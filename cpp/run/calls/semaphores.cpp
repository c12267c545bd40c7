// run/calls/semaphores.cpp: replaces sem_*.
//
// MySQL has no semaphores: they are conditions here, with names such as sem-code+0x1f3b. The lock of a Python program is a semaphore, too
// (python.h): it is a mutex with an owner. CPython tries a lock first and has the GIL then; it lets the GIL go only to wait. So the try is
// the event of a free lock, and a try that fails notes the Python line for the wait that follows.
#include <cerrno>
#include <cstdarg>
#include <ctime>

#include "run/calls/lock_calls.h"
#include "run/calls/python_locks.h"
#include "run/calls/wait_calls.h"
#include "run/loader/real.h"
#include "run/python/python.h"
#include "run/python/python_free_threaded.h"

using perfschema::Operation;
using namespace perfschema::run;

namespace {

// The line of the thread's last try that failed. `lock`: what the thread waits for, if the semaphore is made for that wait alone.
struct Tried {
  const void* semaphore;
  SourceLine at;
  Object* lock;
};
thread_local constinit Tried t_tried __attribute__((tls_model("initial-exec"))) = {};

// Returns the SOURCE of a wait.
SourceLine SourceOf(const void* semaphore, const void* caller) {
  if (t_tried.semaphore == semaphore && t_tried.at.file != nullptr) return t_tried.at;
  return SourceAt(caller);
}

// Returns the entry of a Python lock, or nullptr.
Object* PythonLockAt(const void* semaphore) {
  return g_has_python_locks && !RunIsOff() ? KnownObject(semaphore, Kind::kPythonLock) : nullptr;
}

// Gives a Python lock that was made before a join the line that uses it first. Returns its entry, or nullptr. REQUIRES: the GIL.
[[gnu::cold, gnu::noinline]] Object* LockBeforeJoin(const void* semaphore, const void* caller) {
  if (!perfschema::g_came_late) return nullptr;
  Object* awaited = nullptr;
  if (!IsAwake(PythonLockAt(semaphore))) (void)NotePythonLock(semaphore, 1, caller, &awaited);
  return PythonLockAt(semaphore);
}

// Returns the object of a semaphore that a free-threaded interpreter makes for one wait: the object of what the thread waits for.
[[gnu::noinline, gnu::cold]] Object* ObjectOfPark(const void* semaphore, const void* caller) {
  Kind kind;
  const Site* const name = NameOfPark(semaphore, caller, &kind);
  if (name == nullptr) return ObjectAt(semaphore, Kind::kSemaphore, caller);
  t_tried = {semaphore, PythonLineOfThread(nullptr), nullptr};
  return ObjectOfSite(name, kind);
}

// Waits. `call` is the function and returns as it does; `attempt` does not wait.
template <typename Call>
[[gnu::always_inline]] inline int WaitOn(sem_t* semaphore, const void* caller, Operation lock, Operation wait, Call call) {
  if (RunIsOff()) return call();
  const auto source = [=] { return SourceOf(semaphore, caller); };
  Object* const object = g_has_python_locks ? KnownObject(semaphore, Kind::kPythonLock) : nullptr;
  if (object == nullptr && __builtin_expect(g_reads_free_threads, 0)) {
    Object* const parked = ObjectOfPark(semaphore, caller);
    const Waiting event(parked, source, parked != nullptr && parked->kind == Kind::kPythonObject ? lock : wait);
    return call();
  }
  if (object == nullptr && t_tried.semaphore == semaphore && t_tried.lock != nullptr) {
    const Waiting event(t_tried.lock, source, t_tried.lock->kind == Kind::kSemaphore ? wait : lock);
    return call();
  }
  if (object == nullptr) {
    const Waiting event(ObjectAt(semaphore, Kind::kSemaphore, caller), source, wait);
    return call();
  }
  if (IsForWork(*object)) {
    const Waiting event(ObjectOfWork(*object, semaphore), source, wait);
    return call();
  }
  const auto number = [](int rc) { return rc == 0 ? 0 : errno; };
  const int error = LockedObject(
      object, source, lock, [=] { return number(call()); }, [=] { return number(PFS_REAL(sem_trywait)(semaphore)); });
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

PFS_REPLACES int sem_init(sem_t* semaphore, int shared, unsigned value) {
  const int rc = PFS_REAL(sem_init)(semaphore, shared, value);
  if (rc != 0 || shared != 0) return rc;
  Object* awaited = nullptr;
  if (!NotePythonLock(semaphore, value, PFS_CALLER, &awaited)) {
    NoteInit(semaphore, Kind::kSemaphore, PFS_CALLER);
    t_tried = {};
  } else if (value == 0 && g_is_python) {  // the wait comes when the GIL has been let go
    t_tried = {semaphore, PythonLineOfThread(nullptr), awaited};
  }
  return rc;
}

// Only this process's waits for a shared semaphore are seen. It has the same address as long as it is open here.
PFS_REPLACES sem_t* sem_open(const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, mode_t);
  const auto value = va_arg(arguments, unsigned);
  va_end(arguments);
  sem_t* const semaphore = PFS_REAL(sem_open)(name, flags, mode, value);
  if (semaphore != SEM_FAILED && !RunIsOff()) (void)ObjectAt(semaphore, Kind::kSemaphore, PFS_CALLER);
  return semaphore;
}

PFS_REPLACES int sem_close(sem_t* semaphore) {
  ForgetObject(semaphore);
  return PFS_REAL(sem_close)(semaphore);
}

PFS_REPLACES int sem_destroy(sem_t* semaphore) {
  EndObject(semaphore);
  if (g_has_python_locks) EndObject(PlaceOfWork(semaphore));
  return PFS_REAL(sem_destroy)(semaphore);
}

PFS_REPLACES int sem_wait(sem_t* semaphore) {
  return WaitOn(semaphore, PFS_CALLER, Operation::kLock, Operation::kCondWait, [=] { return PFS_REAL(sem_wait)(semaphore); });
}

PFS_REPLACES int sem_timedwait(sem_t* semaphore, const timespec* deadline) {
  return WaitOn(semaphore, PFS_CALLER, Operation::kTimedLock, Operation::kCondTimedWait,
                [=] { return PFS_REAL(sem_timedwait)(semaphore, deadline); });
}

PFS_REPLACES int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* deadline) {
  return WaitOn(semaphore, PFS_CALLER, Operation::kTimedLock, Operation::kCondTimedWait,
                [=] { return PFS_REAL(sem_clockwait)(semaphore, clock, deadline); });
}

// A try is an event only if it takes a Python lock.
PFS_REPLACES int sem_trywait(sem_t* semaphore) {
  const int rc = PFS_REAL(sem_trywait)(semaphore);
  if (!g_has_python_locks || RunIsOff()) return rc;
  if (rc != 0) {
    const int error = errno;
    (void)LockBeforeJoin(semaphore, PFS_CALLER);
    t_tried = {semaphore, PythonLineOfThread(nullptr), nullptr};
    errno = error;
    return rc;
  }
  const void* const caller = PFS_CALLER;
  Object* object = PythonLockAt(semaphore);
  if (object == nullptr) object = LockBeforeJoin(semaphore, caller);
  if (object == nullptr) return rc;
  const auto done = [] { return 0; };
  return LockedObject(
      object, [=] { return SourceAt(caller); }, Operation::kLock, done, done);
}

PFS_REPLACES int sem_post(sem_t* semaphore) {
  const auto post = [=] { return PFS_REAL(sem_post)(semaphore); };
  Object* const object = PythonLockAt(semaphore);
  if (object != nullptr) NoteRelease(*object);
  return Released(object != nullptr ? object->row.load(std::memory_order_acquire) : nullptr, post);
}
