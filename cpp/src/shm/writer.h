// shm/writer.h: whether the process that writes a segment can go on writing it. A section of the segment that it has left half done then stays so.
#pragma once

#include <string>

#include "shm/layout.h"

namespace perfschema {

// kAtRest: it is dead, stopped, or runs another program by now; or this is a copy of its file. kUnknown: nobody can tell from here (another pid namespace, an
// earlier boot, a hidden /proc).
enum class WriterState { kRuns, kAtRest, kUnknown };

// `name`: of the file, as the process would have it mapped.
WriterState StateOfWriter(const ShmHeader& header, const std::string& name);

}  // namespace perfschema
