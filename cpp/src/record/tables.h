// record/tables.h: tables of the program: known by name, used through handles.
//
// A wait on rows counts in the cells of the index that it used, lane by operation; one on a lock in the cells of the table, lane by kind.
// One wait may cover many rows: each counts as an event, the time is the wait's.
#pragma once

#include <string_view>

#include "record/wait.h"

namespace perfschema {

// Private tables. Under the cold lock, once.
bool StartTables();

// An open table: private memory of the process. pfs_table of abi.h is its beginning.
// Threads: constant after it is made; its row in the segment has one writer.
struct TableHandle : pfs_table {
  ShmTable* table;
  ShmTableHandle* row;
  uint64_t identity;
  uint32_t name, name_version;
  ObjectType type;
  uint16_t io_class, lock_class;
  ShmIndex* unindexed;   // rows reached through no index; nullptr = no room for its statistics, as below
  uint32_t index_count;
  ShmIndex** indexes;    // behind this struct
};
inline TableHandle& AsHandle(pfs_table* table) { return *static_cast<TableHandle*>(table); }

struct TableName {
  ObjectType type;  // kTable or kTemporaryTable
  std::string_view schema, name;
};

// The table of that name, known from now on, and a handle of it that belongs to the calling thread. `identity` 0 = the handle's own address.
// Indexes are known by name; those of an earlier open stay. nullptr: no room, counted; or pfs is off. Preserves errno. Cold, and so are all below.
TableHandle* OpenTable(const TableName& table, uint64_t identity, const char* const* index_names, uint32_t index_count);
void CloseTable(TableHandle* handle);
// The table is no more: its rows go, its numbers stay with the instruments. Handles that are open count for the instruments from here on.
void DropTable(const TableName& table);

// The handle belongs to the calling thread, or to nobody (SEMANTICS L5).
void BindTable(TableHandle& handle);
void UnbindTable(TableHandle& handle);

// Setup has changed: flag words of all tables; and what setup_objects says of each. REQUIRES: cold lock.
void RefreshTables();
void ReapplyObjectRules();

// What setup_objects says of an object: kTableEnabled | kTableTimed. Defined in setup/, which knows the rules. REQUIRES: cold lock.
uint32_t ObjectFacts(ObjectType type, std::string_view schema, std::string_view name);

// INTERNAL_LOCK and EXTERNAL_LOCK of the handle's row. REQUIRES: called by whoever uses the handle.
inline constexpr uint32_t kInternalLock = 0xff, kExternalLock = 0xff00;
constexpr bool IsExternal(uint8_t lane) { return lane == kReadExternalLane || lane == kWriteExternalLane; }
inline void ShowLock(TableHandle& handle, uint8_t lane) {
  HalfWord& locks = handle.row->locks;
  const uint32_t other = locks.load(kRelaxed) & (IsExternal(lane) ? kInternalLock : kExternalLock);
  locks.store(other | (lane + 1u) << (IsExternal(lane) ? 8 : 0), kRelease);
}
inline void HideLocks(TableHandle& handle, uint32_t which) {
  HalfWord& locks = handle.row->locks;
  locks.store(locks.load(kRelaxed) & ~which, kRelease);
}

// ---- Waits -------------------------------------------------------------------------------------------------------------------------

// A wait in progress, on the caller's stack.
struct TableWait {
  Wait wait;
  TableHandle* handle;
  ShmIndex* index;  // of the rows
  Operation operation;
};

// `index` -1 = none. Rows are inserted through none (SEMANTICS L7).
inline ShmIndex* IndexOfWait(const TableHandle& handle, Operation operation, int index) {
  if (index < 0 || static_cast<uint32_t>(index) >= handle.index_count || operation == Operation::kInsert) return handle.unindexed;
  return handle.indexes[index];
}

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginTableWait(TableWait& call, TableHandle& handle, uint32_t flags, uint32_t class_index, Operation operation,
                                      ShmIndex* index, const char* file, uint32_t line) {
  call.handle = &handle;
  call.index = index;
  call.operation = operation;
  WaitDetails details;
  details.state_bits = kRecordHasName | kRecordHasSchema;
  details.name = handle.name;
  details.name_version = handle.name_version;
  details.type = handle.type;
  if (index != nullptr) {
    if (const uint32_t name = index->name.load(kRelaxed); name != 0) {
      details.state_bits |= kRecordHasIndex;
      details.index_name = static_cast<uint64_t>(name) << 32 | index->name_version.load(kRelaxed);
    }
  }
  if (!BeginWait<kMode, true>(call.wait, flags, class_index, operation, handle.identity, file, line, details)) return false;
  KeepUntilEnd(call.wait);
  return true;
}

inline ShmCellList* LanesOf(ShmIndex& index) { return index.lanes; }
inline ShmCellList* LanesOf(ShmTable& table) { return table.lock_lanes; }

// `count` events that were one wait: to the thread's cell of the object; where that is dead, or has no statistics (nullptr), to its instrument.
// `flags`: the word of the table that says whether it is dead.
template <ResetGroup kGroup, typename Object>
PFS_ALWAYS_INLINE void AddToTable(const TableWait& call, Object* object, const HalfWord& flags, bool timed, uint64_t wait_ps, uint64_t count) {
  ThreadState& thread = *call.wait.thread;
  const uint8_t lane = kOperations[static_cast<uint32_t>(call.operation)].lane;
  if (__builtin_expect(object != nullptr && (flags.load(kRelaxed) & kFlagDead) == 0, 1)) {
    constexpr bool kIsIndex = std::is_same_v<Object, ShmIndex>;
    const Object* first;
    if constexpr (kIsIndex) {
      first = g_runtime.indexes;
    } else {
      first = g_runtime.tables;
    }
    const auto at = static_cast<uint32_t>(object - first);
    ShmCell* const cell = FindCellAtHead(thread, kIsIndex ? CellKind::kIndex : CellKind::kTable, at, object->version, lane, LanesOf(*object)[lane], &flags);
    if (__builtin_expect(cell != nullptr, 1)) {
      const uint32_t gen = Generation(ObjectDomain(kGroup));
      if (__builtin_expect(cell->gen.load(kRelaxed) != gen, 0)) return AddToCell(*cell, gen, timed, wait_ps, 0, count);
      return AddEvents(cell->seq, cell->stat, timed, wait_ps, count);
    }
    if ((flags.load(kRelaxed) & kFlagDead) == 0) return;  // no room; counted as lost
  }
  AddToClass(thread, call.wait.class_index, lane, timed, wait_ps, 0, count);
}

// The end of any wait on a table: `count` events, `more_state_bits` for the record. `add(timed, wait_ps)` counts them on the object.
template <Mode kMode, typename Add>
PFS_ALWAYS_INLINE void EndTableWait(const TableWait& call, uint64_t count, uint64_t more_state_bits, Add add) {
  const EndedWait ended = EndWait<kMode>(call.wait);
  // Waits that begin and end in calls of their own may overlap: CloseRecord looks at all that Mode::kAny has to.
  const uint64_t nesting = CloseRecord<Mode::kAny, true>(call.wait, ended, more_state_bits);
  const uint64_t wait_ps = DurationOf<kMode>(call.wait, ended);
  add(ended.timed, wait_ps);
  AddToThreadCell(ThreadCell<kMode>(call.wait), ended.timed, wait_ps, count);
  LeaveProbe(*call.wait.thread, nesting);
}

// `rows` may be 0: the time counts, and no event.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndTableIo(const TableWait& call, uint64_t rows) {
  if (ShmWaitRecord* record = Anew(call.wait.record); record != nullptr && record->state.load(kRelaxed) == call.wait.begun_state) {
    record->bytes.store(rows, kRelease);
  }
  EndTableWait<kMode>(call, rows, kRecordHasBytes, [&](bool timed, uint64_t wait_ps) {
    AddToTable<ResetGroup::kTableIo>(call, call.index, call.handle->table->io_flags, timed, wait_ps, rows);
  });
}

// is_held: the caller has the lock now, and the handle's row shows it.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndTableLock(const TableWait& call, bool is_held) {
  EndTableWait<kMode>(call, 1, 0, [&](bool timed, uint64_t wait_ps) {
    if (is_held) ShowLock(*call.handle, kOperations[static_cast<uint32_t>(call.operation)].lane);
    ShmTable* const table = call.handle->table;
    const bool has_room = (table->facts.load(kRelaxed) & kTableHasLocks) != 0;
    AddToTable<ResetGroup::kTableLock>(call, has_room ? table : nullptr, table->lock_flags, timed, wait_ps, 1);
  });
}

}  // namespace perfschema
