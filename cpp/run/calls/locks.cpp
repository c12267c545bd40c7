// run/calls/locks.cpp: replaces pthread_mutex_*, pthread_spin_* and pthread_rwlock_*.
//
// The core makes the event around the C library's function, as it does for pfs_mutex_t. No call here is a cancellation point in glibc.
#include <type_traits>

#include "base/clock_waits.h"
#include "run/calls/lock_calls.h"
#include "run/calls/read_locks.h"
#include "run/loader/real.h"

using perfschema::AsInstance;
using perfschema::IsMoment;
using perfschema::IsWaitClock;
using perfschema::Operation;
using namespace perfschema::run;

namespace {

// Is what this file must know of a type of lock.
template <typename Lock>
struct Type;

template <>
struct Type<pthread_mutex_t> {
  static constexpr Kind kKind = Kind::kMutex;
  // Other processes may use a shared lock, too: it stays plain. glibc keeps that in the type (PTHREAD_MUTEX_PSHARED_BIT).
  static bool IsShared(const pthread_mutex_t* m) { return (m->__data.__kind & 128) != 0; }
  // Returns whether glibc leaves the word of the tag alone: one of the four plain types, with or without lock elision.
  static bool HasTag(const pthread_mutex_t* m) { return (m->__data.__kind & ~(3 | 256 | 512)) == 0; }
  // Makes the operation without waiting.
  PFS_ALWAYS_INLINE static int Attempt(Operation, pthread_mutex_t* m) { return PFS_REAL(pthread_mutex_trylock)(m); }
};

template <>
struct Type<pthread_rwlock_t> {
  static constexpr Kind kKind = Kind::kRwlock;
  static bool IsShared(const pthread_rwlock_t* rw) { return rw->__data.__shared != 0; }
  static bool HasTag(const pthread_rwlock_t*) { return true; }
  PFS_ALWAYS_INLINE static int Attempt(Operation operation, pthread_rwlock_t* rw) {
    return perfschema::HoldAfter(operation) == perfschema::Hold::kShared ? PFS_REAL(pthread_rwlock_tryrdlock)(rw)
                                                                         : PFS_REAL(pthread_rwlock_trywrlock)(rw);
  }
};

// glibc's mutexes of C11 are those of pthreads; the results are others.
template <>
struct Type<mtx_t> {
  static constexpr Kind kKind = Kind::kMutex;
  static bool IsShared(const mtx_t*) { return false; }
  static bool HasTag(const mtx_t*) { return true; }
  PFS_ALWAYS_INLINE static int Attempt(Operation, mtx_t* m) { return PFS_REAL(mtx_trylock)(m); }
};

// ---- A lock that may have a tag ----------------------------------------------------------------------------------------------------
//
// Common operations have bodies of their own, with the operation a constant of the type. The others share one body for each type of lock,
// and so does what is seldom done for any of them: compiled for each, they would be half of the library's code.

// An operation that is known when this is compiled.
template <Operation kOperation>
using Known = std::integral_constant<Operation, kOperation>;

// A call on a lock without its type. REQUIRES: the call outlives it.
struct AnyCall {
  int (*make)(const void*);
  const void* call;

  template <typename Call>
  explicit AnyCall(const Call* made) : make([](const void* its_call) { return (*static_cast<const Call*>(its_call))(); }), call(made) {}
  explicit AnyCall(const AnyCall* other) : AnyCall(*other) {}
  int operator()() const { return make(call); }
};

template <typename Named, typename Lock, typename Call>
int MadeByOther(Lock* lock, const void* caller, int rc, Named operation, Call call);

// An operation on a lock that has a tag. It has two words for most, which stay in registers: the tag is cheap to follow again.
// `Named`: Known, or Operation.
template <typename Named, typename Lock, typename Call>
struct TaggedOperation {
  Lock* lock;
  Call call;
  [[no_unique_address]] Named operation;

  PFS_ALWAYS_INLINE int operator()() const { return call(); }
  PFS_ALWAYS_INLINE int attempt() const { return Type<Lock>::Attempt(operation, lock); }
  PFS_ALWAYS_INLINE pfs_instance_t* instance() const { return TagOf(lock).instance(); }
  PFS_ALWAYS_INLINE const uint32_t* flag_word() const { return TagOf(lock).flags(); }
  PFS_ALWAYS_INLINE uint64_t address() const { return reinterpret_cast<uintptr_t>(lock); }
  PFS_ALWAYS_INLINE bool IsOf(const perfschema::ShmInstance& instance) const {
    return Tag::IsOf(reinterpret_cast<const pfs_instance_t*>(&instance), lock);
  }
  PFS_ALWAYS_INLINE int OnOther(const char* caller, int rc) const { return MadeByOther(lock, caller, rc, operation, call); }
  static const char* UserAt(const char* caller, uint32_t) { return static_cast<const char*>(perfschema::run::UserAt(caller)); }
};

// Does what is not the default. REQUIRES: the lock has a tag with an instance.
template <typename Named, typename Lock, typename Call>
[[gnu::noinline]] int TakeBySettings(Lock* lock, const void* caller, Named operation, Call call) {
  const SourceLine at = SourceAt(caller);
  return perfschema::LockOperation(TaggedOperation<Named, Lock, Call>{lock, call, operation}, at.file, at.line, operation);
}

// Does what the tag was not enough for: a new lock, or one without a tag.
template <typename Lock>
[[gnu::noinline]] int TakeUntagged(Lock* lock, const void* caller, Operation operation, AnyCall call) {
  using T = Type<Lock>;
  if (T::IsShared(lock)) return call();
  if (T::HasTag(lock)) {
    return GiveTag(lock, T::kKind, TagWord(lock), caller) ? TakeBySettings(lock, caller, operation, call) : call();
  }
  return LockedObject(
      ObjectAt(lock, T::kKind, caller), [=] { return SourceAt(caller); }, operation, call, [=] { return T::Attempt(operation, lock); });
}
template <typename Named, typename Lock, typename Call>
[[gnu::noinline]] int TakeNew(Lock* lock, const void* caller, Named operation, Call call) {
  if (RunIsOff()) return call();  // no lock has a tag then: all calls come here
  return TakeUntagged(lock, caller, operation, AnyCall(&call));
}

// An operation that has been made.
template <typename Lock>
struct MadeOperation : TaggedOperation<Operation, Lock, AnyCall> {
  int rc;
  int operator()() const { return rc; }
  int attempt() const { return rc; }
};

// The attempt has been made, and the tag was that of another lock.
template <typename Lock>
[[gnu::noinline]] int TakeOther(Lock* lock, const void* caller, int rc, Operation operation, AnyCall call) {
  using perfschema::HoldAfter, perfschema::IsHeld, perfschema::IsTry;
  if (!IsHeld(rc, HoldAfter(operation)) && !IsTry(operation)) return TakeUntagged(lock, caller, operation, call);
  if (!GiveTag(lock, Type<Lock>::kKind, TagWord(lock), caller)) return rc;
  const SourceLine at = SourceAt(caller);
  return perfschema::LockOperation(MadeOperation<Lock>{{lock, call, operation}, rc}, at.file, at.line, operation);
}
template <typename Named, typename Lock, typename Call>
[[gnu::noinline]] int MadeByOther(Lock* lock, const void* caller, int rc, Named operation, Call call) {
  return TakeOther(lock, caller, rc, operation, AnyCall(&call));
}

// The default: TIMED = 'CONTENDED'. REQUIRES: the lock has a tag with this instance, which may be that of another lock.
template <typename Named, typename Lock, typename Call>
[[gnu::noinline]] int TakeContended(Lock* lock, const void* caller, Named operation, Call call, pfs_instance_t* instance,
                                    const uint32_t* flag_word) {
  const SourceLine at = SourceAt(caller);
  const perfschema::LockProbe probe(instance, flag_word, operation);
  return perfschema::TriedLock(TaggedOperation<Named, Lock, Call>{lock, call, operation}, probe, at.file, at.line, operation);
}

// Saves no register: it leaves by a tail call in each case. A store on the way is one that the locked instruction of the lock waits for.
template <typename Named, typename Lock, typename Call>
[[gnu::always_inline]] inline int Take(Lock* lock, const void* caller, Named operation, Call call) {
  const Tag tag = TagOf(lock);
  if (!tag.HasClass()) return TakeNew(lock, caller, operation, call);
  const uint32_t flags = perfschema::FlagsIn(tag.flags());
  if (__builtin_expect((flags & perfschema::kFlagEnabled) == 0, 0)) return call();
  if (!tag.HasInstance()) return TakeNew(lock, caller, operation, call);
  pfs_instance_t* const instance = tag.instance();
  if (perfschema::IsContended(flags)) return TakeContended(lock, caller, operation, call, instance, tag.flags());
  return Tag::IsOf(instance, lock) ? TakeBySettings(lock, caller, operation, call) : TakeNew(lock, caller, operation, call);
}
template <typename Lock>
[[gnu::noinline]] int TakeAny(Lock* lock, const void* caller, Operation operation, AnyCall call) {
  return Take(lock, caller, operation, call);
}

template <typename Lock>
[[gnu::noinline]] pfs_instance_t* UntaggedRow(const Lock* lock) {
  using T = Type<Lock>;
  if (RunIsOff() || T::IsShared(lock)) return nullptr;
  if (T::HasTag(lock)) return KnownRow(lock, T::kKind, TagWord(lock));
  const Object* const object = KnownObject(lock, T::kKind);
  return object != nullptr ? object->row.load(std::memory_order_acquire) : nullptr;
}

// Returns the instance of a lock, or nullptr.
template <typename Lock>
[[gnu::always_inline]] inline pfs_instance_t* RowOf(const Lock* lock) {
  const Tag tag = TagOf(lock);
  if (!tag.HasClass()) return UntaggedRow(lock);
  if (__builtin_expect(tag.row() == 0, 0)) return nullptr;
  if (!tag.HasInstance() || !tag.IsOf(tag.instance(), lock)) return UntaggedRow(lock);
  return tag.instance();
}

template <typename Lock, typename Unlock>
[[gnu::noinline]] int ReleaseRare(Lock* lock, Unlock unlock) {
  if (RunIsOff()) return unlock();
  return Released(RowOf(lock), unlock);
}

template <typename Lock>
void Made(Lock* lock, const void* caller) {
  using T = Type<Lock>;
  if (T::IsShared(lock)) return;
  T::HasTag(lock) ? NoteInitTagged(TagWord(lock), caller) : NoteInit(lock, T::kKind, caller);
}

// Before the lock is destroyed: another thread may get the memory as soon as it is.
template <typename Lock>
void Ends(Lock* lock) {
  using T = Type<Lock>;
  if (T::IsShared(lock)) return;
  T::HasTag(lock) ? EndTagged(lock, TagWord(lock)) : EndObject(lock);
}

}  // namespace

pfs_instance_t* perfschema::run::RowOfMutex(const pthread_mutex_t* m) { return RowOf(m); }

// Replaces a function that takes a lock: `lock` is its first parameter.
#define PFS_TAKES(name, parameters, operation, ...)                                                 \
  PFS_REPLACES int name parameters {                                                                \
    return Take(lock, PFS_CALLER, Known<operation>{}, [=] { return PFS_REAL(name)(__VA_ARGS__); }); \
  }
// The same for one that programs seldom call.
#define PFS_TAKES_SELDOM(name, parameters, operation, ...) PFS_TAKES_IF(true, name, parameters, operation, __VA_ARGS__)
// The same for one that takes nothing, whatever the lock is, if its arguments are not legal: that is no event.
#define PFS_TAKES_IF(is_legal, name, parameters, operation, ...)   \
  PFS_REPLACES int name parameters {                               \
    const auto call = [=] { return PFS_REAL(name)(__VA_ARGS__); }; \
    if (!(is_legal)) return call();                                \
    return TakeAny(lock, PFS_CALLER, operation, AnyCall(&call));   \
  }

// ---- Mutexes ---------------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int rc = PFS_REAL(pthread_mutex_init)(m, attributes);
  if (rc == 0) Made(m, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_mutex_destroy(pthread_mutex_t* m) {
  Ends(m);
  return PFS_REAL(pthread_mutex_destroy)(m);
}

PFS_TAKES(pthread_mutex_lock, (pthread_mutex_t * lock), Operation::kLock, lock)
PFS_TAKES(pthread_mutex_trylock, (pthread_mutex_t * lock), Operation::kTryLock, lock)
PFS_TAKES_SELDOM(pthread_mutex_timedlock, (pthread_mutex_t * lock, const timespec* deadline), Operation::kTimedLock, lock, deadline)
PFS_TAKES_IF(IsWaitClock(clock), pthread_mutex_clocklock, (pthread_mutex_t * lock, clockid_t clock, const timespec* deadline),
             Operation::kTimedLock, lock, clock, deadline)

PFS_REPLACES int pthread_mutex_unlock(pthread_mutex_t* m) {
  const auto unlock = [=] { return PFS_REAL(pthread_mutex_unlock)(m); };
  const Tag tag = TagOf(m);
  if (!tag.HasClass()) return ReleaseRare(m, unlock);
  if (!tag.HasInstance()) return tag.row() == 0 ? unlock() : ReleaseRare(m, unlock);  // 0: none has been made
  // A mutex of the default type cannot fail to be released: nothing is kept over the call.
  if (Tag::IsOf(tag.instance(), m) && m->__data.__kind == PTHREAD_MUTEX_TIMED_NP) {
    pfs_instance_t* const row = tag.instance();
    if (const uint64_t owner = pfs_owner_(row); owner != 0 && !pfs_owner_is_rare_(owner)) {
      pfs_owner_forget_(row);
      return unlock();
    }
  }
  return ReleaseRare(m, unlock);
}

PFS_REPLACES int mtx_init(mtx_t* m, int type) {
  const int rc = PFS_REAL(mtx_init)(m, type);
  if (rc == thrd_success) Made(m, PFS_CALLER);
  return rc;
}

PFS_REPLACES void mtx_destroy(mtx_t* m) {
  Ends(m);
  PFS_REAL(mtx_destroy)(m);
}

PFS_TAKES_SELDOM(mtx_lock, (mtx_t * lock), Operation::kLock, lock)
PFS_TAKES_SELDOM(mtx_trylock, (mtx_t * lock), Operation::kTryLock, lock)
PFS_TAKES_SELDOM(mtx_timedlock, (mtx_t * lock, const timespec* deadline), Operation::kTimedLock, lock, deadline)

PFS_REPLACES int mtx_unlock(mtx_t* m) {
  return ReleaseRare(m, [=] { return PFS_REAL(mtx_unlock)(m); });
}

// ---- Spinlocks: mutexes to the tables ----------------------------------------------------------------------------------------------
//
// They have no tag. glibc does not keep whether one is shared: shared ones are recorded, too.

PFS_REPLACES int pthread_spin_init(pthread_spinlock_t* spin, int shared) {
  const int rc = PFS_REAL(pthread_spin_init)(spin, shared);
  if (rc == 0) NoteInit(const_cast<const int*>(spin), Kind::kSpin, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_spin_destroy(pthread_spinlock_t* spin) {
  EndObject(const_cast<const int*>(spin));
  return PFS_REAL(pthread_spin_destroy)(spin);
}

#define PFS_TAKES_SPIN(name, operation)                                                                                 \
  PFS_REPLACES int name(pthread_spinlock_t* spin) {                                                                     \
    const void* const caller = PFS_CALLER;                                                                              \
    const auto call = [=] { return PFS_REAL(name)(spin); };                                                             \
    if (RunIsOff()) return call();                                                                                      \
    return LockedObject(                                                                                                \
        ObjectAt(const_cast<const int*>(spin), Kind::kSpin, caller), [=] { return SourceAt(caller); }, operation, call, \
        [=] { return PFS_REAL(pthread_spin_trylock)(spin); });                                                          \
  }
PFS_TAKES_SPIN(pthread_spin_lock, Operation::kLock)
PFS_TAKES_SPIN(pthread_spin_trylock, Operation::kTryLock)

PFS_REPLACES int pthread_spin_unlock(pthread_spinlock_t* spin) {
  const Object* const object = KnownObject(const_cast<const int*>(spin), Kind::kSpin);
  return Released(object != nullptr ? object->row.load(std::memory_order_acquire) : nullptr,
                  [=] { return PFS_REAL(pthread_spin_unlock)(spin); });
}

// ---- Read-write locks --------------------------------------------------------------------------------------------------------------

PFS_REPLACES int pthread_rwlock_init(pthread_rwlock_t* rw, const pthread_rwlockattr_t* attributes) {
  const int rc = PFS_REAL(pthread_rwlock_init)(rw, attributes);
  if (rc == 0) Made(rw, PFS_CALLER);
  return rc;
}

PFS_REPLACES int pthread_rwlock_destroy(pthread_rwlock_t* rw) {
  Ends(rw);
  return PFS_REAL(pthread_rwlock_destroy)(rw);
}

namespace {

auto ReadLockCall(pthread_rwlock_t* rw) {
  return [=] { return PFS_REAL(pthread_rwlock_rdlock)(rw); };
}
using ReadOperation = TaggedOperation<Known<Operation::kReadLock>, pthread_rwlock_t, decltype(ReadLockCall(nullptr))>;

[[gnu::noinline]] int TakeRead(pthread_rwlock_t* rw, const void* caller) {
  return Take(rw, caller, Known<Operation::kReadLock>{}, ReadLockCall(rw));
}

// Does what TriedLock() does after an attempt that was not common.
[[gnu::noinline]] int FinishRead(pthread_rwlock_t* rw, const void* caller, int rc, perfschema::ShmInstance* instance) {
  const SourceLine at = SourceAt(caller);
  const ReadOperation operation{rw, ReadLockCall(rw), {}};
  if (rc != 0) return perfschema::SlowLockOperation(operation, at.file, at.line, Operation::kReadLock);
  const uint32_t class_index = instance->class_index.load(std::memory_order_relaxed);
  return perfschema::FinishUncontendedLock(*perfschema::t_locals.state, perfschema::kAllOnFlags, class_index, *instance,
                                           perfschema::Hold::kShared, 0);
}

// The end of a read lock that was free.
struct ReadEvent : perfschema::LockHooks {
  // As LockEvent has it for an operation that others may have made, too.
  template <perfschema::Counting kWay>
  PFS_ALWAYS_INLINE bool MustEnter() const {
    return true;
  }
};

// As Take() and TakeContended(), in one function that keeps few registers.
[[gnu::noinline]] int TakeReadByTag(pthread_rwlock_t* rw, const void* caller) {
  using perfschema::FlagsIn, perfschema::ShmInstance, perfschema::ThreadState;
  const Tag tag = TagOf(rw);
  if (!tag.HasInstance() || !Tag::IsOf(tag.instance(), rw)) return TakeRead(rw, caller);
  ShmInstance* const instance = AsInstance(tag.instance());
  const uint32_t class_index = instance->class_index.load(std::memory_order_relaxed);
  const perfschema::HalfWord& flag_word = g_tags.classes.load(std::memory_order_relaxed)[class_index].flags;
  const uint32_t flags = flag_word.load(std::memory_order_relaxed);
  ThreadState* const thread = perfschema::t_locals.state;
  if (!perfschema::IsContended(flags) || !perfschema::IsInstrumented(thread)) return TakeRead(rw, caller);
  const int rc = PFS_REAL(pthread_rwlock_tryrdlock)(rw);
  const ReadEvent event{{Operation::kReadLock, perfschema::Hold::kShared, *instance}};
  if (__builtin_expect(rc == 0, 1) && perfschema::CountUnrecorded<perfschema::Counting::kOfZero>(event, *thread, class_index, 0)) {
    NoteRead(*thread, rw, *instance, flag_word, flags);
    return 0;
  }
  return FinishRead(rw, caller, rc, instance);
}

}  // namespace

PFS_REPLACES int pthread_rwlock_rdlock(pthread_rwlock_t* rw) {
  using perfschema::KnownRead, perfschema::ThreadState;
  ThreadState* const thread = perfschema::FreeThread();
  if (!kKnowsReads || thread == nullptr) return TakeReadByTag(rw, PFS_CALLER);
  const uint64_t word = TagWord(rw).load();
  KnownRead& read = PlaceOfRead(*thread, word);
  perfschema::EnterProbe(*thread, 0);
  if (!IsOfRead(read, word, rw) || !MayCountRead(read, *thread)) {
    perfschema::LeaveProbe(*thread, 0);
    return TakeReadByTag(rw, PFS_CALLER);
  }
  const int rc = PFS_REAL(pthread_rwlock_tryrdlock)(rw);
  const bool is_counted = __builtin_expect(rc == 0, 1) && CountKnownRead(read);
  perfschema::LeaveProbe(*static_cast<ThreadState*>(read.thread), 0);  // cheaper than to keep it over the call
  if (__builtin_expect(is_counted, 1)) return 0;
  perfschema::ShmInstance* const instance = read.instance;
  return FinishRead(reinterpret_cast<pthread_rwlock_t*>(instance->identity.load(std::memory_order_relaxed)), PFS_CALLER, rc, instance);
}
PFS_TAKES_SELDOM(pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), Operation::kTryReadLock, lock)
PFS_TAKES_IF(IsMoment(CLOCK_REALTIME, deadline), pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const timespec* deadline),
             Operation::kTimedReadLock, lock, deadline)
PFS_TAKES_IF(IsMoment(clock, deadline), pthread_rwlock_clockrdlock, (pthread_rwlock_t * lock, clockid_t clock, const timespec* deadline),
             Operation::kTimedReadLock, lock, clock, deadline)
PFS_TAKES(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), Operation::kWriteLock, lock)
PFS_TAKES_SELDOM(pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), Operation::kTryWriteLock, lock)
PFS_TAKES_IF(IsMoment(CLOCK_REALTIME, deadline), pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const timespec* deadline),
             Operation::kTimedWriteLock, lock, deadline)
PFS_TAKES_IF(IsMoment(clock, deadline), pthread_rwlock_clockwrlock, (pthread_rwlock_t * lock, clockid_t clock, const timespec* deadline),
             Operation::kTimedWriteLock, lock, clock, deadline)

namespace {

// As pfs_rwlock_unlock().
[[gnu::noinline]] int ReleaseRwlock(pthread_rwlock_t* rw) {
  pfs_instance_t* const row = RowOf(rw);
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

}  // namespace

namespace {

// The lock is let go by a tail call: glibc refuses none that is held.
[[gnu::noinline]] int ReleaseByTag(pthread_rwlock_t* rw) {
  const Tag tag = TagOf(rw);
  if (tag.HasInstance() && Tag::IsOf(tag.instance(), rw)) {
    pfs_instance_t* const row = tag.instance();
    const uint64_t owner = pfs_owner_(row);
    if (owner == 0 && pfs_has_readers_(row) && perfschema::ReleaseSharedFast(*AsInstance(row))) {
      return PFS_REAL(pthread_rwlock_unlock)(rw);
    }
    if (owner != 0 && !pfs_owner_is_rare_(owner)) {
      pfs_owner_forget_(row);
      return PFS_REAL(pthread_rwlock_unlock)(rw);
    }
  }
  return ReleaseRwlock(rw);
}

}  // namespace

PFS_REPLACES int pthread_rwlock_unlock(pthread_rwlock_t* rw) {
  return ReleaseKnownRead(rw) ? PFS_REAL(pthread_rwlock_unlock)(rw) : ReleaseByTag(rw);
}
