// capi/hold.cpp: begin and end of holds of locks (consumer lock_holds), where the inline probes leave for the library.
#include "perfschema/pfs.h"
#include "record/family/holds.h"
#include "record/family/locks.h"

extern "C" {

uint64_t pfs_hold_end_(pfs_instance_t* instance, uint64_t owner) {
  perfschema::ShmInstance& object = *perfschema::AsInstance(instance);
  perfschema::EndHold(object, owner);
  object.owner.store(0, perfschema::kRelaxed);
  return owner & ~perfschema::kOwnerHold;
}

void pfs_hold_resume_(pfs_instance_t* instance, PFS_SITE_) { perfschema::ResumeHold(*perfschema::AsInstance(instance), file, line); }

}  // extern "C"
