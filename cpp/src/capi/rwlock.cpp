// capi/rwlock.cpp: rwlocks, and waits for rwlocks, prlocks and sxlocks of the user's own.
//
// A cancelled thread needs no care here: POSIX lets the lock calls be cancellation points, but glibc and musl do not make them so.
#include "base/clock_waits.h"
#include "capi/own_wait.h"
#include "record/family/lock_events.h"

using perfschema::AsInstance;
using perfschema::Family;
using perfschema::IsMoment;
using perfschema::LockOperation;
using perfschema::Operation;

namespace {

Operation OperationOf(enum pfs_rwlock_op op) {
  switch (op) {
    case PFS_WRITE_LOCK:
      return Operation::kWriteLock;
    case PFS_TRY_READ_LOCK:
      return Operation::kTryReadLock;
    case PFS_TRY_WRITE_LOCK:
      return Operation::kTryWriteLock;
    case PFS_TIMED_READ_LOCK:
      return Operation::kTimedReadLock;
    case PFS_TIMED_WRITE_LOCK:
      return Operation::kTimedWriteLock;
    case PFS_SHARED_LOCK:
      return Operation::kSharedLock;
    case PFS_SHARED_EXCLUSIVE_LOCK:
      return Operation::kSharedExclusiveLock;
    case PFS_EXCLUSIVE_LOCK:
      return Operation::kExclusiveLock;
    case PFS_TRY_SHARED_LOCK:
      return Operation::kTrySharedLock;
    case PFS_TRY_SHARED_EXCLUSIVE_LOCK:
      return Operation::kTrySharedExclusiveLock;
    case PFS_TRY_EXCLUSIVE_LOCK:
      return Operation::kTryExclusiveLock;
    default:
      return Operation::kReadLock;
  }
}

int ReadLock(pfs_rwlock_t* rw) { return pthread_rwlock_rdlock(&rw->lock); }
int WriteLock(pfs_rwlock_t* rw) { return pthread_rwlock_wrlock(&rw->lock); }
int TryReadLock(pfs_rwlock_t* rw) { return pthread_rwlock_tryrdlock(&rw->lock); }
int TryWriteLock(pfs_rwlock_t* rw) { return pthread_rwlock_trywrlock(&rw->lock); }

// As of a mutex.
bool IsShared(const pthread_rwlockattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  return pthread_rwlockattr_getpshared(attributes, &shared) == 0 && shared == PTHREAD_PROCESS_SHARED;
}

// A function of its own: the common way then saves no registers for it.
[[gnu::noinline, gnu::cold]] int InitWith(pfs_key_t key, pfs_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  const int rc = pthread_rwlock_init(&rw->lock, attributes);
  perfschema::CreateObject(Family::kRwlock, rc == 0 && !IsShared(attributes) ? key : 0, rw);
  return rc;
}

template <int (*kOperate)(pfs_rwlock_t*), int (*kAttempt)(pfs_rwlock_t*)>
PFS_ALWAYS_INLINE int Locked(pfs_rwlock_t* rw, Operation operation, const char* file, uint32_t line) {
  return LockOperation(perfschema::LockCall<pfs_rwlock_t, kOperate, kAttempt>{{rw}}, file, line, operation);
}

// An operation that the inline half does not look at before. One whose arguments are bad takes nothing, and is no event.
template <int (*kAttempt)(pfs_rwlock_t*), typename Wait>
int Until(pfs_rwlock_t* rw, Operation operation, bool is_legal, const char* file, uint32_t line, Wait wait) {
  struct Call : perfschema::OnObject<pfs_rwlock_t> {
    Wait wait;
    int operator()() const { return wait(); }
    int attempt() const { return kAttempt(this->object); }
  };
  return is_legal && pfs_flags_enabled_(rw->flags) ? LockOperation(Call{{rw}, wait}, file, line, operation) : wait();
}

}  // namespace

extern "C" {

int pfs_rwlock_init(pfs_key_t key, pfs_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  if (__builtin_expect(attributes != nullptr, 0)) return InitWith(key, rw, attributes);
  if (const int rc = pthread_rwlock_init(&rw->lock, nullptr); __builtin_expect(rc != 0, 0)) return perfschema::NoObject(rw, rc);
  perfschema::CreateObject(Family::kRwlock, key, rw);
  return 0;
}

int pfs_rwlock_destroy(pfs_rwlock_t* rw) {
  const int rc = pthread_rwlock_destroy(&rw->lock);
  if (__builtin_expect(rc != 0, 0)) return rc;
  perfschema::DestroyObject(rw);
  return 0;
}

// The inline half has seen that the instance is there and the instrument is on.
int pfs_rwlock_rdlock_(pfs_rwlock_t* rw, PFS_SITE_) { return Locked<ReadLock, TryReadLock>(rw, Operation::kReadLock, file, line); }

int pfs_rwlock_wrlock_(pfs_rwlock_t* rw, PFS_SITE_) { return Locked<WriteLock, TryWriteLock>(rw, Operation::kWriteLock, file, line); }

int pfs_rwlock_tryrdlock_(pfs_rwlock_t* rw, PFS_SITE_) { return Locked<TryReadLock, TryReadLock>(rw, Operation::kTryReadLock, file, line); }

int pfs_rwlock_trywrlock_(pfs_rwlock_t* rw, PFS_SITE_) {
  return Locked<TryWriteLock, TryWriteLock>(rw, Operation::kTryWriteLock, file, line);
}

int pfs_rwlock_unlock_(pfs_rwlock_t* rw) {
  return perfschema::RareUnlock(rw->instance, [rw] { return pthread_rwlock_unlock(&rw->lock); });
}

int pfs_rwlock_timedrdlock_at(pfs_rwlock_t* rw, const struct timespec* deadline, PFS_SITE_) {
  return Until<TryReadLock>(rw, Operation::kTimedReadLock, IsMoment(CLOCK_REALTIME, deadline), file, line,
                            [=] { return pthread_rwlock_timedrdlock(&rw->lock, deadline); });
}

int pfs_rwlock_timedwrlock_at(pfs_rwlock_t* rw, const struct timespec* deadline, PFS_SITE_) {
  return Until<TryWriteLock>(rw, Operation::kTimedWriteLock, IsMoment(CLOCK_REALTIME, deadline), file, line,
                             [=] { return pthread_rwlock_timedwrlock(&rw->lock, deadline); });
}

int pfs_rwlock_clockrdlock_at(pfs_rwlock_t* rw, clockid_t clock, const struct timespec* deadline, PFS_SITE_) {
  return Until<TryReadLock>(rw, Operation::kTimedReadLock, IsMoment(clock, deadline), file, line,
                            [=] { return perfschema::ReadClockLock(&rw->lock, clock, deadline); });
}

int pfs_rwlock_clockwrlock_at(pfs_rwlock_t* rw, clockid_t clock, const struct timespec* deadline, PFS_SITE_) {
  return Until<TryWriteLock>(rw, Operation::kTimedWriteLock, IsMoment(clock, deadline), file, line,
                             [=] { return perfschema::WriteClockLock(&rw->lock, clock, deadline); });
}

pfs_instance_t* pfs_rwlock_create(pfs_key_t key, const void* identity) {
  return key != 0 ? perfschema::CreateInstance(Family::kRwlock, key, identity) : nullptr;
}

void pfs_rwlock_discard(pfs_instance_t* instance) {
  if (instance != nullptr) perfschema::DestroyInstance(instance);
}

int pfs_rwlock_wait_begin_(pfs_wait_t* wait, pfs_instance_t* instance, enum pfs_rwlock_op op, PFS_SITE_) {
  return perfschema::capi::BeginOwnWait(wait, instance, OperationOf(op), file, line);
}

void pfs_rwlock_wait_end_(pfs_wait_t* wait, int rc, uint32_t spins) { perfschema::capi::EndOwnLockWait(wait, rc, spins); }

int pfs_rwlock_released_shared_(pfs_instance_t* instance) { return perfschema::ReleaseShared(*AsInstance(instance)); }

void pfs_rwlock_held_after_all_(pfs_instance_t* instance) { perfschema::UndoRelease(*AsInstance(instance)); }

}  // extern "C"
