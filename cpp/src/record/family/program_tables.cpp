#include "record/family/program_tables.h"

#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/hash.h"
#include "base/private_memory.h"
#include "record/engine/classes.h"
#include "record/engine/names.h"
#include "record/engine/slots.h"

namespace perfschema {
namespace {

// Buckets of a hash of (type, name); chains run through ShmTable::hash_next. Guarded by the cold lock, as all counts below.
constexpr uint32_t kTableBuckets = 1u << 14;
uint32_t* table_buckets = nullptr;

// Tables whose locks have statistics.
uint64_t tables_with_locks = 0;

uint32_t HashOf(ObjectType type, std::string_view name) { return Hash(static_cast<uint64_t>(type)).Add(name).folded(); }

uint32_t IndexOf(const ShmTable& table) { return static_cast<uint32_t>(&table - g_runtime.tables); }
uint32_t IndexOf(const ShmTableHandle& handle) { return static_cast<uint32_t>(&handle - g_runtime.table_handles); }

// REQUIRES: cold lock, for all below.

uint16_t ClassOf(Family family) { return static_cast<uint16_t>(ClassOfKey(family, 1)); }

uint32_t Filtered(uint32_t flags, uint32_t bits) {
  if ((bits & kTableEnabled) == 0) return 0;
  return (bits & kTableTimed) != 0 ? flags : flags & ~(kFlagTimed | kFlagSampled);
}

void RefreshTable(ShmTable& table) {
  const uint32_t bits = table.bits.load(kRelaxed);
  const uint32_t dead = table.io_flags.load(kRelaxed) & kFlagDead;
  table.io_flags.store(Filtered(g_runtime.classes[ClassOf(Family::kTableIo)].flags.load(kRelaxed), bits) | dead, kRelaxed);
  table.lock_flags.store(Filtered(g_runtime.classes[ClassOf(Family::kTableLock)].flags.load(kRelaxed), bits) | dead, kRelaxed);
}

// Finds or makes an index of a table. Returns nullptr if the array is full, and counts that.
ShmIndex* FindIndex(ShmTable& table, std::string_view name) {
  name = CutText(name, kObjectNameWidth);
  HalfWord* end = &table.indexes;
  for (uint32_t at = end->load(kRelaxed); at != 0; at = end->load(kRelaxed)) {
    if (NameText(g_runtime.indexes[at].name.load(kRelaxed)) == name) return &g_runtime.indexes[at];
    end = &g_runtime.indexes[at].next;
  }
  const uint64_t slot = AllocateSlot(ArrayId::kIndexes, g_runtime.indexes, &ShmIndex::next);
  const uint32_t granule = slot == 0 || name.empty() ? 0 : AcquireName(name);
  if (slot != 0 && granule == 0 && !name.empty()) {
    FreeSlot(ArrayId::kIndexes, g_runtime.indexes, &ShmIndex::next, slot);
  } else if (slot != 0) {
    ShmIndex& index = g_runtime.indexes[slot];
    index.version.fetch_add(1, kRelaxed);
    index.name.store(granule, kRelaxed);
    index.name_version.store(NameVersion(granule), kRelaxed);
    for (ShmCellList& lane : index.lanes) lane.first.store(0, kRelaxed);
    index.next.store(0, kRelaxed);
    index.table.store(IndexOf(table), kRelease);        // live from here on; pairs with ReadTable
    end->store(static_cast<uint32_t>(slot), kRelease);  // pairs with ReadTable: the index is whole before it is in the list
    return &index;
  }
  CountLoss(Loss::kIndexStat);
  return nullptr;
}

ShmTable* FindTable(ObjectType type, std::string_view name, uint32_t hash) {
  for (uint32_t at = table_buckets[hash % kTableBuckets]; at != 0; at = g_runtime.tables[at].hash_next.load(kRelaxed)) {
    ShmTable& table = g_runtime.tables[at];
    if (table.hash.load(kRelaxed) == hash && table.type.load(kRelaxed) == static_cast<uint32_t>(type) &&
        NameText(table.name.load(kRelaxed)) == name) {
      return &table;
    }
  }
  return nullptr;
}

ShmTable* MakeTable(ObjectType type, std::string_view name, uint32_t hash) {
  const uint64_t slot = AllocateSlot(ArrayId::kTables, g_runtime.tables, &ShmTable::hash_next);
  if (slot == 0) return nullptr;
  const uint32_t granule = AcquireName(name);
  if (granule == 0) {
    FreeSlot(ArrayId::kTables, g_runtime.tables, &ShmTable::hash_next, slot);
    return nullptr;
  }
  ShmTable& table = g_runtime.tables[slot];
  table.version.fetch_add(1, kRelaxed);
  const bool has_locks = tables_with_locks < static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::max_table_lock_stat));
  has_locks ? ++tables_with_locks : (CountLoss(Loss::kTableLockStat), 0);
  table.bits.store(ObjectBits(type, name) | (has_locks ? kTableHasLocks : 0), kRelaxed);
  table.io_flags.store(0, kRelaxed);  // not dead
  RefreshTable(table);
  table.name.store(granule, kRelaxed);
  table.name_version.store(NameVersion(granule), kRelaxed);
  table.handles.store(0, kRelaxed);
  table.indexes.store(0, kRelaxed);
  for (ShmCellList& lane : table.lock_lanes) lane.first.store(0, kRelaxed);
  table.hash.store(hash, kRelaxed);
  table.hash_next.store(table_buckets[hash % kTableBuckets], kRelaxed);
  table_buckets[hash % kTableBuckets] = static_cast<uint32_t>(slot);
  table.type.store(static_cast<uint32_t>(type), kRelease);  // last: live from here on; pairs with ReadTable
  return &table;
}

void TakeFromBucket(const ShmTable& table) {
  const uint32_t index = IndexOf(table), next = table.hash_next.load(kRelaxed);
  uint32_t& head = table_buckets[table.hash.load(kRelaxed) % kTableBuckets];
  if (head == index) {
    head = next;
    return;
  }
  for (uint32_t at = head; at != 0; at = g_runtime.tables[at].hash_next.load(kRelaxed)) {
    if (g_runtime.tables[at].hash_next.load(kRelaxed) != index) continue;
    g_runtime.tables[at].hash_next.store(next, kRelaxed);
    return;
  }
}

// A dropped table goes when no handle reaches it any more.
void GiveTableIfUnused(ShmTable& table) {
  if ((table.io_flags.load(kRelaxed) & kFlagDead) == 0 || table.handles.load(kRelaxed) != 0) return;
  for (uint32_t at = table.indexes.load(kRelaxed); at != 0;) {
    ShmIndex& index = g_runtime.indexes[at];
    const uint32_t next = index.next.load(kRelaxed);
    ReleaseName(index.name.load(kRelaxed));
    FreeSlot(ArrayId::kIndexes, g_runtime.indexes, &ShmIndex::next, at);
    at = next;
  }
  table.indexes.store(0, kRelease);  // pairs with ReadTable
  if ((table.bits.load(kRelaxed) & kTableHasLocks) != 0) --tables_with_locks;
  ReleaseName(table.name.load(kRelaxed));
  table.io_flags.store(0, kRelaxed);
  FreeSlot(ArrayId::kTables, g_runtime.tables, &ShmTable::hash_next, IndexOf(table));
}

void KillTable(ShmTable& table) {
  TakeFromBucket(table);
  // Hidden as a whole first: nobody shows a part of it. Until they are buried the cells count for the instruments from where they are.
  const auto hide = [](void* object) {
    auto* dead = static_cast<ShmTable*>(object);
    dead->io_flags.fetch_or(kFlagDead, kRelaxed);
    dead->lock_flags.fetch_or(kFlagDead, kRelaxed);
    dead->type.store(0, kRelease);  // pairs with ReadTable
  };
  const uint64_t key = CellKey(CellKind::kTable, static_cast<uint32_t>(&table - g_runtime.tables), table.version.load(kRelaxed), 0);
  RetireObject(ClassOf(Family::kTableLock), key, table.lock_lanes, nullptr, hide, &table);
  for (uint32_t at = table.indexes.load(kRelaxed); at != 0; at = g_runtime.indexes[at].next.load(kRelaxed)) {
    const auto hide_index = [](void* object) { static_cast<ShmIndex*>(object)->table.store(0, kRelease); };
    const uint64_t index_key = CellKey(CellKind::kIndex, at, g_runtime.indexes[at].version.load(kRelaxed), 0);
    RetireObject(ClassOf(Family::kTableIo), index_key, g_runtime.indexes[at].lanes, nullptr, hide_index, &g_runtime.indexes[at]);
  }
  GiveTableIfUnused(table);
}

// A closed handle is of a table that has been dropped, is not instrumented, and has no row.
ShmTable no_table;
ShmTableHandle no_row;
TableHandle* closed_handles = nullptr;

void Close(TableHandle& handle) {
  no_table.io_flags.store(kFlagDead, kRelaxed);
  no_table.lock_flags.store(kFlagDead, kRelaxed);
  handle.flags = reinterpret_cast<const uint32_t*>(&no_table.io_flags);
  handle.table = &no_table;
  handle.row = &no_row;
  handle.lock_table = nullptr;
  handle.unindexed = {};
  handle.index_count = 0;
  handle.next_closed = closed_handles;
  closed_handles = &handle;
}

// Memory for a handle of this many indexes. nullptr: there is none.
TableHandle* NewHandle(uint32_t index_count) {
  for (TableHandle** at = &closed_handles; *at != nullptr; at = &(*at)->next_closed) {
    TableHandle* const handle = *at;
    if (handle->index_capacity < index_count) continue;
    *at = handle->next_closed;
    return handle;
  }
  void* const memory = std::malloc(sizeof(TableHandle) + index_count * sizeof(HandleIndex));
  if (memory == nullptr) return nullptr;
  auto* const handle = new (memory) TableHandle{};
  handle->indexes = reinterpret_cast<HandleIndex*>(handle + 1);
  handle->index_capacity = index_count;
  return handle;
}

// The name stays while the table has a handle.
HandleIndex InHandle(ShmIndex* index) {
  if (index == nullptr) return {};
  const uint32_t name = index->name.load(kRelaxed);
  return {index, name == 0 ? 0 : uint64_t{name} << 32 | index->name_version.load(kRelaxed)};
}

void SetOwner(ShmTableHandle& row, uint64_t thread_id, uint64_t event_id) {
  const CellWriter writer(row.seq);  // the stores below pair with ReadTableHandle
  row.owner_thread_id.store(thread_id, kRelease);
  row.owner_event_id.store(event_id, kRelease);
}

}  // namespace

bool StartTables() {
  void* const memory = MapPrivate(kTableBuckets * sizeof(uint32_t));
  if (memory == nullptr) return false;
  table_buckets = static_cast<uint32_t*>(memory);
  return true;
}

TableHandle* OpenTable(const TableName& table, uint64_t identity, const char* const* index_names, uint32_t index_count) {
  if (table.name.empty() || (table.type != ObjectType::kTable && table.type != ObjectType::kTemporaryTable) || !EnsureStarted())
    return nullptr;
  const int error = errno;
  const ThreadState* thread = CurrentThread();
  TableHandle* handle = nullptr;
  if (ColdLock lock; lock) {
    const ObjectName name{table.schema, table.name};
    const uint32_t hash = HashOf(table.type, name.view());
    ShmTable* found = FindTable(table.type, name.view(), hash);
    if (found == nullptr) found = MakeTable(table.type, name.view(), hash);
    const uint64_t slot = found == nullptr ? 0 : AllocateSlot(ArrayId::kTableHandles, g_runtime.table_handles, &ShmTableHandle::identity);
    if (slot != 0) handle = NewHandle(index_count);
    if (slot != 0 && handle == nullptr) FreeSlot(ArrayId::kTableHandles, g_runtime.table_handles, &ShmTableHandle::identity, slot);
    if (found == nullptr) CountLoss(Loss::kTableInstances);
    if (found != nullptr && handle == nullptr) CountLoss(Loss::kTableHandles);
    if (handle != nullptr) {
      handle->flags = reinterpret_cast<const uint32_t*>(&found->io_flags);
      handle->table = found;
      handle->row = &g_runtime.table_handles[slot];
      handle->identity = identity != 0 ? identity : reinterpret_cast<uintptr_t>(handle);
      const uint32_t name = found->name.load(kRelaxed), name_version = found->name_version.load(kRelaxed);
      handle->flags_and_name = uint64_t{name} << 32;
      handle->version_and_type = name_version | static_cast<uint64_t>(table.type) << 32;
      handle->io_class = ClassOf(Family::kTableIo);
      handle->lock_class = ClassOf(Family::kTableLock);
      handle->lock_table = (found->bits.load(kRelaxed) & kTableHasLocks) != 0 ? found : nullptr;
      handle->unindexed = {FindIndex(*found, {}), 0};
      handle->index_count = index_count;
      for (uint32_t i = 0; i < index_count; ++i) {
        const char* index = index_names[i];
        handle->indexes[i] = index == nullptr || *index == 0 ? handle->unindexed : InHandle(FindIndex(*found, index));
      }
      ShmTableHandle& row = *handle->row;
      const CellWriter writer(row.seq);  // the stores below pair with ReadTableHandle
      row.identity.store(handle->identity, kRelease);
      row.owner_thread_id.store(thread == nullptr ? 0 : thread->thread_id, kRelease);
      row.owner_event_id.store(thread == nullptr ? 0 : CurrentEventId(*thread), kRelease);
      for (auto& lock : row.locks) lock.store(0, kRelease);
      row.type.store(static_cast<uint32_t>(table.type), kRelease);
      row.name.store(name, kRelease);
      row.name_version.store(name_version, kRelease);
      row.table.store(IndexOf(*found), kRelease);
      found->handles.fetch_add(1, kRelaxed);
    }
  }
  errno = error;
  return handle;
}

void CloseTable(TableHandle* handle) {
  const int error = errno;
  if (ColdLock lock; lock && handle->table != &no_table) {
    ShmTable& table = *handle->table;
    ShmTableHandle& row = *handle->row;
    {
      const CellWriter writer(row.seq);  // the stores below pair with ReadTableHandle
      row.table.store(0, kRelease);
      FreeSlot(ArrayId::kTableHandles, g_runtime.table_handles, &ShmTableHandle::identity, IndexOf(row));
    }
    Close(*handle);
    table.handles.fetch_sub(1, kRelaxed);
    GiveTableIfUnused(table);
  }
  errno = error;
}

void DropTable(const TableName& table) {
  if (!EnsureStarted()) return;
  const int error = errno;
  if (ColdLock lock; lock && g_runtime.segment.array(ArrayId::kTables).used.load(kRelaxed) > 1) {
    const ObjectName name{table.schema, table.name};
    if (ShmTable* found = FindTable(table.type, name.view(), HashOf(table.type, name.view())); found != nullptr) KillTable(*found);
  }
  errno = error;
}

void BindTable(TableHandle& handle) {
  const ThreadState* thread = CurrentThread();
  SetOwner(*handle.row, thread == nullptr ? 0 : thread->thread_id, thread == nullptr ? 0 : CurrentEventId(*thread));
}

void UnbindTable(TableHandle& handle) { SetOwner(*handle.row, 0, 0); }

void RefreshTables() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kTables).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmTable& table = g_runtime.tables[i];
    if (table.type.load(kRelaxed) != 0 || table.handles.load(kRelaxed) != 0) RefreshTable(table);
  }
}

void ReapplyObjectRules() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kTables).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmTable& table = g_runtime.tables[i];
    const auto type = static_cast<ObjectType>(table.type.load(kRelaxed));
    if (type == ObjectType::kNone) continue;
    const uint32_t bits = ObjectBits(type, NameText(table.name.load(kRelaxed)));
    table.bits.store(bits | (table.bits.load(kRelaxed) & kTableHasLocks), kRelaxed);
  }
  RefreshTables();
}

}  // namespace perfschema
