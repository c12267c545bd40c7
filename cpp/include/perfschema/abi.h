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
#else
#define PFS_API
#endif

/* Is an instrumented object as its probes see it: one cache line in the segment. Threads: any thread accesses `flags` and `owner` with
 * relaxed atomics; the rest belongs to the library. */
typedef struct pfs_instance {
  uint32_t flags;         /* what to do with an event of this object; 0 = nothing (see PFS_FLAG_ENABLED) */
  uint32_t reserved_a;    /* class */
  uint64_t reserved_b[5]; /* statistics */
  uint64_t owner;         /* THREAD_ID of the holder (low 48 bits), depth of recursive locking (high 16); 0 = free */
  uint64_t identity;      /* OBJECT_INSTANCE_BEGIN */
} __attribute__((aligned(64))) pfs_instance_t;

/* Is an open table as its probes see it. The library keeps more behind it. Threads: as pfs_instance. */
typedef struct pfs_table {
  const uint32_t* flags; /* [0] for operations on rows, [1] for locks; as pfs_instance.flags */
} pfs_table_t;

/* Is a metadata lock as its probes see it. */
typedef struct pfs_metadata_lock {
  uint32_t flags;
} pfs_metadata_lock_t;

/* Bits of pfs_instance.flags. PFS_FLAG_ENABLED: the object's events are instrumented. */
#define PFS_FLAG_ENABLED 1u
/* Threads have counted operations of the object that exclude no other thread, such as read locks; a release may belong to one. Never
 * cleared. */
#define PFS_FLAG_SHARED (1u << 17)

/* Returns 1 if a probe of this object has work to do. A disabled probe costs only this load, test and branch. */
static inline int pfs_enabled(const pfs_instance_t* instance) {
  return __builtin_expect(instance != 0 && (__atomic_load_n(&instance->flags, __ATOMIC_RELAXED) & PFS_FLAG_ENABLED) != 0, 1) != 0;
}

/* Does the same for a pfs_mutex_t, which points to the flag word of its instrument: that word is in the cache when the mutex's own line
 * may not be. */
static inline int pfs_flags_enabled(const uint32_t* flags) {
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

/* Forgets the holder of a lock that is about to be released. Returns the value that pfs_owner_restore_ needs if the release fails. */
static inline uint64_t pfs_owner_release_(pfs_instance_t* instance) {
  uint64_t owner = instance != 0 ? __atomic_load_n(&instance->owner, __ATOMIC_RELAXED) : 0;
  if (__builtin_expect(owner != 0, 1)) {
    __atomic_store_n(&instance->owner, pfs_owner_below_(owner), __ATOMIC_RELAXED);
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
