// record/family/data_locks.h: inspectors of the program's data locks. Private to the process: nothing of them is in the segment.
#pragma once

#include "base/status.h"
#include "perfschema/pfs.h"

// Where an inspector's rows go, behind the C API.
struct pfs_data_locks {
  void (*add)(void* context, const char* engine, const pfs_data_lock_t& lock);
  void* context;
  const char* engine;  // of the inspector that is running
};
struct pfs_data_lock_waits {
  void (*add)(void* context, const char* engine, const pfs_data_lock_wait_t& wait);
  void* context;
  const char* engine;
};

namespace perfschema {

// Threads: any thread.
Status RegisterInspector(const pfs_data_lock_inspector_t* inspector);
Status UnregisterInspector(const pfs_data_lock_inspector_t* inspector);

// Runs all inspectors, one after the other. Nothing happens inside another scan of the same thread.
void ScanDataLocks(pfs_data_locks* rows);
void ScanDataLockWaits(pfs_data_lock_waits* rows);

// In a forked child, where no other thread is inside an inspector.
void ForgetInspectorsScans();

}  // namespace perfschema
