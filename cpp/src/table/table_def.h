// table/table_def.h: the declaration of a table: one constexpr object, from which everything else derives.
//
//   constexpr TableDef tables::mutex_instances{.doc = "...", .ops = kSelect, .key = {"OBJECT_INSTANCE_BEGIN"},
//                                              .columns = columns_of<kColumns>, .scan = scan<&ScanMutexes>};
//   static_assert(ok(tables::mutex_instances));
//
// docs/contribute/add_a_table.md is the how-to. ok() should catch every mistake that a reviewer would have to find.
#pragma once

#include <array>
#include <initializer_list>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"
#include "snapshot/snapshot.h"
#include "table/column.h"

namespace perfschema {

// Receives the rows of a scan. A row is copied and used later: its pointers must stay valid as long as the Snapshot.
// Threads: external lock.
class RawSink {
 public:
  virtual void OnRow(const void* row) = 0;
  virtual void Expect(uint64_t rows) { (void)rows; }

 protected:
  ~RawSink() = default;
};

// A typed RawSink: takes rows of one type.
template <typename Row>
class RowSink {
 public:
  explicit RowSink(RawSink& out) : out_(out) {}
  void operator()(const Row& row) const { out_.OnRow(&row); }
  // Announces the approximate number of rows, for tables with many rows.
  void Expect(uint64_t rows) const { out_.Expect(rows); }

 private:
  RawSink& out_;
};

struct ScanFunction {
  void (*call)(const Snapshot& snapshot, RawSink& out) = nullptr;
  RowTag row = 0;  // 0 = there is none
  size_t row_bytes = 0;
};
struct UpdateFunction {
  Status (*call)(const void* before, const void* after) = nullptr;
  RowTag row = 0;  // 0 = there is none
};
struct InsertFunction {
  Status (*call)(const void* row) = nullptr;
  void (*make_default)(void* row) = nullptr;
  RowTag row = 0;  // 0 = there is none
};
struct RemoveFunction {
  Status (*call)(const void* row) = nullptr;
  RowTag row = 0;  // 0 = there is none
};
struct TruncateFunction {
  Status (*call)() = nullptr;
  bool is_set = false;
  constexpr TruncateFunction() = default;
  constexpr TruncateFunction(Status (*function)()) : call(function), is_set(true) {}  // NOLINT(google-explicit-constructor)
};

namespace internal {
template <typename Row, void (*kScan)(const Snapshot&, RowSink<Row>)>
constexpr ScanFunction MakeScan() {
  // Rows are kept as bytes while an UPDATE selects its rows.
  static_assert(std::is_trivially_copyable_v<Row> && alignof(Row) <= alignof(std::max_align_t));
  return {[](const Snapshot& snapshot, RawSink& out) { kScan(snapshot, RowSink<Row>(out)); }, TagOf<Row>(), sizeof(Row)};
}
template <auto kFunction>
struct FunctionOf;
template <typename Row, void (*kScan)(const Snapshot&, RowSink<Row>)>
struct FunctionOf<kScan> {
  static constexpr ScanFunction kValue = MakeScan<Row, kScan>();
};
template <typename Row, Status (*kUpdate)(const Row&, const Row&)>
struct FunctionOf<kUpdate> {
  static constexpr UpdateFunction kValue{
      [](const void* before, const void* after) { return kUpdate(*static_cast<const Row*>(before), *static_cast<const Row*>(after)); },
      TagOf<Row>()};
};
template <auto kFunction>
struct RowFunction;
template <typename Row, Status (*kCall)(const Row&)>
struct RowFunction<kCall> {
  static Status Call(const void* row) { return kCall(*static_cast<const Row*>(row)); }
  static void MakeDefault(void* row) { new (row) Row{}; }
  static constexpr RowTag kTag = TagOf<Row>();
};
}  // namespace internal

// void Scan(const Snapshot&, RowSink<Row>): outputs every row of the table.
template <auto kScan>
inline constexpr ScanFunction scan = internal::FunctionOf<kScan>::kValue;
// Status Update(const Row& before, const Row& after): changes one row. kNotFound: the row has disappeared, and is not
// counted.
template <auto kUpdate>
inline constexpr UpdateFunction update = internal::FunctionOf<kUpdate>::kValue;

// Status Insert(const Row& row): makes a row. Columns without a value have the Row's default member initializers.
// kExists: the row exists.
template <auto kInsert>
inline constexpr InsertFunction insert{internal::RowFunction<kInsert>::Call, internal::RowFunction<kInsert>::MakeDefault,
                                       internal::RowFunction<kInsert>::kTag};
// Status Remove(const Row& row): DELETE of one row. kNotFound: the row has disappeared, and is not counted.
template <auto kRemove>
inline constexpr RemoveFunction remove{internal::RowFunction<kRemove>::Call, internal::RowFunction<kRemove>::kTag};

struct KeyColumns {
  static constexpr size_t kMost = 6;
  std::array<std::string_view, kMost> names{};
  size_t count = 0;
  constexpr KeyColumns() = default;
  constexpr KeyColumns(std::initializer_list<std::string_view> list) {
    if (list.size() > kMost) throw "too many key columns";
    for (const std::string_view name : list) names[count++] = name;
  }
  constexpr std::span<const std::string_view> get() const { return std::span(names).first(count); }
};

// Threads: immutable.
struct TableDef {
  std::string_view doc;
  uint32_t ops = kSelect;
  KeyColumns key{};
  ColumnList columns{};
  ScanFunction scan{};
  TruncateFunction truncate{};
  UpdateFunction update{};
  UpdateFunction
      check_update{};  // for a table that may refuse rows: the result that `update` would have; called for all rows before any is changed
  InsertFunction insert{};
  RemoveFunction remove{};
  bool available_when_disabled = false;
};

namespace internal {
constexpr bool IsSentence(std::string_view doc) { return doc.size() > 1 && doc.back() == '.'; }
constexpr bool IsColumnName(std::string_view name) {
  for (const char c : name) {
    if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return !name.empty();
}
}  // namespace internal

// Returns false if the declaration has a mistake. A static_assert after the declaration uses it.
constexpr bool ok(const TableDef& table) {
  if (!internal::IsSentence(table.doc) || table.columns.empty() || table.scan.row == 0 || (table.ops & kSelect) == 0) return false;
  if (((table.ops & kTruncate) != 0) != table.truncate.is_set) return false;
  bool any_writable = false;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (!internal::IsColumnName(column.name.view()) || !internal::IsSentence(column.doc.view()) || column.row != table.scan.row)
      return false;
    for (size_t j = 0; j < i; ++j) {
      if (table.columns[j].name.view() == column.name.view()) return false;
    }
    any_writable |= column.is_writable;
  }
  if (any_writable != ((table.ops & kUpdate) != 0) || any_writable != (table.update.row != 0)) return false;
  if (any_writable && table.update.row != table.scan.row) return false;
  if (table.check_update.row != 0 && table.check_update.row != table.update.row) return false;
  if (((table.ops & kInsert) != 0) != (table.insert.row != 0) || ((table.ops & kDelete) != 0) != (table.remove.row != 0)) return false;
  if (table.insert.row != 0 && table.insert.row != table.scan.row) return false;
  if (table.remove.row != 0 && table.remove.row != table.scan.row) return false;
  for (const std::string_view name : table.key.get()) {
    bool found = false;
    for (const Column& column : table.columns) found |= column.name.view() == name;
    if (!found) return false;
  }
  return true;
}

}  // namespace perfschema
