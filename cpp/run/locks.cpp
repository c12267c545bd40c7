// run/locks.cpp: replaces pthread_mutex_*, pthread_spin_* and pthread_rwlock_*.
//
// The core makes the event around the C library's function, as it does for pfs_mutex_t. No call here is a cancellation point in glibc.
#include "run/lock_calls.h"
#include "run/real.h"

using perfschema::AsInstance;
using perfschema::Operation;
using namespace perfschema::run;

namespace {

pfs_instance_t* RowOf(const void* address, Kind kind) {
  Object* const object = KnownObject(address, kind);
  return object != nullptr ? object->row.load(std::memory_order_acquire) : nullptr;
}

// Other processes may use a shared lock, too: it stays plain. glibc keeps that in the type (PTHREAD_MUTEX_PSHARED_BIT).
bool IsShared(const pthread_mutex_t* m) { return (m->__data.__kind & 128) != 0; }
bool IsShared(const pthread_rwlock_t* rw) { return rw->__data.__shared != 0; }

// glibc keeps nothing of a spinlock: shared ones are recorded, too.
bool IsShared(const volatile pthread_spinlock_t*) { return false; }

// Returns the object of a lock whose events are instrumented, else nullptr.
template <typename Lock>
Object* InstrumentedAt(const Lock* lock, Kind kind, const void* caller) {
  if (__builtin_expect(IsShared(lock) || g_is_off, 0)) return nullptr;
  Object* const object = ObjectAt(const_cast<const void*>(static_cast<const volatile void*>(lock)), kind, caller);
  return IsInstrumented(object) ? object : nullptr;
}

}  // namespace

#define PFS_CALLER __builtin_return_address(0)
#define PFS_SOURCE ([caller = PFS_CALLER] { return SourceLine{SiteOf(caller)->text, kNoLine}; })

// Replaces a function that takes a lock: `lock` is its first parameter. `attempt` is the function that does not wait.
#define PFS_TAKES(kind, name, parameters, operation, attempt, ...)                                                  \
  PFS_REPLACES int name parameters {                                                                                \
    return Locked(                                                                                                  \
        InstrumentedAt(lock, kind, PFS_CALLER), PFS_SOURCE, operation, [=] { return PFS_REAL(name)(__VA_ARGS__); }, \
        [=] { return PFS_REAL(attempt)(lock); });                                                                   \
  }

// ---- Mutexes ---------------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int rc = PFS_REAL(pthread_mutex_init)(m, attributes);
  if (rc == 0) NoteInit(m, Kind::kMutex, PFS_CALLER);
  return rc;
}

// The row goes first: another thread may get the memory as soon as the mutex is destroyed.
PFS_REPLACES int pthread_mutex_destroy(pthread_mutex_t* m) {
  ForgetObject(m);
  return PFS_REAL(pthread_mutex_destroy)(m);
}

PFS_TAKES(Kind::kMutex, pthread_mutex_lock, (pthread_mutex_t * lock), Operation::kLock, pthread_mutex_trylock, lock)
PFS_TAKES(Kind::kMutex, pthread_mutex_trylock, (pthread_mutex_t * lock), Operation::kTryLock, pthread_mutex_trylock, lock)
PFS_TAKES(Kind::kMutex, pthread_mutex_timedlock, (pthread_mutex_t * lock, const timespec* deadline), Operation::kTimedLock,
          pthread_mutex_trylock, lock, deadline)
PFS_TAKES(Kind::kMutex, pthread_mutex_clocklock, (pthread_mutex_t * lock, clockid_t clock, const timespec* deadline), Operation::kTimedLock,
          pthread_mutex_trylock, lock, clock, deadline)

PFS_REPLACES int pthread_mutex_unlock(pthread_mutex_t* m) {
  const auto unlock = [=] { return PFS_REAL(pthread_mutex_unlock)(m); };
  pfs_instance_t* const row = RowOf(m, Kind::kMutex);
  return row != nullptr ? Released(row, unlock) : unlock();
}

// ---- Spinlocks: mutexes to the tables ----------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_spin_init(pthread_spinlock_t* spin, int shared) {
  const int rc = PFS_REAL(pthread_spin_init)(spin, shared);
  if (rc == 0) NoteInit(const_cast<const int*>(spin), Kind::kSpin, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_spin_destroy(pthread_spinlock_t* spin) {
  ForgetObject(const_cast<const int*>(spin));
  return PFS_REAL(pthread_spin_destroy)(spin);
}

PFS_TAKES(Kind::kSpin, pthread_spin_lock, (pthread_spinlock_t * lock), Operation::kLock, pthread_spin_trylock, lock)
PFS_TAKES(Kind::kSpin, pthread_spin_trylock, (pthread_spinlock_t * lock), Operation::kTryLock, pthread_spin_trylock, lock)

PFS_REPLACES int pthread_spin_unlock(pthread_spinlock_t* spin) {
  const auto unlock = [=] { return PFS_REAL(pthread_spin_unlock)(spin); };
  pfs_instance_t* const row = RowOf(const_cast<const int*>(spin), Kind::kSpin);
  return row != nullptr ? Released(row, unlock) : unlock();
}

// ---- Read-write locks --------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_rwlock_init(pthread_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  const int rc = PFS_REAL(pthread_rwlock_init)(rw, attributes);
  if (rc == 0) NoteInit(rw, Kind::kRwlock, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_rwlock_destroy(pthread_rwlock_t* rw) {
  ForgetObject(rw);
  return PFS_REAL(pthread_rwlock_destroy)(rw);
}

PFS_TAKES(Kind::kRwlock, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), Operation::kReadLock, pthread_rwlock_tryrdlock, lock)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), Operation::kTryReadLock, pthread_rwlock_tryrdlock, lock)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const timespec* deadline), Operation::kTimedReadLock,
          pthread_rwlock_tryrdlock, lock, deadline)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_clockrdlock, (pthread_rwlock_t * lock, clockid_t clock, const timespec* deadline),
          Operation::kTimedReadLock, pthread_rwlock_tryrdlock, lock, clock, deadline)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), Operation::kWriteLock, pthread_rwlock_trywrlock, lock)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), Operation::kTryWriteLock, pthread_rwlock_trywrlock, lock)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const timespec* deadline), Operation::kTimedWriteLock,
          pthread_rwlock_trywrlock, lock, deadline)
PFS_TAKES(Kind::kRwlock, pthread_rwlock_clockwrlock, (pthread_rwlock_t * lock, clockid_t clock, const timespec* deadline),
          Operation::kTimedWriteLock, pthread_rwlock_trywrlock, lock, clock, deadline)

// As pfs_rwlock_unlock().
PFS_REPLACES int pthread_rwlock_unlock(pthread_rwlock_t* rw) {
  pfs_instance_t* const row = RowOf(rw, Kind::kRwlock);
  if (row == nullptr) return PFS_REAL(pthread_rwlock_unlock)(rw);
  const uint64_t owner = pfs_owner_release_(row);
  const bool was_shared = owner == 0 && pfs_has_readers_(row) && perfschema::ReleaseShared(*AsInstance(row)) != 0;
  const int rc = PFS_REAL(pthread_rwlock_unlock)(rw);
  if (__builtin_expect(rc != 0, 0)) {
    pfs_owner_restore_(row, owner);
    if (was_shared) perfschema::UndoRelease(*AsInstance(row));
  }
  return rc;
}
