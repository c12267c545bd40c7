// capi/owner_on_leave.h: the owner of a mutex whose holder waits for a condition.
#pragma once

#include <cerrno>

#include "perfschema/pfs.h"
#include "record/family/holds.h"
#include "record/family/locks.h"

namespace perfschema::capi {

// Removes the owner of a mutex while its holder waits for a condition. A hold ends with the wait, and another one begins after it.
class OwnerOnLeave {
 public:
  OwnerOnLeave(pfs_instance_t* mutex, PFS_SITE_) : mutex_(mutex), owner_(pfs_owner_release_(mutex)), file_(file), line_(line) {}
  ~OwnerOnLeave() {
    if (owner_ == 0) return;
    if (is_held_) {
      AsInstance(mutex_)->owner.store(owner_, perfschema::kRelaxed);
      if (pfs_measures_holds_(mutex_) != 0) ResumeHold(*AsInstance(mutex_), file_, line_);
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
  const char* file_;
  uint32_t line_;
  bool is_held_ = true;
};

}  // namespace perfschema::capi
