// Implements UPDATE, INSERT and DELETE. They check everything first and find the rows. Then they ask the table
// whether it accepts all changes, and change the rows one by one through its function.
#include <cstring>

#include "base/nearest.h"
#include "setup/setup.h"
#include "table/errors.h"
#include "table/table_def.h"

namespace perfschema {
namespace {

struct Wanted {
  size_t column;
  const std::string* text;  // nullptr = NULL
};

Status FindColumn(const NamedTable& table, const std::string& name, size_t* index) {
  const ColumnList& columns = table.def->columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!EqualsIgnoringCase(columns[i].name.view(), name)) continue;
    *index = i;
    return {};
  }
  const std::string hint = NearestHint(
      name, columns.get(), [](const Column& column) { return column.name.view(); },
      ": pfs describe " + std::string(table.name) + " lists all");
  return Status(Code::kNotFound, std::string(table.name) + " has no column '" + name.substr(0, 128) + "'" + hint);
}

std::string LegalValues(const SqlType& type) {
  std::string text;
  if (type.kind == ColumnKind::kUInt32) text = "a whole number that fits " + type.text();
  if (type.kind == ColumnKind::kText) text = "text as wide as " + type.text();
  for (size_t i = 0; i < type.values.size(); ++i) {
    const bool is_last = i + 1 == type.values.size();
    text += (i == 0 ? "" : is_last ? " or " : ", ") + std::string(type.values[i]);
  }
  if (type.kind == ColumnKind::kSet) text = "a comma-separated list of " + text;
  return text + (type.nullable ? " or NULL" : "");
}

// Returns "column C of T", for errors.
std::string Of(const NamedTable& table, const Column& column) {
  return "column " + std::string(column.name.view()) + " of " + std::string(table.name);
}

Status BadValue(const NamedTable& table, const Column& column, const std::string* value) {
  const std::string shown = value == nullptr ? "NULL" : "'" + value->substr(0, 128) + "'";
  std::string message = Of(table, column) + " takes " + LegalValues(column.type) + ", not " + shown;
  const std::span<const std::string_view> values = column.type.values;
  if (value != nullptr && values.size() > 2) message += NearestHint(*value, values, [](std::string_view v) { return v; });
  return Status(Code::kInvalidArgument, message);
}

// Memory for one row of a table: an empty row of its type.
// Threads: external lock.
class RowBuffer {
 public:
  explicit RowBuffer(const TableDef& def) : units_(def.scan.row_bytes / sizeof(std::max_align_t) + 1) {
    std::memset(static_cast<void*>(units_.data()), 0, units_.size() * sizeof units_[0]);
  }
  void* get() { return units_.data(); }

 private:
  std::vector<std::max_align_t> units_;
};

// Returns false for an illegal value.
bool Assign(const TableDef& def, const Wanted& wanted, void* row) {
  const std::string_view view = wanted.text == nullptr ? std::string_view() : std::string_view(*wanted.text);
  return def.columns[wanted.column].Assign(row, wanted.text == nullptr ? nullptr : &view);
}

// Tries the value on a temporary row. `may_be_set` says which columns are legal here.
template <typename MayBeSet>
Status CheckAssignment(const NamedTable& table, const Assignment& assignment, MayBeSet may_be_set, std::vector<Wanted>* wanted) {
  size_t index = 0;
  if (Status status = FindColumn(table, assignment.column, &index); !status.ok()) return status;
  const Column& column = table.def->columns[index];
  if (!may_be_set(column)) {
    std::string legal;
    for (const Column& other : table.def->columns) {
      if (may_be_set(other)) legal += (legal.empty() ? "" : ", ") + std::string(other.name.view());
    }
    return Status(Code::kNotAllowed, Of(table, column) + " cannot be set; these can: " + legal);
  }
  for (const Wanted& other : *wanted) {
    if (other.column == index) return Status(Code::kInvalidArgument, "column " + std::string(column.name.view()) + " is set twice");
  }
  const Wanted one{index, assignment.value ? &*assignment.value : nullptr};
  RowBuffer scratch(*table.def);
  if (!Assign(*table.def, one, scratch.get())) return BadValue(table, column, one.text);
  wanted->push_back(one);
  return {};
}

// Returns the text of a cell as SQL would compare it; false = NULL.
bool CellText(const SqlType& type, const ColumnData& data, size_t row, std::string* text) {
  if (!data.nulls.empty() && data.nulls[row] != 0) return false;
  switch (type.kind) {
    case ColumnKind::kText:
    case ColumnKind::kSet:
      *text = data.texts[data.codes[row]];
      break;
    case ColumnKind::kEnum:
      *text = type.values[data.codes[row]];
      break;
    case ColumnKind::kInt64:
    case ColumnKind::kInt32:
    case ColumnKind::kTimestamp:
      *text = std::to_string(static_cast<int64_t>(data.words[row]));
      break;
    case ColumnKind::kDouble:
      *text = std::to_string(std::bit_cast<double>(data.words[row]));
      break;
    case ColumnKind::kUInt64:
    case ColumnKind::kUInt32:
      *text = std::to_string(data.words[row]);
      break;
  }
  return true;
}

// Texts that are not patterns are compared case-sensitively, because keys such as users are.
bool Holds(const SqlType& type, const Condition& condition, const std::string& text) {
  if (condition.like) return Like(text, condition.pattern);
  return type.kind == ColumnKind::kText ? text == condition.pattern : EqualsIgnoringCase(text, condition.pattern);
}

// Keeps every row, and the columns that the conditions use.
// Threads: external lock. Valid as long as the Snapshot.
class KeepingSink final : public RawSink {
 public:
  KeepingSink(const TableDef& def, const std::vector<size_t>& columns) : def_(def), columns_(columns), builders_(columns.size()) {
    units_per_row_ = (def.scan.row_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  }
  void OnRow(const void* row) override {
    for (size_t i = 0; i < columns_.size(); ++i) def_.columns[columns_[i]].Append(row, def_.scan.row_bytes, 1, builders_[i]);
    bytes_.resize(bytes_.size() + units_per_row_);
    std::memcpy(static_cast<void*>(&bytes_[rows_ * units_per_row_]), row, def_.scan.row_bytes);
    ++rows_;
  }
  size_t rows() const { return rows_; }
  const void* row(size_t index) const { return &bytes_[index * units_per_row_]; }
  size_t units_per_row() const { return units_per_row_; }
  std::vector<ColumnData> Finish() {
    std::vector<ColumnData> data;
    for (ColumnBuilder& builder : builders_) data.push_back(builder.Finish());
    return data;
  }

 private:
  const TableDef& def_;
  const std::vector<size_t>& columns_;
  std::vector<ColumnBuilder> builders_;
  std::vector<std::max_align_t> bytes_;
  size_t units_per_row_;
  size_t rows_ = 0;
};

// Finds the columns that the conditions use, in the order of the conditions.
Status CheckConditions(const NamedTable& table, std::span<const Condition> where, std::vector<size_t>* columns) {
  for (const Condition& condition : where) {
    size_t index = 0;
    if (Status status = FindColumn(table, condition.column, &index); !status.ok()) return status;
    const Column& column = table.def->columns[index];
    const std::span<const std::string_view> values = column.type.values;
    const auto is_pattern = [&](std::string_view value) { return EqualsIgnoringCase(value, condition.pattern); };
    if (!condition.like && column.type.kind == ColumnKind::kEnum && std::none_of(values.begin(), values.end(), is_pattern)) {
      return BadValue(table, column, &condition.pattern);
    }
    columns->push_back(index);
  }
  return {};
}

// Calls change(row) for each row of the own segment that meets all conditions, if check(row) accepts all of them.
// `changed` counts the rows that still existed.
template <typename Check, typename Change>
Status ChangeRows(const NamedTable& table, std::span<const Condition> where, uint64_t* changed, Check check, Change change) {
  std::vector<size_t> columns;
  if (Status status = CheckConditions(table, where, &columns); !status.ok()) return status;
  const SegmentView view = OwnSegment();
  if (!view.ok()) return {};
  const Snapshot snapshot(view, QuiesceFor(view));
  KeepingSink sink(*table.def, columns);
  table.def->scan.call(snapshot, sink);
  const std::vector<ColumnData> data = sink.Finish();
  std::string text;
  std::vector<const void*> chosen;
  for (size_t row = 0; row < sink.rows(); ++row) {
    bool matches = true;
    for (size_t i = 0; i < where.size() && matches; ++i) {
      const SqlType& type = table.def->columns[columns[i]].type;
      matches = CellText(type, data[i], row, &text) && Holds(type, where[i], text);
    }
    if (matches) chosen.push_back(sink.row(row));
  }
  const auto is_refused = [](const Status& status) {
    return !status.ok() && status.code() != Code::kNotFound;
  };  // kNotFound: the row is gone
  for (const void* row : chosen) {
    if (Status status = check(row); is_refused(status)) return status;
  }
  const SetupBatch batch;  // one pass over the objects, not one for each row
  for (const void* row : chosen) {
    Status status = change(row);
    if (is_refused(status)) return status;
    *changed += status.ok() ? 1 : 0;
  }
  return {};
}

}  // namespace

Status UpdateTable(const NamedTable& table, std::span<const Condition> where, std::span<const Assignment> set, uint64_t* rows_changed) {
  *rows_changed = 0;
  const TableDef& def = *table.def;
  if (def.update.call == nullptr) return NotAllowed(table, "UPDATE");
  std::vector<Wanted> wanted;
  if (set.empty()) return Status(Code::kInvalidArgument, "UPDATE of " + std::string(table.name) + " sets no column");
  const auto may_be_set = [](const Column& column) { return column.is_writable; };
  for (const Assignment& assignment : set) {
    if (Status status = CheckAssignment(table, assignment, may_be_set, &wanted); !status.ok()) return status;
  }
  RowBuffer after(def);
  const auto with = [&](const UpdateFunction& function) {
    return [&](const void* before) {
      if (function.call == nullptr) return Status();
      std::memcpy(after.get(), before, def.scan.row_bytes);
      for (const Wanted& one : wanted) (void)Assign(def, one, after.get());
      return function.call(before, after.get());
    };
  };
  return ChangeRows(table, where, rows_changed, with(def.check_update), with(def.update));
}

Status InsertRow(const NamedTable& table, std::span<const Assignment> values) {
  const TableDef& def = *table.def;
  if (def.insert.call == nullptr) return NotAllowed(table, "INSERT");
  std::vector<Wanted> wanted;
  const auto may_be_set = [](const Column& column) { return column.is_assignable; };
  for (const Assignment& assignment : values) {
    if (Status status = CheckAssignment(table, assignment, may_be_set, &wanted); !status.ok()) return status;
  }
  if (!OwnSegment().ok()) return {};
  RowBuffer row(def);
  def.insert.make_default(row.get());
  for (const Wanted& one : wanted) (void)Assign(def, one, row.get());
  const SetupBatch batch;
  return def.insert.call(row.get());
}

Status DeleteRows(const NamedTable& table, std::span<const Condition> where, uint64_t* rows_deleted) {
  *rows_deleted = 0;
  const TableDef& def = *table.def;
  if (def.remove.call == nullptr) return NotAllowed(table, "DELETE");
  return ChangeRows(
      table, where, rows_deleted, [](const void*) { return Status(); }, def.remove.call);
}

}  // namespace perfschema
