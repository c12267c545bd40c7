// aggregate/resets.h: every TRUNCATE, on the own process's segment. Cells are never written here: a generation is
// bumped, or a mask of hidden records is set, so that no update of a running
// program is lost.
//
// Each group of families (ResetGroup) has two reset domains: the cells of its live objects, and what its classes keep (of dead objects,
// and of events without an object). A table's declaration names what its TRUNCATE bumps, as Reset<Part, groups...>: by_instance the
// first domain of synchronization, files and sockets; global_by_event_name both domains of all groups; the file_, socket_, table_io_ and
// table_lock_ summaries their own. TRUNCATE of the global waits empties objects and classes, and no level (SEMANTICS F8).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/status.h"
#include "shm/segment.h"

namespace perfschema {

// Threads: any thread. kState in a signal handler that interrupted pfs; success if pfs is off.
// Domains in the order: objects before classes.
Status BumpResets(std::initializer_list<ResetDomain> domains);
// Runs a TRUNCATE under the cold lock.
Status UnderLock(void (*truncate)());
// Hides from kViewCurrent, kViewHistory or kViewHistoryLong what it shows now; an event that still runs stays hidden
// when it ends.
Status HideEvents(Kind kind, uint32_t view);

// TRUNCATE of a summary by thread, account, user, host or of all: empties the level and those below it. What still counts for a
// level above moves there when its thread next adds to it.
Status TruncateLevel(Kind kind, Level level);
// TRUNCATE of accounts, users or hosts: the same, and rows without a connection go (SEMANTICS F13).
Status TruncatePrincipals(Level level);

// The levels that TRUNCATE of one empties: itself and all below it (SEMANTICS F4-F7).
constexpr bool Empties(Level truncated, Level level) {
  switch (level) {
    case Level::kThread:
      return true;
    case Level::kAccount:
      return truncated != Level::kThread;
    default:
      return level == truncated || truncated == Level::kGlobal;
  }
}

// The same of memory, whose rows are never emptied: what is in use stays (SEMANTICS K2). REQUIRES: cold lock.
void RebaseMemory(Level truncated);

// For the declarations of tables.
enum class Part { kObjects, kAll };  // kAll: what classes keep of dead objects as well
template <Part kPart, ResetGroup... kGroups>
Status Reset() {
  if constexpr (kPart == Part::kObjects) return BumpResets({ObjectDomain(kGroups)...});
  return BumpResets({ObjectDomain(kGroups)..., ClassDomain(kGroups)...});
}
template <Kind kKind, Level kLevel>
Status ResetLevel() {
  return TruncateLevel(kKind, kLevel);
}
template <Level kLevel>
Status ForgetParties() {
  return TruncatePrincipals(kLevel);
}
template <Kind kKind, uint32_t kView>
Status Hide() {
  return HideEvents(kKind, kView);
}

// The part of HideEvents that needs no process state. REQUIRES: no other truncater of the segment at work.
void HideEventsOf(const SegmentView& view_of, ShmChunk* chunks, Kind kind, uint32_t view);

}  // namespace perfschema
