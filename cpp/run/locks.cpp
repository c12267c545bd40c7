// run/locks.cpp: replaces pthread_mutex_*, pthread_spin_* and pthread_rwlock_*.
//
// The core makes the event around the C library's function, as it does for pfs_mutex_t. No call here is a cancellation point in glibc.
#include "record/family/lock_events.h"
#include "run/objects.h"
#include "run/real.h"

using perfschema::AsInstance;
using perfschema::LockOperation;
using perfschema::Operation;
using namespace perfschema::run;

namespace {

// Is what LockOperation() needs of an object, in registers.
struct Probed {
  const Object* entry;
  pfs_instance_t* instance;
  const uint32_t* flags;
};
uint64_t AddressOf(const Probed* probed) { return AddressOf(probed->entry); }

// Makes the event of an operation. `call` waits; `attempt` does not.
template <typename Call, typename Attempt>
[[gnu::always_inline]] inline int Locked(Object& object, const void* caller, Operation operation, Call call, Attempt attempt_call) {
  struct Operate {
    const Probed* object;
    Call call;
    Attempt attempt_call;
    int operator()() const { return call(); }
    int attempt() const { return attempt_call(); }
  };
  const Probed probed{&object, object.row.load(std::memory_order_relaxed), object.flags.load(std::memory_order_relaxed)};
  return LockOperation(Operate{&probed, call, attempt_call}, SiteOf(caller)->text, kNoLine, operation);
}

// Releases an exclusive lock: the row has no owner from here on.
template <typename Unlock>
[[gnu::always_inline]] inline int Released(pfs_instance_t* row, Unlock unlock) {
  const uint64_t owner = pfs_owner_release_(row);
  const int rc = unlock();
  if (__builtin_expect(rc != 0, 0)) pfs_owner_restore_(row, owner);
  return rc;
}

pfs_instance_t* RowOf(const void* address, Kind kind) {
  Object* const object = KnownObject(address, kind);
  return object != nullptr ? object->row.load(std::memory_order_acquire) : nullptr;
}

// Other processes may use a shared lock, too: it stays plain. glibc keeps that in the type (PTHREAD_MUTEX_PSHARED_BIT).
bool IsShared(const pthread_mutex_t* m) { return (m->__data.__kind & 128) != 0; }
bool IsShared(const pthread_rwlock_t* rw) { return rw->__data.__shared != 0; }

Object* MutexAt(const pthread_mutex_t* m, const void* caller) {
  if (__builtin_expect(IsShared(m) || g_is_off, 0)) return nullptr;
  Object* const object = ObjectAt(m, Kind::kMutex, caller);
  return IsInstrumented(object) ? object : nullptr;
}

Object* RwlockAt(const pthread_rwlock_t* rw, const void* caller) {
  if (__builtin_expect(IsShared(rw) || g_is_off, 0)) return nullptr;
  Object* const object = ObjectAt(rw, Kind::kRwlock, caller);
  return IsInstrumented(object) ? object : nullptr;
}

Object* SpinAt(const volatile pthread_spinlock_t* spin, const void* caller) {
  if (__builtin_expect(g_is_off, 0)) return nullptr;
  Object* const object = ObjectAt(const_cast<const int*>(spin), Kind::kSpin, caller);
  return IsInstrumented(object) ? object : nullptr;
}

}  // namespace

#define PFS_CALLER __builtin_return_address(0)

// ---- Mutexes ---------------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int rc = PFS_REAL(pthread_mutex_init)(m, attributes);
  if (rc == 0 && !g_is_off) NoteInit(m, Kind::kMutex, PFS_CALLER);
  return rc;
}

// The row goes first: another thread may get the memory as soon as the mutex is destroyed.
PFS_REPLACES int pthread_mutex_destroy(pthread_mutex_t* m) {
  if (!g_is_off) ForgetObject(m);
  return PFS_REAL(pthread_mutex_destroy)(m);
}

PFS_REPLACES int pthread_mutex_lock(pthread_mutex_t* m) {
  Object* const object = MutexAt(m, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_mutex_lock)(m); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kLock, call, [=] { return PFS_REAL(pthread_mutex_trylock)(m); });
}

PFS_REPLACES int pthread_mutex_trylock(pthread_mutex_t* m) {
  Object* const object = MutexAt(m, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_mutex_trylock)(m); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kTryLock, call, call);
}

PFS_REPLACES int pthread_mutex_timedlock(pthread_mutex_t* m, const timespec* deadline) {
  Object* const object = MutexAt(m, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_mutex_timedlock)(m, deadline); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kTimedLock, call, [=] { return PFS_REAL(pthread_mutex_trylock)(m); });
}

PFS_REPLACES int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* deadline) {
  Object* const object = MutexAt(m, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_mutex_clocklock)(m, clock, deadline); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kTimedLock, call, [=] { return PFS_REAL(pthread_mutex_trylock)(m); });
}

PFS_REPLACES int pthread_mutex_unlock(pthread_mutex_t* m) {
  const auto unlock = [=] { return PFS_REAL(pthread_mutex_unlock)(m); };
  pfs_instance_t* const row = RowOf(m, Kind::kMutex);
  return row != nullptr ? Released(row, unlock) : unlock();
}

// ---- Spinlocks: mutexes to the tables ----------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_spin_init(pthread_spinlock_t* spin, int shared) {
  const int rc = PFS_REAL(pthread_spin_init)(spin, shared);
  if (rc == 0 && !g_is_off) NoteInit(const_cast<const int*>(spin), Kind::kSpin, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_spin_destroy(pthread_spinlock_t* spin) {
  if (!g_is_off) ForgetObject(const_cast<const int*>(spin));
  return PFS_REAL(pthread_spin_destroy)(spin);
}

PFS_REPLACES int pthread_spin_lock(pthread_spinlock_t* spin) {
  Object* const object = SpinAt(spin, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_spin_lock)(spin); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kLock, call, [=] { return PFS_REAL(pthread_spin_trylock)(spin); });
}

PFS_REPLACES int pthread_spin_trylock(pthread_spinlock_t* spin) {
  Object* const object = SpinAt(spin, PFS_CALLER);
  const auto call = [=] { return PFS_REAL(pthread_spin_trylock)(spin); };
  if (object == nullptr) return call();
  return Locked(*object, PFS_CALLER, Operation::kTryLock, call, call);
}

PFS_REPLACES int pthread_spin_unlock(pthread_spinlock_t* spin) {
  const auto unlock = [=] { return PFS_REAL(pthread_spin_unlock)(spin); };
  pfs_instance_t* const row = RowOf(const_cast<const int*>(spin), Kind::kSpin);
  return row != nullptr ? Released(row, unlock) : unlock();
}

// ---- Read-write locks --------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_rwlock_init(pthread_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  const int rc = PFS_REAL(pthread_rwlock_init)(rw, attributes);
  if (rc == 0 && !g_is_off) NoteInit(rw, Kind::kRwlock, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_rwlock_destroy(pthread_rwlock_t* rw) {
  if (!g_is_off) ForgetObject(rw);
  return PFS_REAL(pthread_rwlock_destroy)(rw);
}

#define PFS_RWLOCK(name, parameters, operation, attempt_name, ...)                                   \
  PFS_REPLACES int name parameters {                                                                 \
    Object* const object = RwlockAt(rw, PFS_CALLER);                                                 \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); };                                   \
    if (object == nullptr) return call();                                                            \
    return Locked(*object, PFS_CALLER, operation, call, [=] { return PFS_REAL(attempt_name)(rw); }); \
  }
PFS_RWLOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * rw), Operation::kReadLock, pthread_rwlock_tryrdlock, rw)
PFS_RWLOCK(pthread_rwlock_tryrdlock, (pthread_rwlock_t * rw), Operation::kTryReadLock, pthread_rwlock_tryrdlock, rw)
PFS_RWLOCK(pthread_rwlock_timedrdlock, (pthread_rwlock_t * rw, const timespec* deadline), Operation::kTimedReadLock,
           pthread_rwlock_tryrdlock, rw, deadline)
PFS_RWLOCK(pthread_rwlock_clockrdlock, (pthread_rwlock_t * rw, clockid_t clock, const timespec* deadline), Operation::kTimedReadLock,
           pthread_rwlock_tryrdlock, rw, clock, deadline)
PFS_RWLOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * rw), Operation::kWriteLock, pthread_rwlock_trywrlock, rw)
PFS_RWLOCK(pthread_rwlock_trywrlock, (pthread_rwlock_t * rw), Operation::kTryWriteLock, pthread_rwlock_trywrlock, rw)
PFS_RWLOCK(pthread_rwlock_timedwrlock, (pthread_rwlock_t * rw, const timespec* deadline), Operation::kTimedWriteLock,
           pthread_rwlock_trywrlock, rw, deadline)
PFS_RWLOCK(pthread_rwlock_clockwrlock, (pthread_rwlock_t * rw, clockid_t clock, const timespec* deadline), Operation::kTimedWriteLock,
           pthread_rwlock_trywrlock, rw, clock, deadline)

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
