// snapshot/objects.h: locks, conditions, files and sockets; how long locks were held; the totals of instruments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "snapshot/class_row.h"
#include "snapshot/lanes.h"

namespace perfschema {

class Snapshot;

// A mutex, an rwlock of any kind, or a condition.
struct InstanceRow {
  const ClassRow* instrument;
  uint64_t identity;
  std::optional<uint64_t> owner_thread_id;
  uint32_t shared_count;  // read locks held now
  Stat wait;
};

// Says how long a lock was held, or all locks of an instrument.
struct HoldRow {
  const ClassRow* instrument;
  uint64_t identity;  // 0: an instrument's
  Stat held;
  std::optional<Text<64>> longest_source;  // where the longest hold began
  std::optional<uint64_t> longest_thread_id;
};

// A file or a socket.
struct FileRow {
  const ClassRow* instrument;
  uint64_t identity;  // OBJECT_INSTANCE_BEGIN: the place of its ShmFile in the segment
  Text<512> name;
  uint32_t open_count;
  uint32_t state;       // kSocketIdle ...
  uint32_t descriptor;  // of a socket
  std::optional<uint64_t> thread_id;
  LanesOf<kFileLanes> io;
};

// Holds all counts of one instrument since the last TRUNCATE.
struct ClassTotalRow {
  const ClassRow* instrument;
  Lanes lanes;
  std::optional<Text<64>> longest_source;  // of the longest wait for a lock or a condition
};

void ForEachInstance(const Snapshot& snapshot, const std::function<void(const InstanceRow&)>& use);
uint64_t MostInstances(const Snapshot& snapshot);
// Shows how long locks were held: of each live object, and of each instrument, those with a hold that has ended.
void ForEachHold(const Snapshot& snapshot, const std::function<void(const HoldRow&)>& use);
void ForEachHoldTotal(const Snapshot& snapshot, const std::function<void(const HoldRow&)>& use);
// Files and sockets. The caller wants their numbers (kFileNumbers), their names (kFileName), or both; the rest is empty.
inline constexpr uint32_t kFileNumbers = 1, kFileName = 2;
void ForEachFile(const Snapshot& snapshot, uint32_t wanted, const std::function<void(const FileRow&)>& use);
uint64_t MostFiles(const Snapshot& snapshot);
uint64_t CountFiles(const Snapshot& snapshot, Family family);  // approximate
// Shows every wait instrument, used or not.
void ForEachClassTotal(const Snapshot& snapshot, const std::function<void(const ClassTotalRow&)>& use);

}  // namespace perfschema
