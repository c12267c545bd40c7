// run/waits.cpp: replaces the waits for conditions and barriers.
//
// MySQL has no barriers: they are conditions here, with names such as barrier-code+0x1f3b. A wait is a cancellation point, so events and
// owners end in destructors, and nothing is noexcept.
#include <gnu/libc-version.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "capi/owner_on_leave.h"
#include "run/real.h"
#include "run/wait_calls.h"

using perfschema::Operation;
using perfschema::capi::OwnerOnLeave;
using namespace perfschema::run;

#define PFS_CALLER __builtin_return_address(0)

namespace {

// glibc keeps whether a condition is shared between processes in its first bit of references.
bool IsShared(const pthread_cond_t* c) { return (c->__data.__wrefs & 1) != 0; }

// Since 2.25 a condition begins with a counter of its waits, whose lowest bit is for something else.
const bool g_counts_waits = [] {
  int major = 0, minor = 0;
  return std::sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 && (major > 2 || minor >= 25);
}();

uint64_t WaitsOf(const pthread_cond_t* c) { return __atomic_load_n(reinterpret_cast<const uint64_t*>(c), __ATOMIC_RELAXED) >> 1; }

// Returns the object of a condition, before a wait. One that has counted fewer waits than before is another condition at an old address.
// The caller holds the mutex of the condition, so waits are counted one after the other.
Object* CondAt(const pthread_cond_t* c, const void* caller) {
  Object* object = ObjectAt(c, Kind::kCond, caller);
  if (object == nullptr || !g_counts_waits) return object;
  const uint64_t waits = WaitsOf(c);
  if (__builtin_expect(waits < object->least_waits.load(std::memory_order_relaxed), 0)) {
    ForgetObject(c);
    object = ObjectAt(c, Kind::kCond, caller);
  }
  if (object != nullptr) object->least_waits.store(waits + 1, std::memory_order_relaxed);
  return object;
}

template <typename Call>
[[gnu::always_inline]] inline int WaitFor(const pthread_cond_t* c, const pthread_mutex_t* m, const void* caller, Operation operation,
                                          Call call) {
  if (__builtin_expect(g_is_off || IsShared(c), 0)) return call();
  const SourceLine at = SourceAt(caller);
  OwnerOnLeave owner(RowOfMutex(m), at.file, at.line);
  Object* const object = CondAt(c, caller);
  const Waiting event(
      object, [=] { return at; }, operation);
  const int rc = call();
  owner.Returned(rc);
  if (rc == EINVAL && object != nullptr) object->least_waits.store(WaitsOf(c), std::memory_order_relaxed);  // it may not have begun
  return rc;
}

}  // namespace

PFS_REPLACES int pthread_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  const int rc = PFS_REAL(pthread_cond_init)(c, attributes);
  if (rc == 0) NoteInit(c, Kind::kCond, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_cond_destroy(pthread_cond_t* c) {
  ForgetObject(c);
  return PFS_REAL(pthread_cond_destroy)(c);
}

PFS_REPLACES int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return WaitFor(c, m, PFS_CALLER, Operation::kCondWait, [=] { return PFS_REAL(pthread_cond_wait)(c, m); });
}

PFS_REPLACES int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* deadline) {
  return WaitFor(c, m, PFS_CALLER, Operation::kCondTimedWait, [=] { return PFS_REAL(pthread_cond_timedwait)(c, m, deadline); });
}

PFS_REPLACES int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* deadline) {
  return WaitFor(c, m, PFS_CALLER, Operation::kCondTimedWait, [=] { return PFS_REAL(pthread_cond_clockwait)(c, m, clock, deadline); });
}

PFS_REPLACES int pthread_barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes, unsigned count) {
  const int rc = PFS_REAL(pthread_barrier_init)(barrier, attributes, count);
  if (rc == 0) NoteInit(barrier, Kind::kBarrier, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_barrier_destroy(pthread_barrier_t* barrier) {
  ForgetObject(barrier);
  return PFS_REAL(pthread_barrier_destroy)(barrier);
}

PFS_REPLACES int pthread_barrier_wait(pthread_barrier_t* barrier) {
  if (__builtin_expect(g_is_off, 0)) return PFS_REAL(pthread_barrier_wait)(barrier);
  const void* const caller = PFS_CALLER;
  const Waiting event(
      ObjectAt(barrier, Kind::kBarrier, caller), [=] { return SourceAt(caller); }, Operation::kCondWait);
  return PFS_REAL(pthread_barrier_wait)(barrier);
}
