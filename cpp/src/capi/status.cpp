#include "capi/guarded.h"
#include "perfschema/pfs.h"
#include "record/engine/classes.h"
#include "record/family/status_values.h"

extern "C" {

int pfs_register_status(const char* name, const char* documentation, pfs_key_t* key) {
  if (key != nullptr) *key = 0;
  if (name == nullptr || key == nullptr) {
    return perfschema::capi::Fail(PFS_E_INVALID_ARGUMENT, "pfs_register_status: a status variable needs a name and a place for its key");
  }
  return perfschema::capi::Guarded(
      [=] { return perfschema::RegisterStatusVariable(name, documentation != nullptr ? documentation : "", key); });
}

void pfs_status_add(pfs_key_t key, int64_t n) {
  perfschema::AddToStatusVariable(perfschema::ClassOfKey(perfschema::Family::kStatus, key), n);
}

}  // extern "C"
