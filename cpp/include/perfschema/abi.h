/* perfschema/abi.h: the few structs that the inline probes of pfs.h touch.
 *
 * Frozen per ABI version: a program compiled against this header runs with any libperfschema of the same
 * PFS_ABI_VERSION. C11 and C++17. Includes nothing of pfs.
 */
#ifndef PERFSCHEMA_ABI_H
#define PERFSCHEMA_ABI_H

#if !defined(__linux__)
#error "perfschema supports Linux only (x86-64, arm64)."
#endif
#if !defined(__GNUC__)
#error "perfschema needs gcc or clang."
#endif
#if (!defined(__x86_64__) && !defined(__aarch64__)) || defined(__ILP32__)
#error "perfschema supports x86-64 and arm64 only."
#endif

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PFS_ABI_VERSION 1

#if defined(PFS_BUILDING_LIBRARY)
#define PFS_API __attribute__((visibility("default")))
#elif defined(__has_attribute)
#if __has_attribute(noplt) /* a call goes through the address itself: one jump less for each event */
#define PFS_API __attribute__((noplt))
#else
#define PFS_API
#endif
#else
#define PFS_API
#endif

/* An instrumented object as its probes see it: one cache line in the segment. Threads: any thread accesses `flags` and `owner` with
 * relaxed atomics; the rest belongs to the library. */
typedef struct pfs_instance {
  uint32_t flags;         /* what to do with an event of this object; 0 = nothing (see PFS_FLAG_ENABLED) */
  uint32_t reserved_a;    /* class */
  uint64_t reserved_b[5]; /* statistics */
  uint64_t owner;         /* THREAD_ID of the holder (low 47 bits), PFS_OWNER_HOLD_, depth of recursive locking (high 16); 0 = free */
  uint64_t identity;      /* OBJECT_INSTANCE_BEGIN */
} __attribute__((aligned(64))) pfs_instance_t;

/* An open table as its probes see it. The library keeps more behind it. Threads: as pfs_instance. */
typedef struct pfs_table {
  const uint32_t* flags; /* [0] for operations on rows, [1] for locks; as pfs_instance.flags */
} pfs_table_t;

/* A metadata lock as its probes see it. */
typedef struct pfs_metadata_lock {
  uint32_t flags;
} pfs_metadata_lock_t;

/* Bits of pfs_instance.flags. PFS_FLAG_ENABLED: the object's events are instrumented. */
#define PFS_FLAG_ENABLED 1u
/* Threads have counted operations of the object that exclude no other thread, such as read locks; a release may belong to one. Never
 * cleared. */
#define PFS_FLAG_SHARED (1u << 17)
/* Consumer lock_holds: the library measures how long the object is held. */
#define PFS_FLAG_HOLDS (1u << 13)

/* Bit of pfs_instance.owner: the library measures this hold, and must hear of its end. */
#define PFS_OWNER_HOLD_ (UINT64_C(1) << 47)

/* Returns 1 if a probe of this object has work to do. A disabled probe costs only this load, test and branch. */
static inline int pfs_enabled_(const pfs_instance_t* instance) {
  return __builtin_expect(instance != 0 && (__atomic_load_n(&instance->flags, __ATOMIC_RELAXED) & PFS_FLAG_ENABLED) != 0, 1) != 0;
}

/* Does the same for a pfs_mutex_t, which points to the flag word of its instrument: that word is in the cache when the mutex's own line
 * may not be. */
static inline int pfs_flags_enabled_(const uint32_t* flags) {
  return __builtin_expect(flags != 0 && (__atomic_load_n(flags, __ATOMIC_RELAXED) & PFS_FLAG_ENABLED) != 0, 1) != 0;
}

/* Returns 1 if the object is known to be held exclusively. */
static inline int pfs_has_owner_(const pfs_instance_t* instance) {
  return instance != 0 && __atomic_load_n(&instance->owner, __ATOMIC_RELAXED) != 0;
}

/* Returns 1 if a read lock that is released may have been counted. */
static inline int pfs_has_readers_(const pfs_instance_t* instance) {
  return instance != 0 && (__atomic_load_n(&instance->flags, __ATOMIC_RELAXED) & PFS_FLAG_SHARED) != 0;
}

/* Returns the owner word after one release. */
static inline uint64_t pfs_owner_below_(uint64_t owner) {
  const uint64_t one_level = UINT64_C(1) << 48;
  return owner >= one_level ? owner - one_level : 0;
}

/* Ends a hold that is measured, and forgets the holder. `owner`: the owner word. Returns it without PFS_OWNER_HOLD_: if the release fails,
 * the rest of the hold does not count. */
PFS_API uint64_t pfs_hold_end_(pfs_instance_t* instance, uint64_t owner);
/* Begins a hold of a lock that its holder has taken back after a wait for a condition. */
PFS_API void pfs_hold_resume_(pfs_instance_t* instance, const char* file, uint32_t line);
static inline int pfs_measures_holds_(const pfs_instance_t* instance) {
  return instance != 0 && (__atomic_load_n(&instance->flags, __ATOMIC_RELAXED) & PFS_FLAG_HOLDS) != 0;
}

/* Returns the owner word. */
static inline uint64_t pfs_owner_(const pfs_instance_t* instance) {
  return instance != 0 ? __atomic_load_n(&instance->owner, __ATOMIC_RELAXED) : 0;
}

/* Returns 1 if the library releases the lock: its holder holds it several times, or the hold is measured. The inline release keeps fewer
 * values than if it called the library in between. */
static inline int pfs_owner_is_rare_(uint64_t owner) { return __builtin_expect(owner >= PFS_OWNER_HOLD_, 0) != 0; }

/* Forgets the holder of a lock that is about to be released. REQUIRES: there is one, and it is not rare. */
static inline void pfs_owner_forget_(pfs_instance_t* instance) { __atomic_store_n(&instance->owner, 0, __ATOMIC_RELAXED); }

/* Does both. Returns the value that pfs_owner_restore_ needs if the release fails. */
static inline uint64_t pfs_owner_release_(pfs_instance_t* instance) {
  uint64_t owner = pfs_owner_(instance);
  if (__builtin_expect(owner != 0, 1)) {
    uint64_t below = 0;
    if (pfs_owner_is_rare_(owner)) {
      below = pfs_owner_below_(owner);
      if (below == 0) return pfs_hold_end_(instance, owner);
    }
    __atomic_store_n(&instance->owner, below, __ATOMIC_RELAXED);
  }
  return owner;
}

/* Restores the holder after a release that failed (an error-checking mutex unlocked by another thread). */
static inline void pfs_owner_restore_(pfs_instance_t* instance, uint64_t owner) {
  uint64_t released = pfs_owner_below_(owner);
  if (owner != 0) __atomic_compare_exchange_n(&instance->owner, &released, owner, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_ABI_H */
