// record/family/data_locks.h: inspectors of the program's data locks. They are private to the process: the segment
// has nothing of them.
#pragma once

#include "base/status.h"
#include "perfschema/server.h"

// Receives the rows of an inspector, behind the C API.
struct pfs_data_locks {
  void (*add)(void* context, const char* engine, const pfs_data_lock_t& lock);
  void* context;
  const char* engine;  // name of the running inspector's engine
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

// Run all inspectors in sequence. Inside another scan of the same thread they do nothing.
void ScanDataLocks(pfs_data_locks* rows);
void ScanDataLockWaits(pfs_data_lock_waits* rows);

// Forgets running scans in a forked child, where no other thread is inside an inspector.
void ForgetInspectorsScans();

}  // namespace perfschema
