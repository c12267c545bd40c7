// run/waits.cpp: replaces the waits for conditions and barriers.
//
// MySQL has no barriers: they are conditions here, with names such as barrier-code+0x1f3b. A wait is a cancellation point, so events and
// owners end in destructors, and nothing is noexcept.
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

template <typename Call>
[[gnu::always_inline]] inline int WaitFor(const pthread_cond_t* c, const pthread_mutex_t* m, const void* caller, Operation operation,
                                          Call call) {
  if (__builtin_expect(g_is_off || IsShared(c), 0)) return call();
  const SourceLine at = SourceAt(caller);
  OwnerOnLeave owner(RowOfMutex(m), at.file, at.line);
  const Waiting event(
      ObjectAt(c, Kind::kCond, caller), [=] { return at; }, operation);
  const int rc = call();
  owner.Returned(rc);
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
