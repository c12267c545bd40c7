// snapshot/lock_reasons.h: why threads had to wait for locks: what the holders did meanwhile.
//
// From the waits in the history tables: they bound how far back it looks, and waits must be timed. In each moment in which somebody waited
// for a lock, somebody held it: the thread that took it last. With read-write locks that is one of several.
#pragma once

#include <optional>
#include <vector>

#include "snapshot/events.h"

namespace perfschema {

// A row of `lock_reasons`: a lock, a line of its holder, and a thing that the holder did. Without a name of an event it is the time in
// which the holder was in no wait.
struct LockReasonRow {
  Text<128> lock_name;
  std::optional<Text<64>> holder_source;  // where the holder took the lock
  std::optional<Text<128>> event_name;
  std::optional<Text<32>> operation;
  std::optional<Text<512>> object_name;
  std::optional<Text<64>> source;
  uint64_t count;
  uint64_t wait;  // picoseconds of it during which at least one other thread waited
};

// Returns the longest first.
std::vector<LockReasonRow> LockReasons(const Snapshot& snapshot);

}  // namespace perfschema
