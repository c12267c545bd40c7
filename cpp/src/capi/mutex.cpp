// capi/mutex.cpp: mutexes, and waits for locks of the user's own.
//
// A cancelled thread needs no care here: no call between Begin and End is a cancellation point.
#include "base/clock_waits.h"
#include "capi/own_wait.h"
#include "record/family/lock_events.h"

using perfschema::Family;
using perfschema::LockCall;
using perfschema::LockOperation;
using perfschema::Operation;

namespace {

Operation OperationOf(enum pfs_lock_op op) {
  switch (op) {
    case PFS_TRY_LOCK:
      return Operation::kTryLock;
    case PFS_TIMED_LOCK:
      return Operation::kTimedLock;
    default:
      return Operation::kLock;
  }
}

int Lock(pfs_mutex_t* m) { return pthread_mutex_lock(&m->mutex); }
int TryLock(pfs_mutex_t* m) { return pthread_mutex_trylock(&m->mutex); }

// Other processes may use it, too: to them, what is known of it here are pointers to nowhere.
bool IsShared(const pthread_mutexattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  return pthread_mutexattr_getpshared(attributes, &shared) == 0 && shared == PTHREAD_PROCESS_SHARED;
}

// A function of its own: the common way then saves no registers for it.
[[gnu::noinline, gnu::cold]] int InitWith(pfs_key_t key, pfs_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int rc = pthread_mutex_init(&m->mutex, attributes);
  perfschema::CreateObject(Family::kMutex, rc == 0 && !IsShared(attributes) ? key : 0, m);
  return rc;
}

template <typename Wait>
int Until(pfs_mutex_t* m, const char* file, uint32_t line, Wait wait) {
  struct Call : perfschema::OnObject<pfs_mutex_t> {
    Wait wait;
    int operator()() const { return wait(); }
    int attempt() const { return TryLock(this->object); }
  };
  return pfs_flags_enabled_(m->flags) ? LockOperation(Call{{m}, wait}, file, line, Operation::kTimedLock) : wait();
}

}  // namespace

extern "C" {

int pfs_mutex_init(pfs_key_t key, pfs_mutex_t* m, const pthread_mutexattr_t* attributes) {
  if (__builtin_expect(attributes != nullptr, 0)) return InitWith(key, m, attributes);
  if (const int rc = pthread_mutex_init(&m->mutex, nullptr); __builtin_expect(rc != 0, 0)) return perfschema::NoObject(m, rc);
  perfschema::CreateObject(Family::kMutex, key, m);
  return 0;
}

int pfs_mutex_destroy(pfs_mutex_t* m) {
  const int rc = pthread_mutex_destroy(&m->mutex);
  if (__builtin_expect(rc != 0, 0)) return rc;
  perfschema::DestroyObject(m);
  return 0;
}

// The inline half has seen that the instance is there.
int pfs_mutex_lock_(pfs_mutex_t* m, PFS_SITE_) {
  return LockOperation(LockCall<pfs_mutex_t, Lock, TryLock>{{m}}, file, line, Operation::kLock);
}

int pfs_mutex_trylock_(pfs_mutex_t* m, PFS_SITE_) {
  return LockOperation(LockCall<pfs_mutex_t, TryLock, TryLock>{{m}}, file, line, Operation::kTryLock);
}

int pfs_mutex_unlock_(pfs_mutex_t* m) {
  return perfschema::RareUnlock(m->instance, [m] { return pthread_mutex_unlock(&m->mutex); });
}

int pfs_mutex_timedlock_at(pfs_mutex_t* m, const struct timespec* deadline, PFS_SITE_) {
  return Until(m, file, line, [=] { return pthread_mutex_timedlock(&m->mutex, deadline); });
}

int pfs_mutex_clocklock_at(pfs_mutex_t* m, clockid_t clock, const struct timespec* deadline, PFS_SITE_) {
  const auto wait = [=] { return perfschema::MutexClockLock(&m->mutex, clock, deadline); };
  return perfschema::IsWaitClock(clock) ? Until(m, file, line, wait) : wait();
}

pfs_instance_t* pfs_mutex_create(pfs_key_t key, const void* identity) {
  return key != 0 ? perfschema::CreateInstance(Family::kMutex, key, identity) : nullptr;
}

void pfs_mutex_discard(pfs_instance_t* instance) {
  if (instance != nullptr) perfschema::DestroyInstance(instance);
}

int pfs_mutex_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_lock_op op, PFS_SITE_) {
  return perfschema::capi::BeginOwnWait(wait, instance, OperationOf(op), file, line);
}

void pfs_mutex_wait_end_(pfs_wait_t* wait, int rc, uint32_t spins) { perfschema::capi::EndOwnLockWait(wait, rc, spins); }

}  // extern "C"
