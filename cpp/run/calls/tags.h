// run/calls/tags.h: a word inside a mutex or a read-write lock that leads a probe to its instance.
//
// A probe needs the instance of a lock within a few nanoseconds. glibc leaves a word of both structs alone: the list pointer of mutexes
// that are not robust, and a pad of read-write locks. This library keeps a tag there. Every way to make a lock (an init function, an
// initializer, the constructor of std::mutex) sets the word to zero. So a new lock at an old address is seen as new at once, although
// nobody has destroyed the old one.
//
//   0, or anything else    nothing is known: a new lock
//   noted                  01 | 15 secret bits | 47 bits: the address that called the init function
//   known                  1 | 22 bits: secret ^ address of the lock | 16 bits: class | 25 bits: instance
//
// A copy of a lock, or what another process has left in shared memory, is not known: the check has a secret of this process and the
// address; the instance has the whole address. Class 0 is a lock that is not recorded. Instance 0: none was made, because the instrument
// was disabled.
//
// Locks that are robust, shared between processes or have priorities have no tag.
#pragma once

#include <threads.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "perfschema/pfs.h"
#include "record/family/locks.h"

namespace perfschema::run {

inline constexpr uint32_t kRowBits = 25, kClassBits = 16, kCheckShift = kRowBits + kClassBits, kCodeBits = 47;
inline constexpr uint32_t kMostRow = (1u << kRowBits) - 1;

// Is what a probe needs to follow a tag: one line. Threads: any, before the tag that needs it.
struct alignas(64) Tags {
  uint64_t check;                        // top bit set
  std::atomic<const ShmClass*> classes;  // before pfs starts: of a class that is disabled
  std::atomic<ShmInstance*> instances;
  std::atomic<uint32_t> end_of_classes;  // larger than those of all tags
  std::atomic<uint32_t> end_of_instances;
};
extern Tags g_tags __attribute__((visibility("hidden")));

// A tag's class and instance: those of a known lock only if IsKnown().
struct Tag {
  uint64_t bits;

  PFS_ALWAYS_INLINE uint64_t class_index() const { return bits >> kRowBits; }
  PFS_ALWAYS_INLINE uint32_t row() const { return static_cast<uint32_t>(bits) & kMostRow; }
  // Returns whether the class may be asked for its flags.
  PFS_ALWAYS_INLINE bool HasClass() const {
    return __builtin_expect(class_index() < g_tags.end_of_classes.load(std::memory_order_relaxed), 1);
  }
  PFS_ALWAYS_INLINE const uint32_t* flags() const {
    return reinterpret_cast<const uint32_t*>(&g_tags.classes.load(std::memory_order_relaxed)[class_index()].flags);
  }
  // Returns whether there is an instance that may be read. REQUIRES: HasClass().
  PFS_ALWAYS_INLINE bool HasInstance() const {
    return __builtin_expect(row() - 1 < g_tags.end_of_instances.load(std::memory_order_relaxed), 1);
  }
  // REQUIRES: HasInstance().
  PFS_ALWAYS_INLINE pfs_instance_t* instance() const {
    return reinterpret_cast<pfs_instance_t*>(&g_tags.instances.load(std::memory_order_relaxed)[row()]);
  }
  // Returns whether the instance is that of the lock.
  PFS_ALWAYS_INLINE static bool IsOf(const pfs_instance_t* instance, const void* lock) {
    return __builtin_expect(__atomic_load_n(&instance->identity, __ATOMIC_RELAXED) == reinterpret_cast<uintptr_t>(lock), 1);
  }
};

// Returns the part of the check that is the lock's address.
PFS_ALWAYS_INLINE uint64_t AddressCheck(const void* lock) {
  constexpr uint32_t kUnused = 3;  // low bits of an address
  return reinterpret_cast<uintptr_t>(lock) >> kUnused << (kCheckShift + 1) >> 1;
}

// The word of a lock that holds its tag. Threads: any, as the lock.
class TagWord {
 public:
  explicit TagWord(const pthread_mutex_t* lock) : word_(reinterpret_cast<const Word*>(&lock->__data.__list.__prev)) {}
  explicit TagWord(const mtx_t* lock) : TagWord(reinterpret_cast<const pthread_mutex_t*>(lock)) {}
  explicit TagWord(const pthread_rwlock_t* lock) : word_(reinterpret_cast<const Word*>(&lock->__data.__pad2)) {}
  PFS_ALWAYS_INLINE uint64_t load() const { return __atomic_load_n(word_, __ATOMIC_ACQUIRE); }  // pairs with store()
  void store(uint64_t word) const { __atomic_store_n(const_cast<Word*>(word_), word, __ATOMIC_RELEASE); }
  // Stores a word in place of the one that was there. Returns false if that is no longer there.
  bool Replace(uint64_t there, uint64_t word) const {
    return __atomic_compare_exchange_n(const_cast<Word*>(word_), &there, word, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }

 private:
  using Word [[gnu::may_alias]] = uint64_t;  // a pointer or a number in glibc's struct
  const Word* word_;
};

PFS_ALWAYS_INLINE Tag Decoded(uint64_t word, const void* lock) { return {word ^ g_tags.check ^ AddressCheck(lock)}; }

// Returns the tag of a lock. Of a lock that has none it has no class.
template <typename Lock>
PFS_ALWAYS_INLINE Tag TagOf(const Lock* lock) {
  return Decoded(TagWord(lock).load(), lock);
}

}  // namespace perfschema::run
