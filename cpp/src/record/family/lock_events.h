// record/family/lock_events.h: operations on locks, by their settings: everything is on, timed or not; timed only; counted only; recorded
// only if the lock is contended (TIMED = 'CONTENDED'), or now and then (TIMED = 'SAMPLED'). All of them take a fast path
// (record/probe/fast_path.h).
#pragma once

#include <bit>
#include <type_traits>

#include "record/family/holds.h"
#include "record/family/locks.h"
#include "record/probe/fast_path.h"

namespace perfschema {

// What a probe asks of an operation's object, a pfs_mutex_t, pfs_rwlock_t ...: its instance, its flag word and its address.
// libperfschema-run.so, whose objects are the program's own, has others of the kind.
template <typename Object>
struct OnObject {
  Object* object;
  PFS_ALWAYS_INLINE pfs_instance* instance() const { return object->instance; }
  PFS_ALWAYS_INLINE const uint32_t* flag_word() const { return object->flags; }
  PFS_ALWAYS_INLINE uint64_t address() const { return reinterpret_cast<uintptr_t>(object); }

  // For an instance that is known to be the object's only when its line has come: after the attempt. Then OnOther() does the rest.
  static constexpr bool IsOf(const ShmInstance&) { return true; }
  static int OnOther(const char*, int rc) { return rc; }
  // Returns the SOURCE of an event on the slow path, as a wait is.
  static constexpr const char* UserAt(const char* file, uint32_t) { return file; }
};

// The operation of a lock that a probe is around. Both return what pthread functions do; attempt() does not wait.
template <typename Object, int (*kOperate)(Object*), int (*kAttempt)(Object*)>
struct LockCall : OnObject<Object> {
  PFS_ALWAYS_INLINE int operator()() const { return kOperate(this->object); }
  PFS_ALWAYS_INLINE int attempt() const { return kAttempt(this->object); }
};

PFS_ALWAYS_INLINE uint32_t FlagsIn(const uint32_t* flag_word) { return __atomic_load_n(flag_word, __ATOMIC_RELAXED); }

// Does the whole operation on the slow path.
// (The order of the arguments is that of the callers: they need not be moved.)
template <typename Operate>
[[gnu::noinline]] int SlowLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  const LockProbe probe(operate.instance(), operate.flag_word(), operation);
  const uint32_t flags = probe.entry.flags.load(kRelaxed);
  Wait wait;
  const uint64_t identity = operate.address();
  if ((flags & kFlagEnabled) == 0 || !BeginWait(wait, flags, probe.entry.index, operation, identity, operate.UserAt(file, line), line)) {
    return operate();
  }
  const int rc = operate();
  const EndedWait ended = EndWait(wait);
  if (!IsHeld(rc, HoldAfter(operation))) CountFailedWait(wait, operation, ended, rc);
  FinishLockWait(wait, ended, probe.instance, HoldAfter(operation), rc);
  return rc;
}

// Finishes an event on the slow path, from the second reading of the timer on. REQUIRES: inside the probe. Returns `rc`.
[[gnu::noinline]] int FinishSlowLock(ThreadState& thread, ShmWaitRecord& record, ShmInstance& object, Hold wanted, int rc,
                                     uint64_t end_ticks);
// The same for an event without a record, outside the probe. `ticks`: kNotTimed, kNotSampled, or how long it took.
[[gnu::noinline]] int FinishUnrecordedLock(ThreadState& thread, uint32_t class_index, ShmInstance& object, Operation operation, int rc,
                                           uint64_t ticks);
// The same for a lock that was not contended.
[[gnu::noinline]] int FinishUncontendedLock(ThreadState& thread, uint32_t flags, uint32_t class_index, ShmInstance& object, Hold wanted,
                                            int rc);

PFS_ALWAYS_INLINE ShmStat& StatOf(const LockStat& stat) { return stat.stat; }

// The hooks of the fast path for the end of an operation on a lock.
struct LockHooks {
  static constexpr uintptr_t kPlaces = 1;
  static constexpr uint64_t kEndBits = 0;

  Operation called;
  Hold hold;
  ShmInstance& instance;
  int rc = 0;

  PFS_ALWAYS_INLINE LockHooks(Operation operation, Hold hold_after, ShmInstance& object, int result = 0)
      : called(operation), hold(hold_after), instance(object), rc(result) {}

  PFS_ALWAYS_INLINE Operation operation() const { return called; }
  // Where the operation is a constant, so is this: no register need hold it.
  PFS_ALWAYS_INLINE Hold wanted() const { return __builtin_constant_p(called) ? HoldAfter(called) : hold; }
  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord&) const {}

  PFS_ALWAYS_INLINE LockStat StatIn(ThreadState& thread) const { return LockStat::Of(thread, instance, wanted()); }
  // The exclusive holder is known: a recursive lock that this thread held already is uncommon.
  PFS_ALWAYS_INLINE bool IsReady(ThreadState& thread, const LockStat& stat) const {
    return rc == 0 && stat.AreReady(thread, instance, wanted()) && (wanted() != Hold::kExclusive || LoadOwn(instance.owner) == 0);
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState& thread, const LockStat& stat, ShmCell& own, uint64_t wait_ps) const {
    if (wanted() == Hold::kExclusive) {
      instance.owner.store(thread.thread_id, kRelaxed);
    } else {
      AddHeld(*SharedCellOf(thread, instance));
    }
    AddOneFast<kWay>(stat.seq, stat.stat, wait_ps);
    AddOneFast<kWay>(own.seq, own.stat, wait_ps);
  }
};

// The hooks for a wait of the user's own.
struct OwnLockHooks : LockHooks {
  using LockHooks::LockHooks;

  PFS_ALWAYS_INLINE uint32_t class_index() const { return instance.class_index.load(kRelaxed); }
  PFS_ALWAYS_INLINE uint64_t object() const { return instance.identity.load(kRelaxed); }
};

// The hooks for a whole operation.
template <typename Operate>
struct LockEvent : LockHooks {
  static constexpr bool kMayUnwind = false;  // no call is a cancellation point
  using Bits = std::conditional_t<sizeof(Operate) == sizeof(uint64_t), uint64_t, Operate>;

  Operate operate;
  const ShmClass& entry;

  PFS_ALWAYS_INLINE LockEvent(Operate what, Operation operation, const LockProbe& probe)
      : LockHooks(operation, HoldAfter(operation), probe.instance), operate(what), entry(probe.entry) {}

  PFS_ALWAYS_INLINE uint32_t class_index() const { return entry.index; }
  PFS_ALWAYS_INLINE uint64_t object() const { return operate.address(); }

  PFS_ALWAYS_INLINE int Call() const { return operate(); }
  PFS_ALWAYS_INLINE void SetResult(int result) { rc = result; }
  // A signal handler of this thread cannot have the lock that we hold, and adds to the thread's cell before or after us.
  template <Counting kWay>
  PFS_ALWAYS_INLINE bool MustEnter() const {
    return kWay == Counting::kTimed || !kCountsAtOnce || wanted() != Hold::kExclusive;
  }
  PFS_ALWAYS_INLINE int SlowCall(const char* file, uint32_t line) const {
    return SlowLockOperation(std::bit_cast<Operate>(std::bit_cast<Bits>(operate)), file, line, called);
  }
  PFS_ALWAYS_INLINE int FinishSlow(ThreadState& thread, ShmWaitRecord& record, uint64_t end_ticks, int result) const {
    return FinishSlowLock(thread, record, instance, wanted(), result, end_ticks);
  }
  PFS_ALWAYS_INLINE int FinishUnrecorded(ThreadState& thread, uint64_t ticks, int result) const {
    return FinishUnrecordedLock(thread, class_index(), instance, called, result, ticks);
  }
};

// TIMED = 'SAMPLED' did not choose the event: it counts in the thread's cell of the object, whatever the operation is.
template <typename Hooks>
struct UnsampledLock : Hooks {
  using Hooks::Hooks, Hooks::instance, Hooks::wanted;
  PFS_ALWAYS_INLINE explicit UnsampledLock(const Hooks& hooks) : Hooks(hooks) {}

  PFS_ALWAYS_INLINE ShmCell* StatIn(ThreadState& thread) const {
    ShmCell*& known = SharedCellOf(thread, instance);
    if (IsSharedCell(*known, thread, instance)) return known;
    ShmCell* const own = OwnCellAtHead(thread, ListOf(instance).cells);
    if (own != nullptr) known = own;
    return own;
  }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    return this->rc == 0 && cell != nullptr && LoadOwn(cell->gen) == Generation(ObjectDomain(ResetGroup::kSync)) &&
           (wanted() != Hold::kExclusive || LoadOwn(instance.owner) == 0);
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState& thread, ShmCell* cell, ShmCell& own, uint64_t) const {
    if (wanted() == Hold::kExclusive) {
      instance.owner.store(thread.thread_id, kRelaxed);
    } else {
      AddHeld(*cell);
    }
    AddUnsampledToAmount(*cell);
    AddUnsampledToAmount(own);
  }
  PFS_ALWAYS_INLINE int FinishUnrecorded(ThreadState& thread, uint64_t, int result) const {
    return FinishUnrecordedLock(thread, this->class_index(), instance, this->called, result, kNotSampled);
  }
};
template <>
struct UnsampledEnd<OwnLockHooks> : UnsampledLock<OwnLockHooks> {
  using UnsampledLock::UnsampledLock;
};

template <typename Operate>
[[gnu::noinline]] int SampledLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  if (!IsBetweenSamples()) return SlowLockOperation(operate, file, line, operation);
  UnsampledLock<LockEvent<Operate>> event(operate, operation, LockProbe(operate.instance(), operate.flag_word(), operation));
  return UnrecordedCall<Counting::kCounted>(event, file, line);
}

template <Counting kWay, typename Operate>
[[gnu::noinline]] int UnrecordedLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  const LockProbe probe(operate.instance(), operate.flag_word(), operation);
  LockEvent<Operate> event(operate, operation, probe);
  return UnrecordedCall<kWay>(event, file, line);
}

template <typename Operate>
[[gnu::noinline]] int UntimedLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  const LockProbe probe(operate.instance(), operate.flag_word(), operation);
  LockEvent<Operate> event(operate, operation, probe);
  return FastCall<Untimed>(event, FlagsIn(operate.flag_word()), file, line);
}

// TIMED = 'CONTENDED': the probe tries the lock first. A try that succeeds is a wait of zero; a lock that must be waited for is an event
// like others.
constexpr bool IsContended(uint32_t flags) {
  return (flags & (kFlagContended | kFlagEnabled | kFlagThread | kFlagDead | kFlagHolds)) == (kFlagContended | kFlagEnabled | kFlagThread);
}

// Handles the uncommon cases: a thread's first event, an event that comes into a probe or has no thread, no thread_instrumentation.
template <typename Operate>
[[gnu::noinline]] int SlowTriedLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  ShmInstance& object = *AsInstance(operate.instance());
  const uint32_t flags = FlagsIn(operate.flag_word());
  // Looked up once: a thread that finds no free slot is counted each time.
  ThreadState* const thread = (flags & kFlagEnabled) != 0 ? CurrentThread() : nullptr;
  if (thread == nullptr) return operate();
  const bool is_instrumented = (flags & kFlagThread) == 0 || (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) != 0;
  if (is_instrumented && !thread->inside()) {
    const Hold wanted = HoldAfter(operation);
    const int rc = operate.attempt();
    if (IsHeld(rc, wanted) || IsTry(operation)) {
      if (!IsHeld(rc, wanted)) CountCallWithoutEvent(object.class_index.load(kRelaxed), operation, rc, file, line);
      return FinishUncontendedLock(*thread, flags, object.class_index.load(kRelaxed), object, wanted, rc);
    }
  }
  return SlowLockOperation(operate, file, line, operation);
}

// REQUIRES: IsContended().
template <typename Operate>
PFS_ALWAYS_INLINE int TriedLock(Operate operate, const LockProbe& probe, const char* file, uint32_t line, Operation operation) {
  LockEvent<Operate> event(operate, operation, probe);
  ThreadState* const thread = t_locals.state;
  if (!IsInstrumented(thread)) return SlowTriedLockOperation(operate, file, line, operation);
  const int rc = operate.attempt();
  if (__builtin_expect(!operate.IsOf(event.instance), 0)) return operate.OnOther(file, rc);
  if (__builtin_expect(!IsHeld(rc, event.wanted()) && !IsTry(operation), 0)) return SlowLockOperation(operate, file, line, operation);
  event.SetResult(rc);
  const uint32_t class_index = event.instance.class_index.load(kRelaxed);
  if (!CountUnrecorded<Counting::kOfZero>(event, *thread, class_index, 0)) {
    if (!IsHeld(rc, event.wanted())) CountCallWithoutEvent(class_index, operation, rc, file, line);
    return FinishUncontendedLock(*thread, kAllOnFlags, class_index, event.instance, event.wanted(), rc);
  }
  return rc;
}
template <typename Operate>
[[gnu::noinline]] int TriedLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  return TriedLock(operate, LockProbe(operate.instance(), operate.flag_word(), operation), file, line, operation);
}

// Consumer lock_holds: the hold begins after the event has ended, whatever its settings.
template <typename Operate>
[[gnu::noinline]] int HeldLockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  const uint32_t flags = FlagsIn(operate.flag_word());
  int rc;
  if (IsAllOn(flags & ~kFlagHolds)) {
    LockEvent<Operate> event(operate, operation, LockProbe(operate.instance(), operate.flag_word(), operation));
    rc = FastCall(event, flags, file, line);
  } else if ((flags & kFlagContended) != 0) {
    rc = SlowTriedLockOperation(operate, file, line, operation);
  } else {
    rc = SlowLockOperation(operate, file, line, operation);
  }
  if (HoldAfter(operation) == Hold::kExclusive && IsHeld(rc)) BeginHold(*AsInstance(operate.instance()), file, line);
  return rc;
}

// Chooses the path. Keeps nothing itself, and every path reads again what it needs: a register that is saved on the way is a store that the
// locked instruction of the operation waits for.
template <typename Operate>
[[gnu::noinline]] int LockOperationBySettings(Operate operate, const char* file, uint32_t line, Operation operation) {
  const uint32_t flags = FlagsIn(operate.flag_word());
  // Also with kFlagContended: TIMED = 'STATE' without events_waits_current.
  if (IsCounted(flags)) return UnrecordedLockOperation<Counting::kCounted>(operate, file, line, operation);
  if (IsContended(flags)) return TriedLockOperation(operate, file, line, operation);
  const uint32_t settings = flags & kSettings;
  if (settings == kTimedOnlyFlags) return UnrecordedLockOperation<Counting::kTimed>(operate, file, line, operation);
  if (settings == kUntimedFlags) return UntimedLockOperation(operate, file, line, operation);
  if ((flags & kFlagHolds) != 0) return HeldLockOperation(operate, file, line, operation);
  if (IsSampled(flags)) return SampledLockOperation(operate, file, line, operation);
  if ((flags & kFlagContended) != 0) return SlowTriedLockOperation(operate, file, line, operation);
  return SlowLockOperation(operate, file, line, operation);
}

// Does the operation, as an event if its instrument is enabled.
template <typename Operate>
PFS_ALWAYS_INLINE int LockOperation(Operate operate, const char* file, uint32_t line, Operation operation) {
  const uint32_t flags = FlagsIn(operate.flag_word());
  if (__builtin_expect(!IsAllOn(flags), 0)) return LockOperationBySettings(operate, file, line, operation);
  // The compiler saves what is kept over the operation from here on, and not before the branch above.
  const LockProbe probe(Launder(operate.instance()), operate.flag_word(), operation);
  LockEvent<Operate> event(operate, operation, probe);
  return FastCall(event, flags, file, line);
}

// Releases a lock whose holder holds it several times, or whose hold is measured. `unlock()` does what pthread functions do.
// Cold: among the code of the operations it would cost them cache lines.
template <typename Unlock>
[[gnu::noinline, gnu::cold]] int RareUnlock(pfs_instance_t* instance, Unlock unlock) {
  const uint64_t owner = pfs_owner_release_(instance);
  const int rc = unlock();
  if (rc != 0) pfs_owner_restore_(instance, owner);
  return rc;
}

}  // namespace perfschema
