// record/probe/call_sites.h: counts calls by place and result, for the table call_sites: those that failed, and those that found nothing.
// Other calls cost nothing here.
//
// A row belongs to an instrument, an operation, a place and an errno (CallSiteOf). The first such call makes it, under the cold lock; the
// others add to it. A call that the full table has no row for is counted as lost.
#pragma once

#include "record/probe/wait.h"

namespace perfschema {

// Counts a call whose event ends: inside the probe, before its record is closed. The record has the place. `path`: what the call
// was about; the program may read it.
[[gnu::noinline, gnu::cold]] void CountFailedWait(const Wait& wait, Operation operation, const EndedWait& ended, int error,
                                                  const char* path = nullptr);

// Counts a call that makes no event. `error`: its errno, 0 = it found nothing. Preserves errno.
[[gnu::noinline]] void CountCallWithoutEvent(uint32_t class_index, Operation operation, int error, const char* file, uint32_t line);

// Empties the table. REQUIRES: cold lock.
void ForgetCallSites();
// Drops the rows, which a forked child has no memory of.
void ForgetCallSitesInChild();

}  // namespace perfschema
