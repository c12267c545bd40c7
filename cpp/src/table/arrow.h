// table/arrow.h: the rows of a table for readers of the Arrow C stream interface, such as DuckDB, polars and pyarrow.
//
// The structs are those of https://arrow.apache.org/docs/format/CStreamInterface.html. They need no library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "table/registry.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
}
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
extern "C" {
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
}
#endif

namespace perfschema {

// What a column is called and holds. kText with `values` is the same as kEnum.
struct ArrowField {
  std::string name;
  ColumnKind kind;
  bool nullable;
  std::vector<std::string_view> values;  // kEnum; valid as long as the process runs
};

// Holds the rows of one read. 64-bit words stay where they are, 32-bit integers are copied, and null bytes become bits.
// TEXT, SET and ENUM are dictionaries; a byte that is no UTF-8 becomes \xNN. Every exported struct keeps the table alive.
// Threads: immutable.
class ArrowTable : public std::enable_shared_from_this<ArrowTable> {
 public:
  PFS_API static std::shared_ptr<ArrowTable> Of(std::vector<ArrowField> fields, TableData&& data);

  size_t rows() const { return rows_; }
  PFS_API std::vector<std::string> names() const;
  PFS_API std::vector<ColumnKind> kinds() const;
  // Both throw std::bad_alloc if there is no memory. The caller releases the result.
  PFS_API void ExportSchema(ArrowSchema* out) const;
  PFS_API void ExportStream(ArrowArrayStream* out) const;

 private:
  struct Column {
    ArrowField field;
    const char* format;
    int64_t null_count = 0;
    LargeVector<uint8_t> valid;    // a bit per row; empty if no row is NULL
    LargeVector<uint64_t> words;   // 64-bit values
    LargeVector<uint32_t> halves;  // 32-bit values, or codes
    bool is_coded = false;
    TextList texts;  // the dictionary, and where each text begins
    std::vector<int64_t> begins;
  };
  friend struct ArrowExport;
  ArrowTable() = default;
  static Column Convert(ArrowField&& field, ColumnData&& data, size_t rows);

  size_t rows_ = 0;
  std::vector<Column> columns_;
};

}  // namespace perfschema
