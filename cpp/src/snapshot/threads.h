// snapshot/threads.h: the live threads.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shm/threads.h"
#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

struct ThreadRow : ThreadNumbers<uint64_t> {
  uint32_t slot;
  uint64_t thread_id;
  uint32_t flags;  // kThreadInstrumented ...
  uint32_t cells;  // columns of its row of kThreadCells that may be read
  Text<128> name;
  std::optional<uint64_t> os_id, parent_thread_id;
  std::optional<uint64_t> processlist_id;  // of foreground threads
  std::optional<Text<32>> user;
  std::optional<Text<255>> host;
  uint32_t peer_port;  // 0 = none
  std::optional<Text<64>> db;
  std::optional<Text<16>> command;
  std::optional<int64_t> seconds;  // since its start time
  std::optional<Text<64>> state;
  std::optional<LongText> info;
  std::optional<Text<16>> connection_type;
  std::optional<Text<64>> resource_group;
  bool is_foreground() const { return (flags & kThreadForeground) != 0; }
};

std::vector<ThreadRow> Threads(const Snapshot& snapshot);
bool ThreadAt(const Snapshot& snapshot, uint32_t slot, ThreadRow* row);  // false: no thread has the slot
// Returns the names of live threads, by THREAD_ID.
std::unordered_map<uint64_t, Text<128>> ThreadNames(const Snapshot& snapshot);

}  // namespace perfschema
