// record/start.h: what start-up (start.cpp) and fork (fork.cpp) share. Both compose the folders of record/, and stand above them. What the
// folders call is declared in record/engine/runtime.h.
#pragma once

#include <string>

#include "record/engine/runtime.h"

namespace perfschema {

// All functions REQUIRE the cold lock.

// Limits the number of files of dead processes before this process adds its own.
void CollectTheDead();

// Notes why pfs is not fully on, also in the segment.
void SetStatusReason(std::string_view reason);

}  // namespace perfschema
