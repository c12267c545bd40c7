// capi/owner_on_leave.h: the owner of a mutex whose holder waits for a condition.
#pragma once

#include <cerrno>

#include "perfschema/pfs.h"
#include "record/family/locks.h"

namespace perfschema::capi {

// Removes the owner of a mutex while its holder waits for a condition.
class OwnerOnLeave {
 public:
  explicit OwnerOnLeave(pfs_instance_t* mutex) : mutex_(mutex), owner_(pfs_owner_release_(mutex)) {}
  ~OwnerOnLeave() {
    if (owner_ == 0) return;
    if (is_held_) {
      AsInstance(mutex_)->owner.store(owner_, perfschema::kRelaxed);
    } else {
      pfs_owner_restore_(mutex_, owner_);
    }
  }
  OwnerOnLeave(const OwnerOnLeave&) = delete;
  OwnerOnLeave& operator=(const OwnerOnLeave&) = delete;

  // Takes the result of the wait. A canceled wait has the mutex again.
  void Returned(int rc) {
    is_held_ = rc == 0 || rc == ETIMEDOUT || rc == EOWNERDEAD;  // else: the mutex was never released,
    if (rc == ENOTRECOVERABLE) owner_ = 0;                      // or no thread can lock it again
  }

 private:
  pfs_instance_t* mutex_;
  uint64_t owner_;
  bool is_held_ = true;
};

}  // namespace perfschema::capi
