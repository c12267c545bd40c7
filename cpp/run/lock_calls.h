// run/lock_calls.h: makes the event of an operation on a lock around the C library's function.
#pragma once

#include "record/family/lock_events.h"
#include "run/objects.h"

namespace perfschema::run {

// Is what LockOperation() needs of an object, in registers.
struct Probed {
  const Object* entry;
  pfs_instance_t* instance;
  const uint32_t* flags;
};
inline uint64_t AddressOf(const Probed* probed) { return AddressOf(probed->entry); }

// Makes the event of an operation, or the plain call if `object` is nullptr. `call` waits; `attempt` does not.
// `source` returns the SourceLine.
template <typename Source, typename Call, typename Attempt>
[[gnu::always_inline]] inline int Locked(const Object* object, Source source, Operation operation, Call call, Attempt attempt_call) {
  if (object == nullptr) return call();
  struct Operate {
    const Probed* object;
    Call call;
    Attempt attempt_call;
    int operator()() const { return call(); }
    int attempt() const { return attempt_call(); }
  };
  const Probed probed{object, object->row.load(std::memory_order_relaxed), object->flags.load(std::memory_order_relaxed)};
  const SourceLine at = source();
  return LockOperation(Operate{&probed, call, attempt_call}, at.file, at.line, operation);
}

// Releases an exclusive lock: the row has no owner from here on.
template <typename Unlock>
[[gnu::always_inline]] inline int Released(pfs_instance_t* row, Unlock unlock) {
  const uint64_t owner = pfs_owner_(row);
  if (__builtin_expect(owner != 0, 1)) {
    if (pfs_owner_is_rare_(owner)) return perfschema::RareUnlock(row, unlock);
    pfs_owner_forget_(row);
  }
  const int rc = unlock();
  if (__builtin_expect(rc != 0, 0)) pfs_owner_restore_(row, owner);
  return rc;
}

}  // namespace perfschema::run
