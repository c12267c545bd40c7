// snapshot/sums.h: accounts, users and hosts; counts and memory by thread, account, user, host, and all together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "shm/layout.h"
#include "shm/shapes.h"
#include "snapshot/class_row.h"

namespace perfschema {

class Snapshot;

// An account, a user or a host.
struct PrincipalRow {
  std::optional<Text<32>> user;
  std::optional<Text<255>> host;
  int64_t current_connections, total_connections;
  uint64_t max_controlled_memory, max_total_memory;  // maximum of one of its sessions
};

// Holds the counts of one instrument for one member of a level; the shape is that of the instrument's kind (shm/shapes.h).
struct SumRow {
  const ClassRow* instrument;
  uint64_t thread_id;             // of Level::kThread
  const PrincipalRow* principal;  // of accounts, users and hosts
  uint64_t member;                // its row of cells; 0 for Level::kGlobal
  const Numbers& numbers;
};

// Holds the memory that one instrument counted for one member of a level.
struct MemoryRow {
  const ClassRow* instrument;
  uint64_t thread_id;  // as in SumRow
  const PrincipalRow* principal;
  struct Side {  // blocks, or bytes
    uint64_t alloc, free;
    int64_t low, current, high;
  };
  Side blocks, bytes;
};

// REQUIRES: not Level::kThread.
void ForEachPrincipal(const Snapshot& snapshot, Level level, const std::function<void(const PrincipalRow&)>& use);
// Shows every member of a level (live thread, principal, or all together) x every instrument of a kind, used or not: the counts of the
// member, and those below it. REQUIRES: not waits of Level::kGlobal, which are ForEachClassTotal.
void ForEachSum(const Snapshot& snapshot, Kind kind, Level level, const std::function<void(const SumRow&)>& use);
// Does the same for memory. For Level::kGlobal it includes the instruments of pfs itself: the memory of its arrays.
void ForEachMemory(const Snapshot& snapshot, Level level, const std::function<void(const MemoryRow&)>& use);

}  // namespace perfschema
