// capi/table.cpp: tables of the program's own.
#include "record/family/tables.h"

#include <new>

#include "perfschema/pfs.h"

using perfschema::AsHandle;
using perfschema::IsAllOn;
using perfschema::IsTimedOnly;
using perfschema::kRelaxed;
using perfschema::Mode;
using perfschema::ObjectType;
using perfschema::Operation;
using perfschema::TableHandle;
using perfschema::TableName;
using perfschema::TableWait;

namespace {

static_assert(sizeof(TableWait) <= sizeof(pfs_wait_t::opaque) && alignof(TableWait) <= alignof(pfs_wait_t));
static_assert(PFS_OBJECT_TABLE == static_cast<int>(ObjectType::kTable) && PFS_OBJECT_TEMPORARY_TABLE == static_cast<int>(ObjectType::kTemporaryTable));

TableWait& WaitIn(pfs_wait_t* wait) { return *std::launder(reinterpret_cast<TableWait*>(wait->opaque)); }

TableName NameOf(enum pfs_object_type type, const char* schema, const char* name) {
  return {static_cast<ObjectType>(type), schema != nullptr ? schema : "", name != nullptr ? name : ""};
}

// Operations stand in the order of the C enumerations.
constexpr Operation Nth(Operation first, int n) { return static_cast<Operation>(static_cast<int>(first) + n); }
static_assert(Nth(Operation::kFetch, PFS_TABLE_DELETE) == Operation::kDeleteRow);
static_assert(Nth(Operation::kReadNormal, PFS_TABLE_WRITE_EXTERNAL) == Operation::kWriteExternal);

// What a wait is for, from the arguments of its begin.
struct RowsWanted {
  const TableHandle& handle;
  Operation operation;
  int index_number;
  const perfschema::HalfWord& flags() const { return handle.table->io_flags; }
  uint32_t class_index() const { return handle.io_class; }
  perfschema::ShmIndex* index() const { return IndexOfWait(handle, operation, index_number); }
};
struct LockWanted {
  const TableHandle& handle;
  Operation operation;
  const perfschema::HalfWord& flags() const { return handle.table->lock_flags; }
  uint32_t class_index() const { return handle.lock_class; }
  perfschema::ShmIndex* index() const { return nullptr; }
};

template <Mode kMode, typename Wanted>
PFS_ALWAYS_INLINE int Begin(pfs_wait_t* wait, const Wanted& wanted, uint32_t flags, const char* file, uint32_t line) {
  auto& call = *new (wait->opaque) TableWait;
  if (!BeginTableWait<kMode>(call, wanted.handle, flags, wanted.class_index(), wanted.operation, wanted.index(), file, line)) return 0;
  wait->instance = reinterpret_cast<pfs_instance_t*>(wait);  // not NULL: the wait is looked at
  return 1;
}

// The general mode, out of the way of the usual one.
template <typename Wanted>
[[gnu::noinline]] int BeginAny(pfs_wait_t* wait, Wanted wanted, const char* file, uint32_t line) {
  const uint32_t flags = wanted.flags().load(kRelaxed);
  if (IsTimedOnly(flags)) return Begin<Mode::kTimed>(wait, wanted, flags, file, line);
  return (flags & perfschema::kFlagEnabled) != 0 ? Begin<Mode::kAny>(wait, wanted, flags, file, line) : 0;
}

template <typename Wanted>
PFS_ALWAYS_INLINE int Begin(pfs_wait_t* wait, Wanted wanted, const char* file, uint32_t line) {
  const uint32_t flags = wanted.flags().load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return BeginAny(wait, wanted, file, line);
  return Begin<Mode::kAllOn>(wait, wanted, flags, file, line);
}

[[gnu::noinline]] void EndIoAny(const TableWait& call, uint64_t rows) {
  IsTimedOnly(call.wait.flags) ? EndTableIo<Mode::kTimed>(call, rows) : EndTableIo<Mode::kAny>(call, rows);
}
[[gnu::noinline]] void EndLockAny(const TableWait& call, bool is_held) {
  IsTimedOnly(call.wait.flags) ? EndTableLock<Mode::kTimed>(call, is_held) : EndTableLock<Mode::kAny>(call, is_held);
}

}  // namespace

extern "C" {

pfs_table_t* pfs_table_open(enum pfs_object_type type, const char* schema, const char* name, const void* identity, const char* const* index_names,
                            int index_count) {
  return perfschema::OpenTable(NameOf(type, schema, name), reinterpret_cast<uintptr_t>(identity), index_names,
                               index_names == nullptr || index_count < 0 ? 0 : static_cast<uint32_t>(index_count));
}

void pfs_table_close(pfs_table_t* table) {
  if (table != nullptr) perfschema::CloseTable(&AsHandle(table));
}

void pfs_table_drop(enum pfs_object_type type, const char* schema, const char* name) { perfschema::DropTable(NameOf(type, schema, name)); }

void pfs_table_bind(pfs_table_t* table) {
  if (table != nullptr) perfschema::BindTable(AsHandle(table));
}

void pfs_table_unbind(pfs_table_t* table) {
  if (table != nullptr) perfschema::UnbindTable(AsHandle(table));
}

int pfs_table_io_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_io operation, int index, PFS_SITE_) {
  if (__builtin_expect(static_cast<uint32_t>(operation) > PFS_TABLE_DELETE, 0)) return 0;
  return Begin(wait, RowsWanted{AsHandle(table), Nth(Operation::kFetch, operation), index}, file, line);
}

void pfs_table_io_end_(pfs_wait_t* wait, uint64_t rows) {
  const TableWait& call = WaitIn(wait);
  wait->instance = nullptr;  // a second end does nothing
  if (__builtin_expect(!MayEnd(call.wait), 0)) return;
  if (__builtin_expect(!IsAllOn(call.wait.flags), 0)) return EndIoAny(call, rows);
  EndTableIo<Mode::kAllOn>(call, rows);
}

int pfs_table_lock_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock, PFS_SITE_) {
  if (__builtin_expect(static_cast<uint32_t>(lock) > PFS_TABLE_WRITE_EXTERNAL, 0)) return 0;
  return Begin(wait, LockWanted{AsHandle(table), Nth(Operation::kReadNormal, lock)}, file, line);
}

void pfs_table_lock_end_(pfs_wait_t* wait, int rc) {
  const TableWait& call = WaitIn(wait);
  wait->instance = nullptr;
  if (__builtin_expect(!MayEnd(call.wait), 0)) return;
  if (__builtin_expect(!IsAllOn(call.wait.flags), 0)) return EndLockAny(call, rc == 0);
  EndTableLock<Mode::kAllOn>(call, rc == 0);
}

void pfs_table_unlock(pfs_table_t* table) {
  pfs_table_unlock_internal(table);
  pfs_table_unlock_external(table);
}

void pfs_table_unlock_internal(pfs_table_t* table) {
  if (table != nullptr) HideLock(AsHandle(table), false);
}

void pfs_table_unlock_external(pfs_table_t* table) {
  if (table != nullptr) HideLock(AsHandle(table), true);
}

}  // extern "C"
