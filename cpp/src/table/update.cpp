// UPDATE: everything is checked first, then the rows are found, then they are set one by one through the table's update
// function.
#include <cstring>

#include "setup/setup.h"
#include "table/facts.h"
#include "table/nearest.h"

namespace perfschema {
namespace {

struct Wanted {
  size_t column;
  const std::string* text;  // nullptr = NULL
};

Status FindColumn(const TableFacts& table, const std::string& name, size_t* index) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!EqualsIgnoringCase(table.columns[i].name, name)) continue;
    *index = i;
    return {};
  }
  const std::string_view nearest = Nearest(name, table.columns, [](const ColumnFacts& column) { return column.name; });
  return Status(Code::kNotFound, std::string(table.name) + " has no column '" + name.substr(0, 128) +
                                     "': the nearest is '" + std::string(nearest) + "'");
}

std::string LegalValues(const ColumnFacts& column) {
  std::string text;
  for (size_t i = 0; i < column.values.size(); ++i) {
    const bool is_last = i + 1 == column.values.size();
    text += (i == 0 ? "" : is_last ? " or " : ", ") + std::string(column.values[i]);
  }
  if (column.kind == ColumnKind::kSet) text = "a comma-separated list of " + text;
  return text + (column.nullable ? " or NULL" : "");
}

Status BadValue(const TableFacts& table, const ColumnFacts& column, const std::string* value) {
  const std::string shown = value == nullptr ? "NULL" : "'" + value->substr(0, 128) + "'";
  std::string message = "column " + std::string(column.name) + " of " + std::string(table.name) + " takes " +
                        LegalValues(column) + ", not " + shown;
  if (value != nullptr && column.values.size() > 2) {
    message +=
        ": the nearest is '" + std::string(Nearest(*value, column.values, [](std::string_view v) { return v; })) + "'";
  }
  return Status(Code::kInvalidArgument, message);
}

Status CheckAssignment(const TableFacts& table, const TableDef& def, const Assignment& assignment,
                       std::vector<Wanted>* wanted) {
  size_t index = 0;
  if (Status status = FindColumn(table, assignment.column, &index); !status.ok()) return status;
  const ColumnFacts& column = table.columns[index];
  if (!column.writable) {
    std::string legal;
    for (const ColumnFacts& other : table.columns) {
      if (other.writable) legal += (legal.empty() ? "" : ", ") + std::string(other.name);
    }
    return Status(Code::kNotAllowed, "column " + std::string(column.name) + " of " + std::string(table.name) +
                                         " cannot be set; these can: " + legal);
  }
  for (const Wanted& other : *wanted) {
    if (other.column == index)
      return Status(Code::kInvalidArgument, "column " + std::string(column.name) + " is set twice");
  }
  const std::string* text = assignment.value ? &*assignment.value : nullptr;
  // Tried on a row of zero bytes, which is a row of its type with nothing in it.
  std::vector<std::max_align_t> scratch(def.scan.row_bytes / sizeof(std::max_align_t) + 1);
  std::memset(static_cast<void*>(scratch.data()), 0, scratch.size() * sizeof scratch[0]);
  const std::string_view view = text == nullptr ? std::string_view() : std::string_view(*text);
  if (!def.columns[index].assign(scratch.data(), text == nullptr ? nullptr : &view))
    return BadValue(table, column, text);
  wanted->push_back({index, text});
  return {};
}

// Text of a cell as SQL would compare it; false = NULL.
bool CellText(const ColumnFacts& column, const ColumnData& data, size_t row, std::string* text) {
  if (!data.nulls.empty() && data.nulls[row] != 0) return false;
  switch (column.kind) {
    case ColumnKind::kText:
    case ColumnKind::kSet:
      *text = data.texts[data.codes[row]];
      break;
    case ColumnKind::kEnum:
      *text = column.values[data.codes[row]];
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

// Keeps every row, and the columns that conditions look at.
// Threads: external lock. Valid as long as the Snapshot.
class UpdateSink final : public RawSink {
 public:
  UpdateSink(const TableDef& def, const std::vector<size_t>& columns)
      : def_(def), columns_(columns), builders_(columns.size()) {
    units_per_row_ = (def.scan.row_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  }
  void OnRow(const void* row) override {
    for (size_t i = 0; i < columns_.size(); ++i) def_.columns[columns_[i]].append(row, builders_[i]);
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

}  // namespace

Status UpdateTable(const TableFacts& table, std::span<const Condition> where, std::span<const Assignment> set,
                   uint64_t* rows_changed) {
  *rows_changed = 0;
  const TableDef* def = DefOf(table);
  if (def == nullptr) return NoSuchTable(table.name);
  if (def->update.call == nullptr) return NotAllowed(table, "UPDATE");
  std::vector<Wanted> wanted;
  if (set.empty()) return Status(Code::kInvalidArgument, "UPDATE of " + std::string(table.name) + " sets no column");
  for (const Assignment& assignment : set) {
    if (Status status = CheckAssignment(table, *def, assignment, &wanted); !status.ok()) return status;
  }
  std::vector<size_t> columns;
  for (const Condition& condition : where) {
    size_t index = 0;
    if (Status status = FindColumn(table, condition.column, &index); !status.ok()) return status;
    const ColumnFacts& column = table.columns[index];
    const auto is_pattern = [&](std::string_view value) { return EqualsIgnoringCase(value, condition.pattern); };
    if (!condition.like && column.kind == ColumnKind::kEnum &&
        std::none_of(column.values.begin(), column.values.end(), is_pattern)) {
      return BadValue(table, column, &condition.pattern);
    }
    columns.push_back(index);
  }

  const SegmentView view = OwnSegment();
  if (!view.ok()) return {};
  const Snapshot snapshot(view, QuiesceFor(view));
  UpdateSink sink(*def, columns);
  def->scan.call(snapshot, sink);
  const std::vector<ColumnData> data = sink.Finish();
  std::vector<std::max_align_t> after(sink.units_per_row());
  std::string text;
  const SetupBatch batch;  // one pass over the objects, not one for each row
  for (size_t row = 0; row < sink.rows(); ++row) {
    bool matches = true;
    for (size_t i = 0; i < where.size() && matches; ++i) {
      matches = CellText(table.columns[columns[i]], data[i], row, &text) &&
                (where[i].like ? Like(text, where[i].pattern) : EqualsIgnoringCase(text, where[i].pattern));
    }
    if (!matches) continue;
    std::memcpy(static_cast<void*>(after.data()), sink.row(row), def->scan.row_bytes);
    for (const Wanted& one : wanted) {
      const std::string_view value = one.text == nullptr ? std::string_view() : std::string_view(*one.text);
      (void)def->columns[one.column].assign(after.data(), one.text == nullptr ? nullptr : &value);
    }
    const Status status = def->update.call(sink.row(row), after.data());
    if (status.code() == Code::kNotFound) continue;  // gone meanwhile
    if (!status.ok()) return status;
    ++*rows_changed;
  }
  return {};
}

}  // namespace perfschema
