// run/calls/lock_calls.h: makes the event of an operation on a lock around the C library's function.
#pragma once

#include "record/family/lock_events.h"
#include "run/calls/objects.h"
#include "run/loader/real.h"

namespace perfschema::run {

// An operation on an object of the map, as the templates of record/family/lock_events.h want it. `call` waits; `attempt_call` does not.
template <typename Call, typename Attempt>
struct ObjectOperation {
  const Object* object;
  pfs_instance_t* row;
  Call call;
  Attempt attempt_call;

  PFS_ALWAYS_INLINE int operator()() const { return call(); }
  PFS_ALWAYS_INLINE int attempt() const { return attempt_call(); }
  PFS_ALWAYS_INLINE pfs_instance_t* instance() const { return row; }
  PFS_ALWAYS_INLINE const uint32_t* flag_word() const { return object->flags.load(std::memory_order_relaxed); }
  PFS_ALWAYS_INLINE uint64_t address() const { return object->address.load(std::memory_order_relaxed); }
  static constexpr bool IsOf(const ShmInstance&) { return true; }
  static int OnOther(const char*, int rc) { return rc; }
  static const char* UserAt(const char* file, uint32_t line) {
    return line == kIsCode ? static_cast<const char*>(perfschema::run::UserAt(file)) : file;
  }
};

// Makes the event of an operation on an object of the map. nullptr = the plain call. `source` returns the SourceLine.
template <typename Source, typename Call, typename Attempt>
[[gnu::always_inline]] inline int LockedObject(Object* object, Source source, Operation operation, Call call, Attempt attempt) {
  if (!IsInstrumented(object)) return call();
  const SourceLine at = source();
  pfs_instance_t* const row = object->row.load(std::memory_order_relaxed);
  return LockOperation(ObjectOperation<Call, Attempt>{object, row, call, attempt}, at.file, at.line, operation);
}

// Releases an exclusive lock: the row has no owner from here on. `row` may be nullptr.
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
