// shm/dead_segments.h: what dead processes have left, bounded.
//
// A process that ends by exit() removes its segment. One that is killed, or ends by _exit(), leaves it to be read, and the memory that it has stays taken.
// So each process that makes a segment first looks at what others have left in its folder.
#pragma once

#include <cstdint>
#include <string>

namespace perfschema {

// Removes segments of dead processes of this user from the folder that `segment` is in, the oldest first, until no more than `most` of them are left, with no more than
// `most_bytes` of memory, nor a quarter of the file system; the newest one stays. Takes nothing for dead that it cannot be sure of: processes of other
// pid namespaces, files of others, whatever is no segment. Threads: any; what two remove at once is gone once.
void CollectDeadSegments(const std::string& segment, uint64_t most, uint64_t most_bytes);

}  // namespace perfschema
