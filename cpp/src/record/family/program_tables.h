// record/family/program_tables.h: tables of the program: known by name, used through handles.
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

#include "record/probe/fast_path.h"

namespace perfschema {

// Private tables. Under the cold lock, once.
bool StartTables();

// An index of a handle.
struct HandleIndex {
  ShmIndex* index;      // nullptr: it has no statistics
  uint64_t index_name;  // as in ShmWaitDetails; 0 = none
};

// An open table: private memory of the process. pfs_table of abi.h is its beginning. Its memory stays when it is closed, for the next
// handle that is opened: a program that goes on with a handle it has closed does nothing with it, and a wait on it that ends later counts
// for its instrument. Threads: constant while it is open; its row in the segment has one writer.
struct TableHandle : pfs_table {
  ShmTable* table;
  ShmTableHandle* row;
  uint64_t identity;
  uint64_t flags_and_name, version_and_type;  // as in ShmWaitDetails
  uint16_t io_class, lock_class;
  ShmTable* lock_table;   // the table; nullptr: its locks have no statistics
  HandleIndex unindexed;  // rows reached through no index
  uint32_t index_count;
  uint32_t index_capacity;
  HandleIndex* indexes;  // behind this struct
  TableHandle* next_closed;
};
inline TableHandle& AsHandle(pfs_table* table) { return *static_cast<TableHandle*>(table); }

struct TableName {
  ObjectType type;  // kTable or kTemporaryTable
  std::string_view schema, name;
};

// Makes the table of that name known, and returns a handle of it that belongs to the calling thread. `identity` 0 = the handle's own
// address. Indexes are known by name; those of an earlier open stay. Returns nullptr if pfs is off, or if an array is full, which is
// counted. Preserves errno. Cold, and so are all below.
TableHandle* OpenTable(const TableName& table, uint64_t identity, const char* const* index_names, uint32_t index_count);
void CloseTable(TableHandle* handle);
// Drops the table: its rows go, its statistics stay with the instruments. Handles that are open count for the instruments from here on.
void DropTable(const TableName& table);

// Gives the handle to the calling thread, or to nobody (semantics.md L5).
void BindTable(TableHandle& handle);
void UnbindTable(TableHandle& handle);

// Computes the flag words of all tables after a change of the setup; and what setup_objects says of each table. REQUIRES: cold lock.
void RefreshTables();
void ReapplyObjectRules();

// Returns what setup_objects says of an object: kTableEnabled | kTableTimed. Defined in setup/, which knows the rules. REQUIRES: cold lock.
uint32_t ObjectBits(ObjectType type, std::string_view schema, std::string_view name);
// The same of "SCHEMA\0NAME".
inline uint32_t ObjectBits(ObjectType type, std::string_view name) {
  const size_t end = name.find('\0');
  return ObjectBits(type, name.substr(0, end), name.substr(end + 1));
}

constexpr bool IsExternal(uint8_t lane) { return lane == kReadExternalLane || lane == kWriteExternalLane; }
// These two change INTERNAL_LOCK and EXTERNAL_LOCK of the handle's row. REQUIRES: the caller uses the handle. Release: pairs with
// ReadTableHandle.
PFS_ALWAYS_INLINE void ShowLock(const TableHandle& handle, uint8_t lane) {
  handle.row->locks[IsExternal(lane) ? 1 : 0].store(static_cast<uint16_t>(lane + 1), kRelease);
}
inline void HideLock(const TableHandle& handle, bool is_external) { handle.row->locks[is_external ? 1 : 0].store(0, kRelease); }

// ---- Waits -------------------------------------------------------------------------------------------------------------------------

// A wait in progress lies on the caller's stack.
struct TableWait {
  Wait wait;
  const TableHandle* handle;
  uint8_t lane;
  ShmIndex* index;  // of the rows
};

// The hooks of the fast path for a begin.
struct TableBegin {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;

  const TableHandle& handle;
  Operation called;
  uint32_t class_of_wait;
  HandleIndex index;  // of the rows

  PFS_ALWAYS_INLINE Operation operation() const { return called; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return class_of_wait; }
  PFS_ALWAYS_INLINE uint64_t object() const { return handle.identity; }
  PFS_ALWAYS_INLINE WaitDetails Details() const {
    WaitDetails details;
    details.state_bits = kRecordHasName | kRecordHasSchema | (index.index_name != 0 ? kRecordHasIndex : 0);
    details.flags_and_name = handle.flags_and_name;
    details.version_and_type = handle.version_and_type;
    details.index_name = index.index_name;
    details.outlives_call = true;
    return details;
  }
  PFS_ALWAYS_INLINE uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) const {
    const WaitDetails details = Details();
    perfschema::WriteDetails(thread, record, details);
    return details.state_bits;
  }
};

// A wait for rows counts on an index, a wait for a lock on the table. Object() is nullptr if it has no statistics. `result`
// is what the program passes to the end.
struct RowsOf {
  static constexpr ResetGroup kGroup = ResetGroup::kTableIo;
  static constexpr CellKind kKind = CellKind::kIndex;
  static constexpr uint64_t kEndBits = kRecordHasBytes;
  static const HalfWord& Flags(const TableHandle& handle) { return handle.table->io_flags; }
  // `index` -1 = none. Rows are inserted through none (semantics.md L7).
  PFS_ALWAYS_INLINE static TableBegin Begin(const TableHandle& handle, Operation operation, int index) {
    const bool has_index = static_cast<uint32_t>(index) < handle.index_count && operation != Operation::kInsert;
    const HandleIndex& found = has_index ? handle.indexes[index] : handle.unindexed;
    return {handle, operation, handle.io_class, {found.index, found.index_name}};
  }
  static ShmIndex* Object(const TableWait& call) { return call.index; }
  static uint32_t IndexOf(const ShmIndex* index) { return static_cast<uint32_t>(index - g_runtime.indexes); }
  static ShmCellList* Lanes(ShmIndex* index) { return index->lanes; }
  static uint64_t Count(uint64_t result) { return result; }  // 0: the time counts, and no event
  static void Ended(const TableWait&, uint64_t) {}
};
struct LocksOf {
  static constexpr ResetGroup kGroup = ResetGroup::kTableLock;
  static constexpr CellKind kKind = CellKind::kTable;
  static constexpr uint64_t kEndBits = 0;
  static const HalfWord& Flags(const TableHandle& handle) { return handle.table->lock_flags; }
  PFS_ALWAYS_INLINE static TableBegin Begin(const TableHandle& handle, Operation operation, int) {
    return {handle, operation, handle.lock_class, {}};
  }
  static ShmTable* Object(const TableWait& call) { return call.handle->lock_table; }
  static uint32_t IndexOf(const ShmTable* table) { return static_cast<uint32_t>(table - g_runtime.tables); }
  static ShmCellList* Lanes(ShmTable* table) { return table->lock_lanes; }
  static constexpr uint64_t Count(uint64_t) { return 1; }
  // Result 0: the caller has the lock now, and the handle's row shows it.
  PFS_ALWAYS_INLINE static void Ended(const TableWait& call, uint64_t result) {
    if (result == 0) ShowLock(*call.handle, call.lane);
  }
};

// The hooks of the fast path for an end.
template <typename Of>
struct TableEnd {
  static constexpr uint64_t kEndBits = Of::kEndBits;

  const TableWait& call;
  uint64_t result;

  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord& record) const {
    if constexpr ((kEndBits & kRecordHasBytes) != 0) record.details().bytes.store(result, kRelease);  // pairs with EventReader::CopyChunk
  }
  PFS_ALWAYS_INLINE ShmCell* StatIn(const ThreadState& thread) const {
    auto* const object = Of::Object(call);
    if (object == nullptr || (Of::Flags(*call.handle).load(kRelaxed) & kFlagDead) != 0) return nullptr;
    return KnownCell(thread, Of::Lanes(object)[call.lane], [&]() PFS_INLINE_LAMBDA {
      return CellKey(Of::kKind, Of::IndexOf(object), object->version.load(kRelaxed), call.lane);
    });
  }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    return cell != nullptr && Of::Count(result) == 1 && LoadOwn(cell->gen) == Generation(ObjectDomain(Of::kGroup));
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t wait_ps) const {
    AddOneFast<kWay>(cell->seq, cell->stat, wait_ps);
    AddOneFast<kWay>(own.seq, own.stat, wait_ps);
  }
};

// Adds `count` events that were one wait to the thread's cell of the object, or to the instrument if the object is dead or has no
// statistics.
template <typename Of>
PFS_ALWAYS_INLINE void AddToTable(ThreadState& thread, const TableWait& call, bool timed, uint64_t wait_ps, uint64_t count) {
  const uint8_t lane = call.lane;
  const HalfWord& flags = Of::Flags(*call.handle);
  auto* const object = Of::Object(call);
  if (__builtin_expect(object != nullptr && (flags.load(kRelaxed) & kFlagDead) == 0, 1)) {
    ShmCell* const cell = FindCellAtHead(thread, Of::kKind, Of::IndexOf(object), object->version, lane, Of::Lanes(object)[lane], &flags);
    if (__builtin_expect(cell != nullptr, 1)) {
      const uint32_t gen = Generation(ObjectDomain(Of::kGroup));
      if (__builtin_expect(cell->gen.load(kRelaxed) != gen, 0)) {
        return AddToStaleCell(thread, *cell, call.wait.class_index, lane, timed, wait_ps, count);
      }
      return AddEventsToCell(*cell, timed, wait_ps, count);
    }
  }
  AddToClass(thread, call.wait.class_index, lane, timed, wait_ps, 0, count);
}

// Finishes a wait on the slow path, from the timer on. REQUIRES: inside the probe.
template <typename Of>
[[gnu::noinline]] void FinishTableWait(const TableWait& call, uint64_t result, uint64_t end_ticks) {
  const Wait wait = call.wait;  // in registers: the compiler need not read it again after each store
  const EndedWait ended = EndedBy(wait, end_ticks);
  const uint64_t count = Of::Count(result);
  // A record that was taken away meanwhile is another event's by now.
  if ((Of::kEndBits & kRecordHasBytes) != 0 && wait.record != nullptr && wait.record->state.load(kRelaxed) == wait.begun_state) {
    wait.record->details().bytes.store(count, kRelease);  // pairs with EventReader::CopyChunk
  }
  const uint64_t nesting = CloseRecord(wait, ended, Of::kEndBits);
  const uint64_t wait_ps = DurationOf(wait, ended);
  ThreadState& thread = *wait.thread;
  AddToTable<Of>(thread, call, ended.timed, wait_ps, count);
  AddToThreadCell(ThreadCell(wait), ended.timed, wait_ps, count);
  LeaveProbe(thread, nesting);
}

}  // namespace perfschema
