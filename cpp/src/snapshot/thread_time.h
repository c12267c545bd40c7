// snapshot/thread_time.h: where the time of threads went.
#pragma once

#include <cstdint>
#include <vector>

#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

// The time of the threads of a role in one state. Picoseconds.
struct ThreadTimeRow {
  Text<128> role;
  Text<64> state;
  uint64_t threads;
  uint64_t time;
};

// Returns the rows of each role, in the order of names and states. The times of a role add up to the lives of its threads.
std::vector<ThreadTimeRow> ThreadTimes(const Snapshot& snapshot);

}  // namespace perfschema
