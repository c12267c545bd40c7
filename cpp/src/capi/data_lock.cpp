// capi/data_lock.cpp: inspectors of data locks, and the collection of their rows.
#include "capi/guarded.h"
#include "perfschema/server.h"
#include "record/family/data_locks.h"

extern "C" {

int pfs_data_lock_register(const pfs_data_lock_inspector_t* inspector) {
  return perfschema::capi::Guarded([=] { return perfschema::RegisterInspector(inspector); });
}

int pfs_data_lock_unregister(const pfs_data_lock_inspector_t* inspector) {
  return perfschema::capi::Guarded([=] { return perfschema::UnregisterInspector(inspector); });
}

int pfs_data_locks_add(pfs_data_locks_t* rows, const pfs_data_lock_t* lock) {
  if (rows == nullptr || lock == nullptr) return 0;
  rows->add(rows->context, rows->engine, *lock);
  return 1;
}

int pfs_data_lock_waits_add(pfs_data_lock_waits_t* rows, const pfs_data_lock_wait_t* wait) {
  if (rows == nullptr || wait == nullptr) return 0;
  rows->add(rows->context, rows->engine, *wait);
  return 1;
}

}  // extern "C"
