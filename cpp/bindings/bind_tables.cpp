// bindings/bind_tables.cpp: tables as columns (numpy arrays without a loop in Python) and as plain rows.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <bit>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "background/sampling.h"
#include "base/like.h"
#include "base/nearest.h"
#include "gil.h"
#include "perfschema/pfs.h"
#include "pybind.h"  // comes first
#include "segment.h"
#include "table/table_def.h"

namespace perfschema::bindings {

namespace {

std::string ColumnNames(const NamedTable& table) {
  std::string names;
  for (const Column& column : table.def->columns) names += (names.empty() ? "" : ", ") + std::string(column.name.view());
  return names;
}

}  // namespace

const NamedTable& GetTable(const std::string& name) {
  const NamedTable* table = nullptr;
  RaiseIfBad(FindTable(name, &table), "UnknownTable");
  return *table;
}

std::vector<size_t> GetColumns(const NamedTable& table, const ColumnList& names) {
  std::vector<size_t> positions;
  if (!names) {
    for (size_t i = 0; i < table.def->columns.size(); ++i) positions.push_back(i);
    return positions;
  }
  for (const std::string& name : *names) {
    size_t position = 0;
    while (position < table.def->columns.size() && !EqualsIgnoringCase(table.def->columns[position].name.view(), name)) ++position;
    if (position == table.def->columns.size()) {
      const std::string nearest = NearestHint(name, table.def->columns.get(), [](const Column& column) { return column.name.view(); });
      throw StatusError(Status(Code::kNotFound,
                               std::string(table.name) + " has no column '" + name + "'" + nearest + "; legal are " + ColumnNames(table)),
                        "UnknownColumn");
    }
    for (size_t other : positions) {
      if (other == position) {
        throw StatusError(Status(Code::kInvalidArgument, std::string(table.name) + ": column '" + name + "' is named twice"));
      }
    }
    positions.push_back(position);
  }
  return positions;
}

SegmentView ViewOf(const AttachedSegment* segment) { return segment != nullptr ? segment->view() : OwnSegment(); }

void RaiseIfUnreadable(Status status, const AttachedSegment* segment) {
  const bool is_damaged = segment != nullptr && status.code() == Code::kCorrupt;
  RaiseIfBad(std::move(status), is_damaged ? "AttachError" : nullptr);
}

TableData ReadColumns(const NamedTable& table, std::vector<size_t> columns, const AttachedSegment* segment, const ReadTime& time) {
  if (columns.empty()) columns.push_back(0);  // no columns: the number of rows is still wanted
  TableData data{};
  RaiseIfUnreadable(WithoutGil([&] { return ReadTableAt(time, table, ViewOf(segment), columns, &data); }), segment);
  return data;
}

const char* KindName(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kUInt64:
      return "uint64";
    case ColumnKind::kInt64:
      return "int64";
    case ColumnKind::kUInt32:
      return "uint32";
    case ColumnKind::kInt32:
      return "int32";
    case ColumnKind::kText:
      return "text";
    case ColumnKind::kEnum:
      return "enum";
    case ColumnKind::kSet:
      return "set";
    case ColumnKind::kTimestamp:
      return "timestamp";
    case ColumnKind::kDouble:
      return "double";
  }
  return "";
}

namespace {

// Returns a numpy array of the bytes of `values`, which it owns, without a copy.
template <typename To, typename From>
py::array SeenAs(LargeVector<From>&& values) {
  static_assert(sizeof(To) == sizeof(From));
  auto owner = std::make_unique<LargeVector<From>>(std::move(values));
  auto* const data = reinterpret_cast<To*>(owner->data());
  const auto size = static_cast<py::ssize_t>(owner->size());
  const py::capsule base(owner.release(), [](void* vector) { delete static_cast<LargeVector<From>*>(vector); });
  return py::array_t<To>(size, data, base);
}
template <typename T>
py::array AsArray(LargeVector<T>&& values) {
  return SeenAs<T>(std::move(values));
}

template <typename To, typename From>
py::array Converted(const LargeVector<From>& values) {
  LargeVector<To> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = static_cast<To>(values[i]);
  return AsArray(std::move(result));
}

// Returns codes, with -1 where the row is NULL.
template <typename To>
py::array Codes(const ColumnData& data) {
  LargeVector<To> result(data.codes.size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<To>(data.codes[i]);
  for (size_t i = 0; i < data.nulls.size(); ++i) {
    if (data.nulls[i] != 0) result[i] = To{-1};
  }
  return AsArray(std::move(result));
}

// Returns a numpy array of objects. pandas would make the same of a list, but would read each member several times.
py::array Texts(const TextList& texts) {
  py::array array(py::dtype("O"), static_cast<py::ssize_t>(texts.size()));
  auto** const places = static_cast<PyObject**>(array.mutable_data());
  for (size_t i = 0; i < texts.size(); ++i) Py_XSETREF(places[i], Decoded(texts[i]).Release());
  return array;
}

template <typename List>
py::tuple NamesOf(const List& values) {
  py::tuple names(values.size());
  for (size_t i = 0; i < values.size(); ++i) names[i] = py::str(values[i].data(), values[i].size());
  return names;
}

// Returns (name, kind, nullable, values or codes, mask or None, texts or None): see _frame.py. Without codes each row has its own text.
py::tuple Part(const Column& column, ColumnData&& data, size_t rows) {
  const SqlType& type = column.type;
  py::object values, mask = py::none(), texts = py::none();
  switch (type.kind) {
    case ColumnKind::kText:
    case ColumnKind::kSet:
      values = data.has_own_texts ? py::object(py::none()) : py::object(Codes<int32_t>(data));
      texts = Texts(data.texts);
      break;
    case ColumnKind::kEnum:
      values = type.values.size() < 127 ? Codes<int8_t>(data) : Codes<int16_t>(data);
      texts = NamesOf(type.values);
      break;
    case ColumnKind::kTimestamp:
      for (size_t i = 0; i < data.nulls.size(); ++i) {
        if (data.nulls[i] != 0) data.words[i] = std::bit_cast<uint64_t>(std::numeric_limits<int64_t>::min());  // NaT
      }
      values = SeenAs<int64_t>(std::move(data.words));
      break;
    case ColumnKind::kDouble:
      for (size_t i = 0; i < data.nulls.size(); ++i) {
        if (data.nulls[i] != 0) data.words[i] = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
      }
      values = SeenAs<double>(std::move(data.words));
      break;
    case ColumnKind::kUInt64:
      values = AsArray(std::move(data.words));
      break;
    case ColumnKind::kInt64:
      values = SeenAs<int64_t>(std::move(data.words));
      break;
    case ColumnKind::kUInt32:
      values = Converted<uint32_t>(data.words);
      break;
    case ColumnKind::kInt32:
      values = Converted<int32_t>(data.words);
      break;
  }
  if (type.nullable) {
    LargeVector<uint8_t> nulls = std::move(data.nulls);
    nulls.resize(rows, 0);
    mask = AsArray(std::move(nulls)).attr("view")("bool");
  }
  return py::make_tuple(py::str(column.name.view().data(), column.name.view().size()), KindName(type.kind), type.nullable, values, mask,
                        texts);
}

py::tuple ReadingOf(const NamedTable& table, const std::vector<size_t>& chosen, TableData&& data) {
  py::list parts;
  for (size_t i = 0; i < chosen.size(); ++i) parts.append(Part(table.def->columns[chosen[i]], std::move(data.columns[i]), data.rows));
  return py::make_tuple(data.rows, data.skipped, parts);
}

using Moment = std::optional<uint64_t>;

py::tuple Read(const std::string& name, const ColumnList& columns, const AttachedSegment* segment, bool elapsed, const Moment& now,
               bool only_used) {
  const NamedTable& table = GetTable(name);
  const std::vector<size_t> chosen = GetColumns(table, columns);
  return ReadingOf(table, chosen, ReadColumns(table, chosen, segment, {now, elapsed, false, only_used}));
}

py::object Cell(const SqlType& type, const ColumnData& data, size_t row) {
  if (type.nullable && row < data.nulls.size() && data.nulls[row] != 0) return py::none();
  switch (type.kind) {
    case ColumnKind::kText:
    case ColumnKind::kSet:
      return py::reinterpret_steal<py::object>(Decoded(data.texts[data.codes[row]]).Release());
    case ColumnKind::kEnum:
      return py::str(type.values[data.codes[row]].data(), type.values[data.codes[row]].size());
    case ColumnKind::kUInt64:
    case ColumnKind::kUInt32:
      return py::int_(data.words[row]);
    case ColumnKind::kInt64:
    case ColumnKind::kTimestamp:
      return py::int_(std::bit_cast<int64_t>(data.words[row]));
    case ColumnKind::kInt32:
      return py::int_(static_cast<int32_t>(data.words[row]));
    case ColumnKind::kDouble:
      return py::float_(std::bit_cast<double>(data.words[row]));
  }
  return py::none();
}

py::list Rows(const std::string& name, const ColumnList& columns, const AttachedSegment* segment, bool elapsed, const Moment& now) {
  const NamedTable& table = GetTable(name);
  const std::vector<size_t> chosen = GetColumns(table, columns);
  const TableData data = ReadColumns(table, chosen, segment, {now, elapsed});
  py::list rows(data.rows);
  for (size_t row = 0; row < data.rows; ++row) {
    py::tuple cells(chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) cells[i] = Cell(table.def->columns[chosen[i]].type, data.columns[i], row);
    rows[row] = cells;
  }
  return rows;
}

py::dict Traits(const std::string& name) {
  using namespace py::literals;
  const NamedTable& table = GetTable(name);
  py::list columns, operations;
  for (const Column& column : table.def->columns) {
    const SqlType& type = column.type;
    columns.append(py::dict("name"_a = column.name.view(), "sql_type"_a = type.text(), "kind"_a = KindName(type.kind),
                            "unit"_a = kUnitNames[static_cast<size_t>(column.unit)], "doc"_a = column.doc.view(),
                            "nullable"_a = type.nullable, "writable"_a = column.is_writable, "values"_a = NamesOf(type.values),
                            "combine"_a = kCombineNames[static_cast<size_t>(column.combine)],
                            "across"_a = kAcrossNames[static_cast<size_t>(column.merge)], "literals"_a = column.has_literals));
  }
  static constexpr const char* kOperationNames[] = {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"};
  for (size_t bit = 0; bit < std::size(kOperationNames); ++bit) {
    if ((table.def->ops >> bit & 1) != 0) operations.append(kOperationNames[bit]);
  }
  return py::dict("name"_a = table.name, "doc"_a = table.def->doc, "columns"_a = columns, "key"_a = NamesOf(table.def->key.get()),
                  "operations"_a = py::tuple(operations), "available_when_disabled"_a = table.def->available_when_disabled);
}

std::vector<std::string> TableNames() {
  std::vector<std::string> names;
  for (const NamedTable& table : AllTables()) names.emplace_back(table.name);
  return names;
}

uint64_t Now(const AttachedSegment* segment) {
  uint64_t picoseconds = 0;
  RaiseIfUnreadable(ReadPresent(ViewOf(segment), &picoseconds), segment);
  return picoseconds;
}

uint64_t Became(const AttachedSegment& segment) {
  uint64_t monotonic_nanos = 0;
  RaiseIfUnreadable(ReadBecame(segment.view(), &monotonic_nanos), &segment);
  return monotonic_nanos;
}

void Truncate(const std::string& name) {
  const NamedTable& table = GetTable(name);
  RaiseIfBad(WithoutGil([&] { return TruncateTable(table); }));
}

}  // namespace

// Returns (whether the program still runs, rows, skipped, parts).
py::tuple RunSampling(Sampling& sampling, double seconds) {
  TableData data{};
  Status status = WithoutGil([&] { return sampling.Run(static_cast<uint64_t>(seconds * 1e9), &data); });
  const bool runs = status.code() != Code::kNotFound;
  if (runs) RaiseIfBad(std::move(status), "AttachError");
  const NamedTable& table = GetTable("active_sessions");
  return py::make_tuple(runs) + ReadingOf(table, GetColumns(table, std::nullopt), std::move(data));
}

void BindSampling(py::module_& m) {
  py::class_<Sampling>(m, "Sampling")
      .def(py::init([](const AttachedSegment* segment, double hz) {
             const SegmentView view = ViewOf(segment);
             if (!view.ok()) throw StatusError(Status(Code::kState, "pfs is off in this process: there is nothing to sample"));
             return std::make_unique<Sampling>(view, hz);
           }),
           py::arg("segment").none(true), py::arg("hz"), py::keep_alive<1, 2>())
      .def("run", RunSampling, py::arg("seconds"))
      .def("stop", &Sampling::Stop)
      .def_property_readonly("scheduling", &Sampling::scheduling)
      .def_property_readonly("samples", &Sampling::samples)
      .def_property_readonly("missed", &Sampling::missed)
      .def_property_readonly("processor_time", &Sampling::processor_time);
}

void BindTables(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  py::class_<AttachedSegment>(m, "Segment", "A segment file, mapped for reading during the lifetime of the object.")
      .def(py::init<std::string>(), py::arg("path"))
      .def_property_readonly("path", &AttachedSegment::path)
      .def("became", Became)
      .def("forget_pages", [](const AttachedSegment& segment) { segment.ForgetPages(); })
      .def_property_readonly("identity",
                             [](const AttachedSegment& segment) { return segment.identity(); })  // a copy, which keeps nothing mapped
      .def_property_readonly("pid", [](const AttachedSegment& segment) { return segment.identity().pid; });
  BindSampling(m);
  m.def("tables", TableNames);
  m.def("table_info", Traits, py::arg("table"));
  m.def(
      "ddl", [](const std::string& name) { return TableDdl(GetTable(name)); }, py::arg("table"));
  m.def("truncate", Truncate, py::arg("table"));
  m.def("now", Now, py::arg("segment").none(true));
  m.def("read", Read, py::arg("table"), py::arg("columns").none(true), py::arg("segment").none(true), py::arg("elapsed") = false,
        py::arg("now") = py::none(), py::arg("only_used") = false);
  m.def("rows", Rows, py::arg("table"), py::arg("columns").none(true), py::arg("segment").none(true), py::arg("elapsed") = false,
        py::arg("now") = py::none());
}

}  // namespace perfschema::bindings
