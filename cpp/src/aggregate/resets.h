// aggregate/resets.h: every TRUNCATE, on the own process's segment. Cells are never written here: a generation is
// bumped, or a mask of hidden records is set ("TRUNCATE" in docs/architecture.md), so that no update of a running
// program is lost.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/status.h"
#include "shm/layout.h"

namespace perfschema {

// Threads: any thread. kState in a signal handler that interrupted pfs; success if pfs is off.
// Domains in the order: objects before classes.
Status BumpResets(std::initializer_list<ResetDomain> domains);
// Hides from kViewCurrent, kViewHistory or kViewHistoryLong what it shows now; an event that still runs stays hidden
// when it ends.
Status HideWaits(uint32_t view);

// For the declarations of tables.
template <ResetDomain... kDomains>
Status Reset() {
  return BumpResets({kDomains...});
}
template <uint32_t kView>
Status Hide() {
  return HideWaits(kView);
}

// The part of HideWaits that needs no process state. REQUIRES: no other truncater of the segment at work.
void HideWaitsOf(ShmChunk* chunks, const ShmWaitRecord* records, uint64_t used, uint32_t view);

}  // namespace perfschema
