// metadata_locks; data_locks and data_lock_waits, which the program's inspectors fill at each read.
#include "perfschema/server.h"
#include "record/engine/runtime.h"
#include "record/family/data_locks.h"
#include "snapshot/program_tables.h"
#include "tables/tables.h"

namespace perfschema {
namespace {

// ---- metadata_locks --------------------------------------------------------------------------------------------------

constexpr std::string_view kLockTypes[] = {
    "INTENTION_EXCLUSIVE", "SHARED",           "SHARED_HIGH_PRIO", "SHARED_READ",          "SHARED_WRITE", "SHARED_WRITE_LOW_PRIO",
    "SHARED_UPGRADABLE",   "SHARED_READ_ONLY", "SHARED_NO_WRITE",  "SHARED_NO_READ_WRITE", "EXCLUSIVE"};
constexpr std::string_view kDurations[] = {"STATEMENT", "TRANSACTION", "EXPLICIT"};
constexpr std::string_view kStatuses[] = {"PENDING", "GRANTED", "PRE_ACQUIRE_NOTIFY", "POST_RELEASE_NOTIFY"};
static_assert(std::size(kLockTypes) == PFS_METADATA_EXCLUSIVE + 1 && std::size(kDurations) == PFS_METADATA_EXPLICIT + 1 &&
              std::size(kStatuses) == PFS_METADATA_POST_RELEASE_NOTIFY + 1);

struct MetadataLock {
  Text<64> type;
  MetadataLockRow row;
  Text<32> lock_type, duration, status;
};
constexpr auto kMetadataColumns =
    columns(col<&MetadataLock::type>("OBJECT_TYPE", Unit::kNone, "Kind of the locked object."),
            col<&MetadataLock::row, &MetadataLockRow::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of the object."),
            col<&MetadataLock::row, &MetadataLockRow::name>("OBJECT_NAME", Unit::kNone, "Name of the object."),
            col<&MetadataLock::row, &MetadataLockRow::column>("COLUMN_NAME", Unit::kNone, "Name of the column, if one is locked."),
            col<&MetadataLock::row, &MetadataLockRow::identity>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                                                                "Identity of the lock; joins events_waits_current.OBJECT_INSTANCE_BEGIN."),
            col<&MetadataLock::lock_type>("LOCK_TYPE", Unit::kNone, "Type of the lock: which other locks it allows."),
            col<&MetadataLock::duration>("LOCK_DURATION", Unit::kNone, "Until when it is held."),
            col<&MetadataLock::status>("LOCK_STATUS", Unit::kNone, "PENDING while it is waited for, GRANTED while it is held."),
            col<&MetadataLock::row, &MetadataLockRow::source>("SOURCE", Unit::kNone, "File and line of the request."),
            col<&MetadataLock::row, &MetadataLockRow::owner_thread_id>("OWNER_THREAD_ID", Unit::kNone,
                                                                       "Thread that requested it; joins threads.THREAD_ID."),
            col<&MetadataLock::row, &MetadataLockRow::owner_event_id>("OWNER_EVENT_ID", Unit::kNone, "Event in which it was requested."));

void ScanMetadataLocks(const Snapshot& snapshot, RowSink<MetadataLock> out) {
  const auto word = [](std::span<const std::string_view> words, uint8_t at) { return at < words.size() ? words[at] : std::string_view(); };
  ForEachMetadataLock(snapshot, [&](const MetadataLockRow& row) {
    out({kObjectTypeNames[static_cast<uint32_t>(row.type)], row, word(kLockTypes, row.lock_type), word(kDurations, row.duration),
         word(kStatuses, row.status)});
  });
}

// ---- data_locks, data_lock_waits -------------------------------------------------------------------------------------

// Inspectors are functions of this process: they know nothing about another process's segment.
bool IsOwn(const Snapshot& snapshot) {
  return snapshot.ok() && EnsureStarted() && &snapshot.header() == &OwnSegmentState().view().header();
}

uint64_t AddressOf(const void* object) { return reinterpret_cast<uintptr_t>(object); }
std::optional<uint64_t> Unless(uint64_t none, uint64_t value) { return value == none ? std::optional<uint64_t>() : value; }
template <uint32_t N>
std::optional<Text<N>> Kept(const Snapshot& snapshot, const char* text) {
  return text == nullptr ? std::optional<Text<N>>() : Text<N>(snapshot.Keep(CutText(text, N)));
}
template <uint32_t N>
Text<N> KeptOrEmpty(const Snapshot& snapshot, const char* text) {
  return Kept<N>(snapshot, text).value_or(Text<N>());
}

struct DataLock {
  Text<32> engine;
  Text<128> lock_id;
  std::optional<uint64_t> transaction_id, thread_id, event_id;
  std::optional<Text<64>> schema, name, partition, subpartition, index_name;
  uint64_t object;
  Text<32> type, mode, status;
  std::optional<Text<8192>> data;
};
constexpr auto kDataLockColumns =
    columns(col<&DataLock::engine>("ENGINE", Unit::kNone, "Part of the program that manages the lock."),
            col<&DataLock::lock_id>("ENGINE_LOCK_ID", Unit::kNone, "Identity of the lock in its engine."),
            col<&DataLock::transaction_id>("ENGINE_TRANSACTION_ID", Unit::kNone, "Transaction that requested it."),
            col<&DataLock::thread_id>("THREAD_ID", Unit::kNone, "Thread that requested it; joins threads.THREAD_ID."),
            col<&DataLock::event_id>("EVENT_ID", Unit::kNone, "Event in which it was requested."),
            col<&DataLock::schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of the locked table."),
            col<&DataLock::name>("OBJECT_NAME", Unit::kNone, "Locked table, or table of the locked object."),
            col<&DataLock::partition>("PARTITION_NAME", Unit::kNone, "Partition of the table."),
            col<&DataLock::subpartition>("SUBPARTITION_NAME", Unit::kNone, "Subpartition."),
            col<&DataLock::index_name>("INDEX_NAME", Unit::kNone, "Index of the locked entry."),
            col<&DataLock::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Address of the lock."),
            col<&DataLock::type>("LOCK_TYPE", Unit::kNone, "Locked data, in the terms of the engine."),
            col<&DataLock::mode>("LOCK_MODE", Unit::kNone, "Mode of the lock, in the terms of the engine."),
            col<&DataLock::status>("LOCK_STATUS", Unit::kNone, "Whether the lock is held or waited for, in the terms of the engine."),
            col<&DataLock::data>("LOCK_DATA", Unit::kNone, "Value that is locked.").literals());

template <typename Row>
struct Pull {
  const Snapshot& snapshot;
  RowSink<Row> out;
};

void ScanLocks(const Snapshot& snapshot, RowSink<DataLock> out) {
  if (!IsOwn(snapshot)) return;
  Pull<DataLock> pull{snapshot, out};
  const auto add = [](void* context, const char* engine, const pfs_data_lock_t& lock) {
    const auto& [from, to] = *static_cast<Pull<DataLock>*>(context);
    to({KeptOrEmpty<32>(from, engine), KeptOrEmpty<128>(from, lock.lock_id), Unless(PFS_NO_TRANSACTION, lock.transaction_id),
        Unless(0, lock.thread_id), Unless(0, lock.event_id), Kept<64>(from, lock.schema), Kept<64>(from, lock.name),
        Kept<64>(from, lock.partition), Kept<64>(from, lock.subpartition), Kept<64>(from, lock.index_name), AddressOf(lock.object),
        KeptOrEmpty<32>(from, lock.lock_type), KeptOrEmpty<32>(from, lock.lock_mode), KeptOrEmpty<32>(from, lock.lock_status),
        Kept<8192>(from, lock.lock_data)});
  };
  pfs_data_locks rows{add, &pull, nullptr};
  ScanDataLocks(&rows);
}

struct LockEnd {
  Text<128> lock_id;
  std::optional<uint64_t> transaction_id, thread_id, event_id;
  uint64_t object;

  LockEnd(const Snapshot& snapshot, const pfs_data_lock_end_t& end)
      : lock_id(KeptOrEmpty<128>(snapshot, end.lock_id)),
        transaction_id(Unless(PFS_NO_TRANSACTION, end.transaction_id)),
        thread_id(Unless(0, end.thread_id)),
        event_id(Unless(0, end.event_id)),
        object(AddressOf(end.object)) {}

  template <auto... Path>
  static constexpr auto Columns(std::string_view side, std::string_view who) {
    return columns(
        col<Path..., &LockEnd::lock_id>({side, "_ENGINE_LOCK_ID"}, Unit::kNone,
                                        {"Lock that is ", who, "; joins data_locks.ENGINE_LOCK_ID."}),
        col<Path..., &LockEnd::transaction_id>({side, "_ENGINE_TRANSACTION_ID"}, Unit::kNone, {"Transaction whose lock is ", who, "."}),
        col<Path..., &LockEnd::thread_id>({side, "_THREAD_ID"}, Unit::kNone, {"Thread whose lock is ", who, "; joins threads.THREAD_ID."}),
        col<Path..., &LockEnd::event_id>({side, "_EVENT_ID"}, Unit::kNone, {"Event that requested the lock that is ", who, "."}),
        col<Path..., &LockEnd::object>({side, "_OBJECT_INSTANCE_BEGIN"}, Unit::kNone, {"Address of the lock that is ", who, "."}));
  }
};
struct DataLockWait {
  Text<32> engine;
  LockEnd requesting, blocking;
};
constexpr auto kDataLockWaitColumns =
    columns(col<&DataLockWait::engine>("ENGINE", Unit::kNone, "Part of the program that manages the locks."),
            LockEnd::Columns<&DataLockWait::requesting>("REQUESTING", "waited for"),
            LockEnd::Columns<&DataLockWait::blocking>("BLOCKING", "in the way"));

void ScanLockWaits(const Snapshot& snapshot, RowSink<DataLockWait> out) {
  if (!IsOwn(snapshot)) return;
  Pull<DataLockWait> pull{snapshot, out};
  const auto add = [](void* context, const char* engine, const pfs_data_lock_wait_t& wait) {
    const auto& [from, to] = *static_cast<Pull<DataLockWait>*>(context);
    to({KeptOrEmpty<32>(from, engine), LockEnd(from, wait.requesting), LockEnd(from, wait.blocking)});
  };
  pfs_data_lock_waits rows{add, &pull, nullptr};
  ScanDataLockWaits(&rows);
}

}  // namespace

constexpr TableDef tables::metadata_locks{
    .doc = "The metadata locks that are held or requested.",
    .key = {"OBJECT_INSTANCE_BEGIN"},
    .columns = columns_of<kMetadataColumns>,
    .scan = scan<&ScanMetadataLocks>,
};
static_assert(ok(tables::metadata_locks));

constexpr TableDef tables::data_locks{
    .doc = "The locks on data that are held or requested, as the program reports them at each read; own process only.",
    .key = {"ENGINE_LOCK_ID", "ENGINE"},
    .columns = columns_of<kDataLockColumns>,
    .scan = scan<&ScanLocks>,
};
static_assert(ok(tables::data_locks));

constexpr TableDef tables::data_lock_waits{
    .doc = "Waits of one transaction for a data lock of another, as the program reports them at each read; own process only.",
    .key = {"REQUESTING_ENGINE_LOCK_ID", "BLOCKING_ENGINE_LOCK_ID", "ENGINE"},
    .columns = columns_of<kDataLockWaitColumns>,
    .scan = scan<&ScanLockWaits>,
};
static_assert(ok(tables::data_lock_waits));

}  // namespace perfschema
