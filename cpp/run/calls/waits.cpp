// run/calls/waits.cpp: replaces the waits for conditions and barriers.
//
// MySQL has no barriers: they are conditions here, with names such as barrier-code+0x1f3b. A wait is a cancellation point, so events and
// owners end in destructors, and nothing is noexcept.
#include <threads.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "base/placement.h"
#include "capi/owner_on_leave.h"
#include "run/calls/wait_calls.h"
#include "run/loader/real.h"

using perfschema::Operation;
using perfschema::capi::OwnerOnLeave;
using namespace perfschema::run;

namespace {

// Returns which word of a condition has its flags: glibc 2.41 has moved it. A condition is made as pthread_condattr_setpshared() asks for,
// whose attribute is one bit, too; no reader of a header can know which C library the program will have.
PFS_IN_EVERY_PROCESS int WordOfFlags() {
  constexpr int kOldWord = offsetof(pthread_cond_t, __data.__wrefs) / sizeof(int), kNewWord = kOldWord - 2;
  pthread_condattr_t attributes = {};
  attributes.__align = 1;
  pthread_cond_t shared;
  if (PFS_REAL(pthread_cond_init)(&shared, &attributes) != 0) return kOldWord;
  int words[sizeof shared / sizeof(int)];
  std::memcpy(words, &shared, sizeof shared);
  return (words[kOldWord] & 1) == 0 && (words[kNewWord] & 1) != 0 ? kNewWord : kOldWord;
}
PFS_SET_IN_EVERY_PROCESS int g_word_of_flags = WordOfFlags();

// glibc keeps whether a condition is shared between processes in its first bit of references.
bool IsShared(const pthread_cond_t* c) {
  return (__atomic_load_n(reinterpret_cast<const int*>(c) + g_word_of_flags, __ATOMIC_RELAXED) & 1) != 0;
}

// Since 2.25 a condition begins with a counter of its waits, whose lowest bit is for something else.
// getentropy() is as old.
PFS_IN_EVERY_PROCESS bool CountsWaits() {
  pfs_run_find_all();
  return PFS_HAS(getentropy);
}
PFS_SET_IN_EVERY_PROCESS bool g_counts_waits = CountsWaits();

uint64_t WaitsOf(const pthread_cond_t* c) { return __atomic_load_n(reinterpret_cast<const uint64_t*>(c), __ATOMIC_RELAXED) >> 1; }

// Returns the object of a condition, before a wait. One that has counted fewer waits than before is another condition at an old address.
// The caller holds the mutex of the condition, so waits are counted one after the other. What is remembered of them is seldom written: a
// condition that many threads wait for, as that of Python's GIL, would take its line from one processor to the next at each wait. The first
// wait of another condition finds it all the same.
Object* CondAt(const pthread_cond_t* c, const void* caller) {
  Object* object = ObjectAt(c, Kind::kCond, caller);
  if (object == nullptr || !g_counts_waits) return object;
  const uint64_t waits = WaitsOf(c);
  uint64_t least = object->least_waits.load(std::memory_order_relaxed);
  if (__builtin_expect(waits < least, 0)) {
    ForgetObject(c);
    object = ObjectAt(c, Kind::kCond, caller);
    least = 0;
  }
  if (waits >= 2 * least && object != nullptr) object->least_waits.store(waits + 1, std::memory_order_relaxed);
  return object;
}

// `result` turns what the call returns into what a pthread function does.
template <typename Call, typename Result>
[[gnu::always_inline]] inline int WaitFor(const pthread_cond_t* c, const pthread_mutex_t* m, const void* caller, Operation operation,
                                          Call call, Result result) {
  if (__builtin_expect(RunIsOff() || IsShared(c), 0)) return call();
  const SourceLine at = SourceAt(UserAt(caller));
  OwnerOnLeave owner(RowOfMutex(m), at.file, at.line);
  Object* const object = CondAt(c, caller);
  const Waiting event(
      object, [=] { return at; }, operation);
  const int rc = call();
  owner.Returned(result(rc));
  if (result(rc) == EINVAL && object != nullptr) object->least_waits.store(WaitsOf(c), std::memory_order_relaxed);  // it may not have begun
  return rc;
}

int AsIs(int rc) { return rc; }
int OfC11(int rc) { return rc == thrd_success ? 0 : rc == thrd_timedout ? ETIMEDOUT : EINVAL; }

// glibc's conditions and mutexes of C11 are those of pthreads.
pthread_cond_t* OfC11(cnd_t* c) { return reinterpret_cast<pthread_cond_t*>(c); }
pthread_mutex_t* OfC11(mtx_t* m) { return reinterpret_cast<pthread_mutex_t*>(m); }

}  // namespace

PFS_REPLACES int pthread_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  const int rc = PFS_REAL(pthread_cond_init)(c, attributes);
  if (rc == 0) NoteInit(c, Kind::kCond, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_cond_destroy(pthread_cond_t* c) {
  EndObject(c);
  return PFS_REAL(pthread_cond_destroy)(c);
}

PFS_REPLACES int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return WaitFor(
      c, m, PFS_CALLER, Operation::kCondWait, [=] { return PFS_REAL(pthread_cond_wait)(c, m); }, AsIs);
}

PFS_REPLACES int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* deadline) {
  return WaitFor(
      c, m, PFS_CALLER, Operation::kCondTimedWait, [=] { return PFS_REAL(pthread_cond_timedwait)(c, m, deadline); }, AsIs);
}

PFS_REPLACES int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* deadline) {
  return WaitFor(
      c, m, PFS_CALLER, Operation::kCondTimedWait, [=] { return PFS_REAL(pthread_cond_clockwait)(c, m, clock, deadline); }, AsIs);
}

PFS_REPLACES int cnd_init(cnd_t* c) {
  const int rc = PFS_REAL(cnd_init)(c);
  if (rc == thrd_success) NoteInit(c, Kind::kCond, PFS_CALLER);
  return rc;
}

PFS_REPLACES void cnd_destroy(cnd_t* c) {
  EndObject(c);
  PFS_REAL(cnd_destroy)(c);
}

PFS_REPLACES int cnd_wait(cnd_t* c, mtx_t* m) {
  return WaitFor(
      OfC11(c), OfC11(m), PFS_CALLER, Operation::kCondWait, [=] { return PFS_REAL(cnd_wait)(c, m); }, [](int rc) { return OfC11(rc); });
}

PFS_REPLACES int cnd_timedwait(cnd_t* c, mtx_t* m, const timespec* deadline) {
  return WaitFor(
      OfC11(c), OfC11(m), PFS_CALLER, Operation::kCondTimedWait, [=] { return PFS_REAL(cnd_timedwait)(c, m, deadline); },
      [](int rc) { return OfC11(rc); });
}

// ---- Initialization that another thread does ------------------------------------------------------------------------------------------

namespace {

// glibc keeps the state in the lowest bits of the word: the initialization runs, or is done. It is a wait only if another thread runs it.
template <typename Call>
[[gnu::always_inline]] inline void Once(const int* word, const void* caller, Call call) {
  constexpr int kStates = 3, kRuns = 1;
  if (__builtin_expect((__atomic_load_n(word, __ATOMIC_RELAXED) & kStates) != kRuns || RunIsOff(), 1)) return call();
  const Waiting event(
      ObjectAt(word, Kind::kOnce, caller), [=] { return SourceAt(caller); }, Operation::kCondWait);
  call();
}

}  // namespace

PFS_REPLACES int pthread_once(pthread_once_t* control, void (*initialize)()) {
  int rc = 0;
  Once(control, PFS_CALLER, [&] { rc = PFS_REAL(pthread_once)(control, initialize); });
  return rc;
}

PFS_REPLACES void call_once(once_flag* flag, void (*initialize)()) {
  Once(&flag->__data, PFS_CALLER, [=] { PFS_REAL(call_once)(flag, initialize); });
}

// ---- Barriers ----------------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t* attributes, unsigned count) {
  const int rc = PFS_REAL(pthread_barrier_init)(barrier, attributes, count);
  if (rc == 0) NoteInit(barrier, Kind::kBarrier, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_barrier_destroy(pthread_barrier_t* barrier) {
  EndObject(barrier);
  return PFS_REAL(pthread_barrier_destroy)(barrier);
}

PFS_REPLACES int pthread_barrier_wait(pthread_barrier_t* barrier) {
  if (RunIsOff()) return PFS_REAL(pthread_barrier_wait)(barrier);
  const void* const caller = PFS_CALLER;
  const Waiting event(
      ObjectAt(barrier, Kind::kBarrier, caller), [=] { return SourceAt(caller); }, Operation::kCondWait);
  return PFS_REAL(pthread_barrier_wait)(barrier);
}
