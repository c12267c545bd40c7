// record/engine/adopted.h: checks whether this process may change the segment of another one.
//
// An outsider (record/engine/cold_lock.h) runs the same code as the program. It adopts the segment, which holds all
// that the code needs. The private indexes (hash tables over setup rows, principals, facts, digests) are rebuilt from
// the segment by the next process that enters. In each critical section the outsider checks all indices and lists
// before it follows them. python/pfs runs the outsider in a process of its own, so that a bad segment can harm no
// other process.
#pragma once

#include "base/status.h"

namespace perfschema {

// Checks every index, length and list of the segment that an outsider follows, once in each critical section. No
// index may leave its array, and no list may be a cycle. Returns kCorrupt and names the first bad one. A process that
// may write the file can still change it after the check. It can only crash the process that changes its segment,
// which is its own (python/pfs/_process/remote.py).
// REQUIRES: inside an OutsiderSection.
Status CheckAdopted();

}  // namespace perfschema
