// shm/layout.h says who writes what.
#include "snapshot/program_tables.h"

#include "snapshot/object_reader.h"

namespace perfschema {
namespace {

// Splits "SCHEMA\0NAME\0COLUMN".
struct NameParts {
  std::string_view schema, name, column;
  explicit NameParts(std::string_view text) {
    for (std::string_view* part : {&schema, &name, &column}) {
      const size_t end = text.find('\0');
      *part = text.substr(0, end);
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
    }
  }
};

std::optional<uint64_t> Number(uint64_t value) { return value == 0 ? std::optional<uint64_t>() : value; }
std::optional<Text<64>> Named(std::string_view text) { return text.empty() ? std::optional<Text<64>>() : Text<64>(text); }
std::optional<uint8_t> Lane(uint32_t lane_and_one) {
  return lane_and_one == 0 || lane_and_one > kMostLanes ? std::optional<uint8_t>() : static_cast<uint8_t>(lane_and_one - 1);
}
bool IsObjectType(uint32_t type) { return type != 0 && type < std::size(kObjectTypeNames); }

Found ReadTable(const Snapshot& snapshot, uint32_t index, uint32_t wanted, TableRow* row) {
  const ShmTable* shm = snapshot.array<ArrayId::kTables>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t type = shm->type.load(kAcquire);  // pairs with the last store of the creation
    const uint32_t version = shm->version.load(kAcquire);
    const uint32_t bits = shm->bits.load(kAcquire);
    if (!IsObjectType(type) || (bits & kTableEnabled) == 0) return Found::kFree;
    std::string_view text;
    bool whole = snapshot.CopyNewName(shm->name.load(kAcquire), shm->name_version.load(kAcquire), &text);
    row->type = static_cast<ObjectType>(type);
    const NameParts parts(text);
    row->schema = parts.schema;
    row->name = parts.name;
    row->io = {};
    row->indexes.clear();  // it keeps its memory
    row->locks.reset();
    if ((wanted & kTableLocks) != 0 && (bits & kTableHasLocks) != 0) {
      row->locks.emplace();
      whole = whole && AddLanes(snapshot, shm->lock_lanes, snapshot.Reset(ObjectDomain(ResetGroup::kTableLock)), &*row->locks);
    }
    const uint32_t gen = snapshot.Reset(ObjectDomain(ResetGroup::kTableIo));
    // In a list that was taken apart, an index may belong to another table, or to none.
    for (uint32_t at = (wanted & kTableRows) == 0 ? 0 : shm->indexes.load(kAcquire);
         at != 0 && whole;) {  // pairs with the link of a new index
      const ShmIndex* one = snapshot.array<ArrayId::kIndexes>().at(at);
      whole = one != nullptr && one->table.load(kAcquire) == index && row->indexes.size() < snapshot.array<ArrayId::kIndexes>().used() &&
              snapshot.TakeStep();
      if (!whole) break;
      IndexRow& shown = row->indexes.emplace_back();
      if (const uint32_t name = one->name.load(kAcquire); name != 0) {
        whole = snapshot.CopyName(name, one->name_version.load(kAcquire), &text);
        shown.name = text;
      }
      whole = whole && AddLanes(snapshot, one->lanes, gen, &shown.io);
      row->io.Merge(shown.io);
      at = one->next.load(kAcquire);
    }
    if (shm->type.load(kAcquire) != type || shm->version.load(kRelaxed) != version) continue;
    return whole ? Found::kRead : Found::kTorn;
  }
  return Found::kTorn;
}

// Prefetches a table, as for files (objects.cpp), assuming one index. The cells of an index are prefetched when the index has arrived.
void PrefetchTable(const Snapshot& snapshot, uint64_t index, uint32_t wanted) {
  const auto& tables = snapshot.array<ArrayId::kTables>();
  const auto& indexes = snapshot.array<ArrayId::kIndexes>();
  if (const ShmTable* shm = index + kAhead < tables.used() ? tables.at(index + kAhead) : nullptr; shm != nullptr) {
    __builtin_prefetch(snapshot.array<ArrayId::kNames>().at(shm->name.load(kRelaxed)));
    if ((wanted & kTableLocks) != 0) PrefetchCells(snapshot, shm->lock_lanes);
    if ((wanted & kTableRows) != 0) __builtin_prefetch(indexes.at(shm->indexes.load(kRelaxed)));
  }
  if ((wanted & kTableRows) == 0) return;
  const ShmTable* next = index + kAhead / 2 < tables.used() ? tables.at(index + kAhead / 2) : nullptr;
  const ShmIndex* first = next == nullptr ? nullptr : indexes.at(next->indexes.load(kRelaxed));
  if (first != nullptr) PrefetchCells(snapshot, first->lanes);
}

Found ReadTableHandle(const Snapshot& snapshot, uint32_t index, TableHandleRow* row) {
  const ShmTableHandle* shm = snapshot.array<ArrayId::kTableHandles>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    uint32_t table = 0, type = 0, name = 0, name_version = 0, internal_lock = 0, external_lock = 0;
    uint64_t thread_id = 0, event_id = 0;
    const bool whole = snapshot.TryRead(shm->seq, [&] {
      table = shm->table.load(kAcquire);
      row->identity = shm->identity.load(kAcquire);
      thread_id = shm->owner_thread_id.load(kAcquire);
      event_id = shm->owner_event_id.load(kAcquire);
      internal_lock = shm->locks[0].load(kAcquire);
      external_lock = shm->locks[1].load(kAcquire);
      type = shm->type.load(kAcquire);
      name = shm->name.load(kAcquire);
      name_version = shm->name_version.load(kAcquire);
    });
    if (!whole) return Found::kTorn;
    const ShmTable* shm_table = snapshot.array<ArrayId::kTables>().at(table);
    if (shm_table == nullptr || !IsObjectType(type)) return Found::kFree;
    if ((shm_table->bits.load(kAcquire) & kTableEnabled) == 0) return Found::kFree;
    std::string_view text;
    if (!snapshot.CopyName(name, name_version, &text)) continue;  // closed meanwhile, and its table dropped
    const NameParts parts(text);
    row->type = static_cast<ObjectType>(type);
    row->schema = parts.schema;
    row->name = parts.name;
    row->owner_thread_id = Number(thread_id);
    row->owner_event_id = Number(event_id);
    row->internal_lock = Lane(internal_lock);
    row->external_lock = Lane(external_lock);
    return Found::kRead;
  }
  return Found::kTorn;
}

Found ReadMetadataLock(const Snapshot& snapshot, uint32_t index, MetadataLockRow* row) {
  const ShmMetadataLock* shm = snapshot.array<ArrayId::kMetadataLocks>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    uint32_t state = 0, source = 0, name = 0, name_version = 0;
    uint64_t thread_id = 0, event_id = 0;
    const bool whole = snapshot.TryRead(shm->seq, [&] {
      state = shm->state.load(kAcquire);  // pairs with ChangeMetadataLock
      row->identity = shm->identity.load(kAcquire);
      source = shm->source.load(kAcquire);
      thread_id = shm->owner_thread_id.load(kAcquire);
      event_id = shm->owner_event_id.load(kAcquire);
      name = shm->name.load(kAcquire);
      name_version = shm->name_version.load(kAcquire);
    });
    if (!whole) return Found::kTorn;
    if (!IsObjectType(state & 0xff)) return Found::kFree;
    std::string_view text;
    if (name != 0 && !snapshot.CopyName(name, name_version, &text)) continue;  // released meanwhile
    const NameParts parts(text);
    row->type = static_cast<ObjectType>(state & 0xff);
    row->schema = Named(parts.schema);
    row->name = Named(parts.name);
    row->column = Named(parts.column);
    row->lock_type = static_cast<uint8_t>(state >> 8);
    row->duration = static_cast<uint8_t>(state >> 16);
    row->status = static_cast<uint8_t>(state >> 24);
    row->source = snapshot.SourceText(source);
    row->owner_thread_id = Number(thread_id);
    row->owner_event_id = Number(event_id);
    return Found::kRead;
  }
  return Found::kTorn;
}

}  // namespace

void ForEachTable(const Snapshot& snapshot, uint32_t wanted, const std::function<void(const TableRow&)>& use) {
  const auto read = [wanted](const Snapshot& from, uint32_t index, TableRow* row) {
    PrefetchTable(from, index, wanted);
    return ReadTable(from, index, wanted, row);
  };
  ForEachSlot(snapshot, snapshot.array<ArrayId::kTables>(), read, use);
}
uint64_t MostTables(const Snapshot& snapshot) { return snapshot.array<ArrayId::kTables>().used(); }
uint64_t MostIndexes(const Snapshot& snapshot) { return snapshot.array<ArrayId::kIndexes>().used(); }

void ForEachTableHandle(const Snapshot& snapshot, const std::function<void(const TableHandleRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kTableHandles>(), ReadTableHandle, use);
}

void ForEachMetadataLock(const Snapshot& snapshot, const std::function<void(const MetadataLockRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kMetadataLocks>(), ReadMetadataLock, use);
}

}  // namespace perfschema
