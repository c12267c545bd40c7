// record/names.h: names of objects (files), of any length up to 512 bytes, in the segment.
//
// A record of an event names the object by granule and version. A freed name is not used again at once, so that events in the histories
// keep their names; when it is used again its version differs and the event shows no name instead of a wrong one.
#pragma once

#include <cstdint>
#include <string_view>

#include "record/runtime.h"

namespace perfschema {

// First granule of a copy of `name` (cut at 512 bytes), 0 if there is no room. REQUIRES: cold lock.
uint32_t TakeName(std::string_view name);
// REQUIRES: cold lock.
void GiveName(uint32_t granule);
// REQUIRES: cold lock, a live name.
std::string_view NameText(uint32_t granule);

}  // namespace perfschema
