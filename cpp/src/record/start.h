// record/start.h: what start-up (start.cpp) and fork (fork.cpp) share. Both compose the folders of record/, and stand above them. What the
// folders call is declared in record/engine/runtime.h.
#pragma once

#include <string>

#include "record/engine/runtime.h"

namespace perfschema {

// Notes why pfs is not fully on, also in the segment. REQUIRES: the cold lock.
void SetStatusReason(std::string_view reason);

// Leaves a note for `pfs run`: this process has no segment. Each child that fork() makes of it leaves one, too, for it tries nothing.
void NoteNoSegment(const char* reason);

}  // namespace perfschema
