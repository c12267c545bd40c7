// run/calls/users_of_code.h: the line of a user's program for which a library or an interpreter makes a call: a write of std::ofstream, of
// std::fs::File, of Python, of PHP.
//
// All calls of such code have the same return address. So some events have the user's line instead (record/engine/sources.h).
#pragma once

#include "record/engine/sources.h"

namespace perfschema::run {

// As g_user_of_code. Slow.
UserSite UserOfCode(const void* address, bool is_first, bool* ask_again);

}  // namespace perfschema::run
