#include "capi/guarded.h"
#include "perfschema/pfs.h"
#include "record/family/errors.h"

using perfschema::Status;
using perfschema::capi::Fail;
using perfschema::capi::Guarded;

extern "C" {

int pfs_register_error(int32_t number, const char* name, const char* sqlstate, uint32_t flags) {
  if (name == nullptr) return Fail(PFS_E_INVALID_ARGUMENT, "pfs_register_error: an error needs a name");
  return Guarded(
      [=] { return perfschema::RegisterError(number, name, sqlstate != nullptr ? sqlstate : "HY000", (flags & PFS_GLOBAL) != 0); });
}

int32_t pfs_error_number(const char* name) {
  int32_t number = 0;
  if (name != nullptr) Guarded([&] { return number = perfschema::NumberOfNamedError(name), Status(); });
  return number;
}

void pfs_error_raised(int32_t number) { perfschema::CountRaised(number); }
void pfs_error_handled(int32_t number) { perfschema::CountHandled(number); }

}  // extern "C"
