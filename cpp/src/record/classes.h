// record/classes.h: from the keys that programs hold to classes of the segment.
#pragma once

#include "record/runtime.h"

namespace perfschema {

// 0 = not instrumented: bad key, other family, pfs off. rwlocks, prlocks and sxlocks share their keys: the class says which of them it is.
uint32_t ClassOfKey(Family family, uint32_t key);

// Gives the next key of the family to a new class; 0 if the family's limit is reached. REQUIRES: cold lock.
uint32_t TakeKey(Family family, uint32_t class_index);

}  // namespace perfschema
