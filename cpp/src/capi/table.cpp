// capi/table.cpp: tables of the program's own.
#include <new>

#include "perfschema/server.h"
#include "record/family/program_tables.h"

using namespace perfschema;

namespace {

static_assert(sizeof(TableWait) <= sizeof(pfs_wait_t::opaque) && alignof(TableWait) <= alignof(pfs_wait_t));
static_assert(PFS_OBJECT_TABLE == static_cast<int>(ObjectType::kTable) &&
              PFS_OBJECT_TEMPORARY_TABLE == static_cast<int>(ObjectType::kTemporaryTable));

TableWait& TableWaitIn(pfs_wait_t* wait) { return *std::launder(reinterpret_cast<TableWait*>(wait->opaque)); }

TableName NameOf(enum pfs_object_type type, const char* schema, const char* name) {
  return {static_cast<ObjectType>(type), schema != nullptr ? schema : "", name != nullptr ? name : ""};
}

// Operations stand in the order of the C enumerations.
constexpr Operation Nth(Operation first, int n) { return static_cast<Operation>(static_cast<int>(first) + n); }
static_assert(Nth(Operation::kFetch, PFS_TABLE_DELETE) == Operation::kDeleteRow);
static_assert(Nth(Operation::kReadNormal, PFS_TABLE_WRITE_EXTERNAL) == Operation::kWriteExternal);

// Starts the TableWait in `wait`.
PFS_ALWAYS_INLINE TableWait& NewWait(pfs_wait_t* wait, const TableBegin& begin) {
  auto& call = *new (wait->opaque) TableWait;
  call.handle = &begin.handle;
  call.index = begin.index.index;
  call.lane = kOperations[static_cast<uint32_t>(begin.called)].lane;
  return call;
}
PFS_ALWAYS_INLINE int Begun(pfs_wait_t* wait) {
  wait->instance = reinterpret_cast<pfs_instance_t*>(wait);  // not NULL: the wait has an end
  return 1;
}

template <typename Of>
[[gnu::noinline]] int SlowBegin(pfs_wait_t* wait, const TableHandle& handle, Operation operation, int index, const char* file,
                                uint32_t line) {
  const uint32_t flags = Of::Flags(handle).load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return 0;
  const TableBegin begin = Of::Begin(handle, operation, index);
  TableWait& call = NewWait(wait, begin);
  if (!BeginWait<true>(call.wait, flags, begin.class_index(), operation, begin.object(), file, line, begin.Details())) return 0;
  return Begun(wait);
}

// Begins a wait that is recorded but not timed. A function of its own, as the next one: neither saves the other's registers.
template <typename Of>
[[gnu::noinline]] int BeginUntimed(pfs_wait_t* wait, const TableHandle& handle, Operation operation, int index, const char* file,
                                   uint32_t line) {
  const TableBegin begin = Of::Begin(handle, operation, index);
  if (FastBegin<Untimed>(NewWait(wait, begin).wait, begin, Of::Flags(handle).load(kRelaxed), file, line)) return Begun(wait);
  return SlowBegin<Of>(wait, handle, operation, index, file, line);
}

// Begins a wait of other settings than those of FastBegin.
template <typename Of>
[[gnu::noinline]] int BeginBySettings(pfs_wait_t* wait, const TableHandle& handle, Operation operation, int index, const char* file,
                                      uint32_t line) {
  const uint32_t flags = Of::Flags(handle).load(kRelaxed);
  const uint32_t settings = flags & kSettings;
  if (settings == kUntimedFlags) return BeginUntimed<Of>(wait, handle, operation, index, file, line);
  const auto began = [&](auto begins) PFS_INLINE_LAMBDA {
    const TableBegin begin = Of::Begin(handle, operation, index);
    return begins(NewWait(wait, begin).wait, begin.class_index());
  };
  if (settings == kTimedOnlyFlags) {
    if (began(UnrecordedBegin<Counting::kTimed>)) return Begun(wait);
  } else if (settings == kCountedFlags) {
    if (began(UnrecordedBegin<Counting::kCounted>)) return Begun(wait);
  } else if (IsSampled(flags)) {
    if (began(UnsampledBegin)) return Begun(wait);
  }
  return SlowBegin<Of>(wait, handle, operation, index, file, line);
}

template <typename Of>
PFS_ALWAYS_INLINE int Begin(pfs_wait_t* wait, const TableHandle& handle, Operation operation, int index, const char* file, uint32_t line) {
  const uint32_t flags = Of::Flags(handle).load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags), 0)) return BeginBySettings<Of>(wait, handle, operation, index, file, line);
  const TableBegin begin = Of::Begin(handle, operation, index);
  TableWait& call = NewWait(wait, begin);
  if (!FastBegin(call.wait, begin, flags, file, line)) return SlowBegin<Of>(wait, handle, operation, index, file, line);
  return Begun(wait);
}

template <typename Of>
[[gnu::noinline]] void SlowEnd(const TableWait& call, uint64_t result) {
  if (!MayEnd(call.wait)) return;
  Of::Ended(call, result);
  const uint64_t end_ticks = (call.wait.flags & kFlagTimed) != 0 ? NowTicks(call.wait.flags) : 0;
  EnterProbe(*call.wait.thread);
  FinishTableWait<Of>(call, result, end_ticks);
}

template <typename Of>
[[gnu::noinline]] void EndUntimed(const TableWait& call, uint64_t result) {
  Of::Ended(call, result);
  if (!FastEnd<Untimed>(call.wait, TableEnd<Of>{call, result}, 0)) FinishTableWait<Of>(call, result, 0);
}

// Ends a wait that was not sampled, or that only the slow path may end.
template <typename Of>
[[gnu::noinline]] void EndUnsampled(const TableWait& call, uint64_t result) {
  if (call.wait.flags != kUnsampledFlags || !MayEndUnrecorded(call.wait)) {
    return MayEndFast<Untimed>(call.wait) ? EndUntimed<Of>(call, result) : SlowEnd<Of>(call, result);
  }
  Of::Ended(call, result);
  const UnsampledEnd<TableEnd<Of>> end{{call, result}};
  if (!UnrecordedEnd<Counting::kCounted>(call.wait, end, 0)) FinishTableWait<Of>(call, result, 0);
}

template <Counting kWay, typename Of>
PFS_ALWAYS_INLINE void EndUnrecorded(const TableWait& call, uint64_t result) {
  Of::Ended(call, result);
  const uint64_t end_ticks = kWay == Counting::kTimed ? ReadCycle() : 0;
  if (!UnrecordedEnd<kWay>(call.wait, TableEnd<Of>{call, result}, end_ticks)) FinishTableWait<Of>(call, result, end_ticks);
}

// Ends a wait that FastEnd may not.
template <typename Of>
[[gnu::noinline]] void EndBySettings(const TableWait& call, uint64_t result) {
  const uint32_t flags = call.wait.flags;
  if ((flags != kCountedFlags && flags != kTimedOnlyFlags) || !MayEndUnrecorded(call.wait)) return EndUnsampled<Of>(call, result);
  if (flags == kCountedFlags) return EndUnrecorded<Counting::kCounted, Of>(call, result);
  EndUnrecorded<Counting::kTimed, Of>(call, result);
}

template <typename Of>
PFS_ALWAYS_INLINE void End(pfs_wait_t* wait, uint64_t result) {
  const TableWait& call = TableWaitIn(wait);
  wait->instance = nullptr;  // a second end does nothing
  if (!MayEndFast(call.wait)) return EndBySettings<Of>(call, result);
  Of::Ended(call, result);
  const uint64_t end_ticks = ReadCycle();
  if (!FastEnd(call.wait, TableEnd<Of>{call, result}, end_ticks)) FinishTableWait<Of>(call, result, end_ticks);
}

}  // namespace

extern "C" {

pfs_table_t* pfs_table_open(enum pfs_object_type type, const char* schema, const char* name, const void* identity,
                            const char* const* index_names, int index_count) {
  return OpenTable(NameOf(type, schema, name), reinterpret_cast<uintptr_t>(identity), index_names,
                   index_names == nullptr || index_count < 0 ? 0 : static_cast<uint32_t>(index_count));
}

void pfs_table_close(pfs_table_t* table) {
  if (table != nullptr) CloseTable(&AsHandle(table));
}

void pfs_table_drop(enum pfs_object_type type, const char* schema, const char* name) { DropTable(NameOf(type, schema, name)); }

void pfs_table_bind(pfs_table_t* table) {
  if (table != nullptr) BindTable(AsHandle(table));
}

void pfs_table_unbind(pfs_table_t* table) {
  if (table != nullptr) UnbindTable(AsHandle(table));
}

int pfs_table_io_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_io operation, int index, PFS_SITE_) {
  if (__builtin_expect(static_cast<uint32_t>(operation) > PFS_TABLE_DELETE, 0)) return 0;
  return Begin<RowsOf>(wait, AsHandle(table), Nth(Operation::kFetch, operation), index, file, line);
}

void pfs_table_io_end_(pfs_wait_t* wait, uint64_t rows) { End<RowsOf>(wait, rows); }

int pfs_table_lock_begin_(pfs_wait_t* wait, pfs_table_t* table, enum pfs_table_lock lock, PFS_SITE_) {
  if (__builtin_expect(static_cast<uint32_t>(lock) > PFS_TABLE_WRITE_EXTERNAL, 0)) return 0;
  return Begin<LocksOf>(wait, AsHandle(table), Nth(Operation::kReadNormal, lock), PFS_NO_INDEX, file, line);
}

void pfs_table_lock_end_(pfs_wait_t* wait, int rc) { End<LocksOf>(wait, static_cast<uint64_t>(rc)); }

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
