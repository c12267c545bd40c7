// snapshot/program_tables.h: tables of the program that setup_objects enables, their handles, and metadata locks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shm/layout.h"
#include "snapshot/lanes.h"
#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

// Counts rows of a table that the program reached through one index, or through none.
struct IndexRow {
  std::optional<Text<64>> name;  // NULL = none
  LanesOf<kTableIoLanes> io;
};

// A table that setup_objects enables.
struct TableRow {
  ObjectType type;
  Text<64> schema, name;
  LanesOf<kTableIoLanes> io;  // of all indexes
  std::vector<IndexRow> indexes;
  std::optional<LanesOf<kTableLockLanes>> locks;  // NULL = there was no space for them
};

struct TableHandleRow {
  ObjectType type;
  Text<64> schema, name;
  uint64_t identity;
  std::optional<uint64_t> owner_thread_id, owner_event_id;
  std::optional<uint8_t> internal_lock, external_lock;  // lanes
};

struct MetadataLockRow {
  ObjectType type;
  std::optional<Text<64>> schema, name, column;
  uint64_t identity;
  uint8_t lock_type, duration, status;  // enum pfs_metadata_... of metadata.h
  std::optional<Text<64>> source;
  std::optional<uint64_t> owner_thread_id, owner_event_id;
};

// The caller wants numbers of rows (kTableRows), of locks (kTableLocks), or both; the rest is empty.
inline constexpr uint32_t kTableRows = 1, kTableLocks = 2;
void ForEachTable(const Snapshot& snapshot, uint32_t wanted, const std::function<void(const TableRow&)>& use);
uint64_t MostTables(const Snapshot& snapshot);
uint64_t MostIndexes(const Snapshot& snapshot);
void ForEachTableHandle(const Snapshot& snapshot, const std::function<void(const TableHandleRow&)>& use);
void ForEachMetadataLock(const Snapshot& snapshot, const std::function<void(const MetadataLockRow&)>& use);

}  // namespace perfschema
