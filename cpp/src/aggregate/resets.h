// aggregate/resets.h: every TRUNCATE, on this process's own segment. It never writes cells: it bumps a generation, or sets a mask of
// hidden records, so that no update of a running program is lost.
//
// Each group of families (ResetGroup) has two reset domains: the cells of its live objects, and the cells of its classes (for dead
// objects, and for events without an object). A table's declaration names the domains that its TRUNCATE bumps, as Reset<Part, groups...>.
// by_instance bumps the first domain of synchronization, files and sockets; global_by_event_name both domains of all groups; the file_,
// socket_, table_io_ and table_lock_ summaries their own. TRUNCATE of the global waits empties objects and classes, and no level
// (semantics.md F8). What TRUNCATE takes off tables stays in the totals of their instruments (KeepsTotals): the owner of a cell moves the
// numbers to the class when it next adds to the cell, and until then they count from where they are.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/status.h"
#include "shm/layout.h"
#include "shm/segment.h"

namespace perfschema {

enum class Part { kObjects, kAll };  // kAll: includes what classes keep of dead objects
// Bumps the domains of the groups, objects before classes.
// Threads: any thread. kState in a signal handler that interrupted pfs; success if pfs is off.
Status BumpResets(Part part, std::initializer_list<ResetGroup> groups);
// Runs a TRUNCATE under the cold lock.
Status UnderLock(void (*truncate)());
// Hides the present rows of kViewCurrent, kViewHistory or kViewHistoryLong; an event that still runs stays hidden when it ends.
Status HideEvents(Kind kind, uint32_t view);

// Runs TRUNCATE of a summary by thread, account, user, host or of the total: empties the level and those below it. Numbers that still
// count for a level above move there when their thread next adds to them.
Status TruncateLevel(Kind kind, Level level);
// Does the same for TRUNCATE of accounts, users or hosts, and removes rows without a connection (semantics.md F13).
Status TruncatePrincipals(Level level);

// Returns whether TRUNCATE of one level empties another: it empties itself and all below it (semantics.md F4-F7).
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

// Does the same for memory, whose rows are never emptied: memory in use stays (semantics.md K2). REQUIRES: cold lock.
void RebaseMemory(Level truncated);

// These serve the declarations of tables.
template <Part kPart, ResetGroup... kGroups>
Status Reset() {
  return BumpResets(kPart, {kGroups...});
}
template <Kind kKind, Level kLevel>
Status ResetLevel() {
  return TruncateLevel(kKind, kLevel);
}
template <Level kLevel>
Status ForgetPrincipals() {
  return TruncatePrincipals(kLevel);
}
template <Kind kKind, uint32_t kView>
Status Hide() {
  return HideEvents(kKind, kView);
}

// The part of HideEvents that needs no process state. REQUIRES: no other thread truncates the segment.
void HideEventsOf(const Segment& segment, Kind kind, uint32_t view);

}  // namespace perfschema
