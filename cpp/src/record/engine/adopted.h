// record/engine/adopted.h: whether the segment of another process may be changed from here.
//
// An outsider (record/engine/cold_lock.h) runs the same code as the program: it adopts the segment, which holds all that the code needs. What
// is kept beside the segment (hash tables over setup rows, parties, facts, digests) is rebuilt from the segment by the next process that
// comes in. In each turn the outsider checks all indices and lists before it follows them. python/pfs keeps it in a process of its own,
// so that a bad segment can harm nobody else.
#pragma once

#include "base/status.h"

namespace perfschema {

// Every index, length and list of the segment that an outsider (record/engine/cold_lock.h) follows, checked once a turn: none leads out of its array, no list is a
// circle. kCorrupt names the first that is wrong. Whoever may write the file can still change it after the check; what he can gain by that is the death of the
// process that changes his segment, which is his own (python/pfs/_outside/remote.py).
// REQUIRES: the outsider's turn.
Status CheckAdopted();

}  // namespace perfschema
