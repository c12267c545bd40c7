// record/family/tables.h: tables of the program: known by name, used through handles.
//
// A wait on rows counts in the cells of the index that it used, lane by operation; one on a lock in the cells of the table, lane by kind.
// One wait may cover many rows: each counts as an event, the time is the wait's.
//
// A table is known by (type, schema, name) from its first open to its drop. A handle is private memory that points to the table, its
// indexes and its row of table_handles. by_table is the sum over indexes. setup_objects filters the two flag words of a table once, when
// it is opened or a rule changes. A metadata lock is a row from request to release. Data locks are pulled from the program's inspectors
// when their tables are read; they are in no segment, so other processes see none.
#pragma once

#include <string_view>

#include "record/probe/wait.h"

namespace perfschema {

// Private tables. Under the cold lock, once.
bool StartTables();

// An open table: private memory of the process. pfs_table of abi.h is its beginning. Its memory stays when it is closed, for the next that is opened: a
// program that goes on with a handle it has closed does nothing with it, and a wait on it that ends later counts for its instrument.
// Threads: constant while it is open; its row in the segment has one writer.
struct TableHandle : pfs_table {
  ShmTable* table;
  ShmTableHandle* row;
  uint64_t identity;
  uint32_t name, name_version;
  ObjectType type;
  uint16_t io_class, lock_class;
  ShmTable* lock_table;  // the table; nullptr = no room for statistics of its locks
  ShmIndex* unindexed;   // rows reached through no index; nullptr = no room for its statistics, as below
  uint32_t index_count;
  uint32_t index_capacity;
  ShmIndex** indexes;    // behind this struct
  TableHandle* next_closed;
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
// The same of "SCHEMA\0NAME".
inline uint32_t ObjectFacts(ObjectType type, std::string_view name) {
  const size_t end = name.find('\0');
  return ObjectFacts(type, name.substr(0, end), name.substr(end + 1));
}

// INTERNAL_LOCK and EXTERNAL_LOCK of the handle's row. REQUIRES: called by whoever uses the handle.
constexpr bool IsExternal(uint8_t lane) { return lane == kReadExternalLane || lane == kWriteExternalLane; }
PFS_ALWAYS_INLINE void ShowLock(const TableHandle& handle, uint8_t lane) {
  handle.row->locks[IsExternal(lane) ? 1 : 0].store(static_cast<uint16_t>(lane + 1), kRelease);
}
inline void HideLock(const TableHandle& handle, bool is_external) { handle.row->locks[is_external ? 1 : 0].store(0, kRelease); }

// ---- Waits -------------------------------------------------------------------------------------------------------------------------

// A wait in progress, on the caller's stack.
struct TableWait {
  Wait wait;
  const TableHandle* handle;
  ShmIndex* index;  // of the rows
  uint8_t lane;
};

// `index` -1 = none. Rows are inserted through none (SEMANTICS L7).
PFS_ALWAYS_INLINE ShmIndex* IndexOfWait(const TableHandle& handle, Operation operation, int index) {
  if (static_cast<uint32_t>(index) >= handle.index_count || operation == Operation::kInsert) return handle.unindexed;
  return handle.indexes[index];
}

template <Mode kMode>
PFS_ALWAYS_INLINE bool BeginTableWait(TableWait& call, const TableHandle& handle, uint32_t flags, uint32_t class_index, Operation operation,
                                      ShmIndex* index, const char* file, uint32_t line) {
  call.handle = &handle;
  call.index = index;
  call.lane = kOperations[static_cast<uint32_t>(operation)].lane;
  if (kMode == Mode::kTimed || (kMode == Mode::kAny && (flags & kFlagCurrent) == 0)) return BeginWait<kMode>(call.wait, flags, class_index, operation, 0, nullptr, 0);
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
  details.outlives_call = true;
  return BeginWait<kMode, true>(call.wait, flags, class_index, operation, handle.identity, file, line, details);
}

// What a wait counts on: an index for rows, the table for locks. nullptr = no room for its statistics.
struct RowsOf {
  static constexpr ResetGroup kGroup = ResetGroup::kTableIo;
  static constexpr CellKind kKind = CellKind::kIndex;
  static ShmIndex* Object(const TableWait& call) { return call.index; }
  static const HalfWord& Flags(const TableWait& call) { return call.handle->table->io_flags; }
  static uint32_t IndexOf(const ShmIndex* index) { return static_cast<uint32_t>(index - g_runtime.indexes); }
  static ShmCellList* Lanes(ShmIndex* index) { return index->lanes; }
};
struct LocksOf {
  static constexpr ResetGroup kGroup = ResetGroup::kTableLock;
  static constexpr CellKind kKind = CellKind::kTable;
  static ShmTable* Object(const TableWait& call) { return call.handle->lock_table; }
  static const HalfWord& Flags(const TableWait& call) { return call.handle->table->lock_flags; }
  static uint32_t IndexOf(const ShmTable* table) { return static_cast<uint32_t>(table - g_runtime.tables); }
  static ShmCellList* Lanes(ShmTable* table) { return table->lock_lanes; }
};

// `count` events that were one wait: to the thread's cell of the object; where that is dead, or has no statistics, to its instrument.
template <typename Of>
PFS_ALWAYS_INLINE void AddToTable(ThreadState& thread, const TableWait& call, bool timed, uint64_t wait_ps, uint64_t count) {
  const uint8_t lane = call.lane;
  const HalfWord& flags = Of::Flags(call);
  auto* const object = Of::Object(call);
  if (__builtin_expect(object != nullptr && (flags.load(kRelaxed) & kFlagDead) == 0, 1)) {
    ShmCell* const cell = FindCellAtHead(thread, Of::kKind, Of::IndexOf(object), object->version, lane, Of::Lanes(object)[lane], &flags);
    if (__builtin_expect(cell != nullptr, 1)) {
      const uint32_t gen = Generation(ObjectDomain(Of::kGroup));
      if (__builtin_expect(cell->gen.load(kRelaxed) != gen, 0)) return AddToCell(*cell, gen, timed, wait_ps, 0, count);
      return AddEvents(cell->seq, cell->stat, timed, wait_ps, count);
    }
    if ((flags.load(kRelaxed) & kFlagDead) == 0) return;  // no room; counted as lost
  }
  AddToClass(thread, call.wait.class_index, lane, timed, wait_ps, 0, count);
}

// The same where nothing but the count is wanted.
template <typename Of>
PFS_ALWAYS_INLINE void EndCounted(const TableWait& call, uint64_t count) {
  ThreadState& thread = *call.wait.thread;
  const uint64_t nesting = thread.nesting;
  EnterProbe(thread);
  AddToTable<Of>(thread, call, false, 0, count);
  AddToThreadCell(ThreadCell<Mode::kAny>(call.wait), false, 0, count);
  LeaveProbe(thread, nesting);
}

// The end of any wait on a table: `count` events.
template <Mode kMode, typename Of>
PFS_ALWAYS_INLINE void EndTableWait(const TableWait& call, uint64_t count, uint64_t more_state_bits) {
  const Wait wait = call.wait;  // in registers: the compiler need not read it again after each store
  const EndedWait ended = EndWait<kMode>(wait);
  // Waits that begin and end in calls of their own may overlap: CloseRecord looks at all that Mode::kAny has to.
  const uint64_t nesting = CloseRecord<kMode == Mode::kTimed ? kMode : Mode::kAny, true>(wait, ended, more_state_bits);
  const uint64_t wait_ps = ended.timed ? DurationOf<kMode>(wait, ended) : 0;
  ThreadState& thread = *wait.thread;
  AddToTable<Of>(thread, call, ended.timed, wait_ps, count);
  AddToThreadCell(ThreadCell<kMode>(wait), ended.timed, wait_ps, count);
  LeaveProbe(thread, nesting);
}

// `rows` may be 0: the time counts, and no event.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndTableIo(const TableWait& call, uint64_t rows) {
  if (kMode == Mode::kAny && IsCounted(call.wait.flags)) return EndCounted<RowsOf>(call, rows);
  if (ShmWaitRecord* record = kMode == Mode::kTimed ? nullptr : Launder(call.wait.record); record != nullptr && __builtin_expect(record->state.load(kRelaxed) == call.wait.begun_state, 1)) {
    record->details().bytes.store(rows, kRelease);
  }
  EndTableWait<kMode, RowsOf>(call, rows, kRecordHasBytes);
}

// is_held: the caller has the lock now, and the handle's row shows it.
template <Mode kMode>
PFS_ALWAYS_INLINE void EndTableLock(const TableWait& call, bool is_held) {
  if (is_held) ShowLock(*call.handle, call.lane);
  if (kMode == Mode::kAny && IsCounted(call.wait.flags)) return EndCounted<LocksOf>(call, 1);
  EndTableWait<kMode, LocksOf>(call, 1, 0);
}

}  // namespace perfschema
