// capi/table.cpp: tables of the program's own.
#include "record/tables.h"

#include <new>

#include "perfschema/pfs.h"

using perfschema::AsHandle;
using perfschema::IsAllOn;
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

int Begin(pfs_wait_t* wait, TableHandle& handle, const perfschema::HalfWord& flag_word, uint32_t class_index, Operation operation,
          perfschema::ShmIndex* index, const char* file, uint32_t line) {
  const uint32_t flags = flag_word.load(kRelaxed);
  if ((flags & perfschema::kFlagEnabled) == 0) return 0;
  auto& call = *new (wait->opaque) TableWait;
  const bool begun = IsAllOn(flags) ? BeginTableWait<Mode::kAllOn>(call, handle, flags, class_index, operation, index, file, line)
                                    : BeginTableWait<Mode::kAny>(call, handle, flags, class_index, operation, index, file, line);
  if (!begun) return 0;
  wait->instance = reinterpret_cast<pfs_instance_t*>(&handle);  // not NULL: the wait is looked at
  return 1;
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
  if (static_cast<uint32_t>(operation) > PFS_TABLE_DELETE) return 0;
  TableHandle& handle = AsHandle(table);
  const Operation what = Nth(Operation::kFetch, operation);
  return Begin(wait, handle, handle.table->io_flags, handle.io_class, what, IndexOfWait(handle, what, index), file, line);
}

void pfs_table_io_end_(pfs_wait_t* wait, uint64_t rows) {
  const TableWait& call = WaitIn(wait);
  if (MayEnd(call.wait)) IsAllOn(call.wait.flags) ? EndTableIo<Mode::kAllOn>(call, rows) : EndTableIo<Mode::kAny>(call, rows);
  wait->instance = nullptr;  // a second end does nothing
}

int pfs_table_lock_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock, PFS_SITE_) {
  if (static_cast<uint32_t>(lock) > PFS_TABLE_WRITE_EXTERNAL) return 0;
  TableHandle& handle = AsHandle(table);
  return Begin(wait, handle, handle.table->lock_flags, handle.lock_class, Nth(Operation::kReadNormal, lock), nullptr, file, line);
}

void pfs_table_lock_end_(pfs_wait_t* wait, int rc) {
  const TableWait& call = WaitIn(wait);
  if (MayEnd(call.wait)) IsAllOn(call.wait.flags) ? EndTableLock<Mode::kAllOn>(call, rc == 0) : EndTableLock<Mode::kAny>(call, rc == 0);
  wait->instance = nullptr;
}

void pfs_table_unlock(pfs_table_t* table) {
  if (table != nullptr) HideLocks(AsHandle(table), perfschema::kInternalLock | perfschema::kExternalLock);
}

void pfs_table_unlock_internal(pfs_table_t* table) {
  if (table != nullptr) HideLocks(AsHandle(table), perfschema::kInternalLock);
}

void pfs_table_unlock_external(pfs_table_t* table) {
  if (table != nullptr) HideLocks(AsHandle(table), perfschema::kExternalLock);
}

}  // extern "C"
