// record/family/status_values.h: the program's own counters, by thread: rows of status_by_*, session_status and
// global_status (semantics.md F17).
//
// They are not instruments: no consumer, no setup table and no INSTRUMENTED = NO turns them off.
//
// A value is a sum in two's complement. If one thread adds and another one subtracts, every sum of both is right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace perfschema {

// Registers a counter. `key` is 0 if it is refused, if the segment is full (counted) or if pfs is off; the last two
// are not errors. A registered name returns its key; names are case-insensitive. Threads: any thread.
Status RegisterStatusVariable(std::string_view name, std::string_view documentation, uint32_t* key);

// Adds to the calling thread's value, which may become negative. Preserves errno. A probe.
void AddToStatusVariable(uint32_t class_index, int64_t n);

}  // namespace perfschema
