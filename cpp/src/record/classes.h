// record/classes.h: from the keys that programs hold to classes of the segment.
#pragma once

#include <string_view>

#include "record/runtime.h"

namespace perfschema {

// 0 = not instrumented: bad key, other family, pfs off. rwlocks, prlocks and sxlocks share their keys: the class says which of them it is.
uint32_t ClassOfKey(Family family, uint32_t key);

// Takes an entry for something that is counted and fills in what it is; the caller adds the rest, and publishes it with `ready` (release, pairs
// with Snapshot::classes). nullptr: no room. REQUIRES: cold lock.
ShmClass* NewClass(Family family, std::string_view name, std::string_view documentation);

// Gives the next key of the family to a new class; 0 if the family's limit is reached. REQUIRES: cold lock.
uint32_t TakeKey(Family family, uint32_t class_index);

// Full name. Constant once the class is registered.
inline std::string_view NameOf(const ShmClass& entry) { return {reinterpret_cast<const char*>(entry.name), entry.name_bytes}; }

// The instrument of a family that has this name, 0 = none. REQUIRES: cold lock.
uint32_t FindClass(Family family, std::string_view full_name);

}  // namespace perfschema
