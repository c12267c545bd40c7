// shm/writer.h: tells whether the process that writes a segment can go on writing. A half-written section of a dead writer stays so.
#pragma once

#include <optional>
#include <string>

#include "shm/layout.h"
#include "shm/place.h"

namespace perfschema {

// kAtRest: the process is dead, stopped, or runs another program by now; or the file is a copy. kUnknown: this cannot be determined from
// here (another pid namespace, an earlier boot, a hidden /proc).
enum class WriterState { kRuns, kAtRest, kUnknown };

// `name` is the name under which the process would have the file mapped.
WriterState StateOfWriter(const ShmHeader& header, const std::string& name);

// Returns what /proc says of that process, which may be a zombie. Nothing: it has gone, or /proc of this pid namespace does not have it.
std::optional<ProcessStat> StatOfWriter(const ShmHeader& header);

}  // namespace perfschema
