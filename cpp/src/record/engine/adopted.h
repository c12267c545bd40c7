// record/engine/adopted.h: whether the segment of another process may be changed from here.
#pragma once

#include "base/status.h"

namespace perfschema {

// Every index, length and list of the segment that an outsider (record/engine/cold_lock.h) follows, checked once a turn: none leads out of its array, no list is a
// circle. kCorrupt names the first that is wrong. Whoever may write the file can still change it after the check; what he can gain by that is the death of the
// process that changes his segment, which is his own (python/pfs/_remote.py).
// REQUIRES: the outsider's turn.
Status CheckAdopted();

}  // namespace perfschema
