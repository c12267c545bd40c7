// table/registry.h: the tables as data, for bindings and tools. This file names no table.
//
// Tables can be read from any segment. This process can change its own tables, or those of the process whose segment
// it has adopted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/large_vector.h"
#include "base/status.h"
#include "perfschema/abi.h"
#include "shm/attach.h"
#include "table/text_list.h"

namespace perfschema {

enum class ColumnKind : uint8_t {
  kUInt64,
  kInt64,
  kUInt32,
  kInt32,
  kText,
  kEnum,
  kSet,
  kTimestamp /* int64 microseconds since 1970 UTC */,
  kDouble
};

inline constexpr uint32_t kSelect = 1, kInsert = 2, kUpdate = 4, kDelete = 8, kTruncate = 16;

struct TableDef;
class RawSink;

// A table: its name in tables/tables.h, and its declaration (table/table_def.h).
// Threads: immutable. Valid as long as the process runs.
struct NamedTable {
  std::string_view name;
  const TableDef* def;
};

struct ColumnData {
  LargeVector<uint64_t> words;  // numeric kinds: value bits, one per row; 32-bit kinds extended with their sign, doubles as their bits
  LargeVector<uint32_t> codes;  // kText, kSet: index into texts; kEnum: index into values. A row that is NULL has 0
  TextList texts;               // each once, unless rows have texts of their own
  bool has_own_texts = false;   // row i has text i; there is no NULL
  LargeVector<uint8_t> nulls;   // 1 = NULL; empty if no row is NULL
};

struct TableData {
  size_t rows = 0;
  std::vector<ColumnData> columns;
  uint64_t skipped = 0;   // rows that stayed torn
  uint64_t repaired = 0;  // rows, and parts of sums, that a stopped writer had left half done
};

// Names compare case-insensitively, as in SQL. NULL matches no pattern.
struct Condition {
  std::string column;
  std::string pattern;
  bool like = false;
};

struct Assignment {
  std::string column;
  std::optional<std::string> value;  // as text, nullopt = NULL
};

// Threads: any thread may call any of these functions.
PFS_API std::span<const NamedTable> AllTables();                            // sorted by name; from tables/list.cpp
PFS_API Status FindTable(std::string_view name, const NamedTable** table);  // kNotFound names the nearest table
// Reads a table. `columns` = indices, empty = all. A view that is not ok() reads as empty, except for tables that are
// available while pfs is off.
PFS_API Status ReadTable(const NamedTable& table, const SegmentView& view, std::span<const size_t> columns, TableData* data);
// Returns rows of a table that were made elsewhere: `give` hands over the structs that its scan gives.
PFS_API TableData TableOf(const NamedTable& table, const std::function<void(RawSink&)>& give);
// Truncates a table of this process. kNotAllowed says what is allowed.
PFS_API Status TruncateTable(const NamedTable& table);
// Changes rows of this process that meet all conditions. It checks everything before it changes anything.
// `rows_changed` counts rows whose value was set.
PFS_API Status UpdateTable(const NamedTable& table, std::span<const Condition> where, std::span<const Assignment> set,
                           uint64_t* rows_changed);
// Inserts one row. Columns without a value get their defaults.
PFS_API Status InsertRow(const NamedTable& table, std::span<const Assignment> values);
PFS_API Status DeleteRows(const NamedTable& table, std::span<const Condition> where, uint64_t* rows_deleted);
PFS_API std::string TableDdl(const NamedTable& table);  // CREATE TABLE
PFS_API SegmentView OwnSegment();                       // starts pfs if needed; not ok() if pfs is off
// Opens the file of any process. ReadTable() of its view returns kCorrupt if the file was truncated meanwhile.
PFS_API Status AttachSegmentFile(const std::string& path, std::shared_ptr<SegmentFile>* file);
// Copies the first bytes of the file's header. kCorrupt: the file was truncated meanwhile. REQUIRES: bytes <=
// sizeof(ShmHeader).
PFS_API Status CopySegmentHead(const SegmentFile& file, void* to, size_t bytes);
// Makes TruncateTable, UpdateTable, InsertRow and DeleteRows of this process change the segment of another process,
// inside ChangeFromOutside() only. This process records no events from then on. kState: pfs has started here already.
// REQUIRES: one thread.
PFS_API Status AdoptSegmentFile(const std::string& path);
// Runs `change` while the process whose segment was adopted is not on its slow path. kState: that process does not
// leave it.
PFS_API Status ChangeFromOutside(const std::function<Status()>& change);

}  // namespace perfschema
