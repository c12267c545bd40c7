// snapshot/blocked.h: the threads that wait for locks now, the holders of these locks, and circles among them.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "snapshot/open_events.h"

namespace perfschema {

// A thread that waits for a lock, and one holder of the lock, if a holder is known. A row of `blocked`.
struct BlockedRow {
  OpenEvent wait;
  std::optional<uint64_t> holder;        // THREAD_ID
  uint64_t readers;                      // those who hold a read-write lock, and are not known
  std::optional<Text<128>> holder_name;  // not set: the holder is not known, or has ended
  std::optional<Text<64>> held_at;       // where the holder took the lock, if that event is still recorded
  std::optional<uint64_t> held;          // picoseconds since then
  // The innermost open event of the holder.
  std::optional<Text<128>> holder_event;
  std::optional<Text<64>> holder_event_source;
  std::optional<uint64_t> holder_event_wait;
  std::optional<Text<1024>> deadlock;  // the shortest circle through this thread: "1 -> 2 -> 1"
};

// Returns those who wait longest first. A lock with several holders gives several rows.
std::vector<BlockedRow> BlockedThreads(const Snapshot& snapshot);

// Finds circles among threads: an edge leads from a thread that waits to a thread that holds. Each thread of a circle has the shortest one
// through it, which begins and ends with its smallest thread.
std::map<uint64_t, std::vector<uint64_t>> Circles(const std::vector<std::pair<uint64_t, uint64_t>>& edges);

}  // namespace perfschema
