// record/family/status_values.h: counters of the program's own, by thread: rows of status_by_*, session_status and global_status (SEMANTICS F17).
//
// They are not instruments: no consumer, no setup table and no INSTRUMENTED = NO turns them off.
//
// A value is a sum in two's complement: what one thread adds and another one takes is right in every sum that has both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace perfschema {

// Threads: any thread. `key` is 0 if it is refused, if there is no room (counted) or if pfs is off; the last two are not errors. A name that is
// registered already, upper and lower case being the same, has its key.
Status RegisterStatusVariable(std::string_view name, std::string_view documentation, uint32_t* key);

// Adds to the calling thread's value, which may become negative. Preserves errno. A probe: any thread, for itself.
void AddToStatusVariable(uint32_t class_index, int64_t n);

}  // namespace perfschema
