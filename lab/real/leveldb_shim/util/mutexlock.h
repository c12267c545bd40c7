// A guard of a port::Mutex that remembers who made it, for SOURCE. Found before leveldb's own util/mutexlock.h by include path.
#ifndef PFS_LEVELDB_MUTEXLOCK_H
#define PFS_LEVELDB_MUTEXLOCK_H

#include "port/port.h"

namespace leveldb {

class SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(port::Mutex* held, SHIM_CALLER) EXCLUSIVE_LOCK_FUNCTION(held) : held_(held) { held->Lock(file, line); }
  ~MutexLock() UNLOCK_FUNCTION() { held_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  port::Mutex* held_;
};

}  // namespace leveldb

#endif  // PFS_LEVELDB_MUTEXLOCK_H
