// What leveldb asks of a platform, on pfs: a mutex, a condition, and no compression. Found before leveldb's own port/port.h by include
// path.
//
// leveldb gives its mutexes no names, so the file whose constructor makes one is its name: wait/synch/mutex/leveldb/db_impl. SOURCE is the
// line of leveldb that locks: default arguments are evaluated where the call stands.
#ifndef PFS_LEVELDB_PORT_H
#define PFS_LEVELDB_PORT_H

#include <perfschema/pfs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "port/thread_annotations.h"

#define SHIM_CALLER const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()
#ifdef PFS_DISABLE
#define SHIM_CALL(name, ...) (static_cast<void>(file), static_cast<void>(line), pfs_##name(__VA_ARGS__))
#else
#define SHIM_CALL(name, ...) pfs_##name##_at(__VA_ARGS__, file, line)
#endif

namespace leveldb {
namespace port {

// What the mutexes that one source file makes have in common, and their conditions.
struct Origin {
  const char* file = nullptr;
  std::string name;
  pfs_key_t mutex = 0;
  pfs_key_t cond = 0;
  // Counted with SHIM_COUNT alone: a second opinion for the tests, which the measured programs do not pay for.
  std::atomic<uint64_t> locks{0};
  std::atomic<uint64_t> waits{0};
};
Origin* OriginOf(const char* file);

inline void Count([[maybe_unused]] std::atomic<uint64_t>& counter) {
#ifdef SHIM_COUNT
  counter.fetch_add(1, std::memory_order_relaxed);
#endif
}

class LOCKABLE Mutex {
 public:
  explicit Mutex(const char* file = __builtin_FILE()) : origin_(OriginOf(file)) { pfs_mutex_init(origin_->mutex, &mutex_, nullptr); }
  ~Mutex() { pfs_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock(SHIM_CALLER) EXCLUSIVE_LOCK_FUNCTION() {
    Count(origin_->locks);
    SHIM_CALL(mutex_lock, &mutex_);
  }
  void Unlock() UNLOCK_FUNCTION() { pfs_mutex_unlock(&mutex_); }
  void AssertHeld() ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  pfs_mutex_t mutex_;
  Origin* const origin_;
};

class CondVar {
 public:
  explicit CondVar(Mutex* mutex) : mutex_(mutex) { pfs_cond_init(mutex->origin_->cond, &cond_, nullptr); }
  ~CondVar() { pfs_cond_destroy(&cond_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(SHIM_CALLER) {
    SHIM_CALL(cond_wait, &cond_, &mutex_->mutex_);
    Count(mutex_->origin_->waits);
  }
  void Signal() { pfs_cond_signal(&cond_); }
  void SignalAll() { pfs_cond_broadcast(&cond_); }

 private:
  pfs_cond_t cond_;
  Mutex* const mutex_;
};

// Not compressed, not accelerated: both programs and the stock one alike.
inline bool Snappy_Compress(const char*, size_t, std::string*) { return false; }
inline bool Snappy_GetUncompressedLength(const char*, size_t, size_t*) { return false; }
inline bool Snappy_Uncompress(const char*, size_t, char*) { return false; }
inline bool GetHeapProfile(void (*)(void*, const char*, int), void*) { return false; }
inline uint32_t AcceleratedCRC32C(uint32_t, const char*, size_t) { return 0; }

}  // namespace port
}  // namespace leveldb

#endif  // PFS_LEVELDB_PORT_H
