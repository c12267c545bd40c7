// bindings/bind_arrow.cpp: tables as Arrow C streams.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "pybind.h"  // comes first
#include "segment.h"
#include "table/arrow.h"
#include "table/table_def.h"
#include "tables/timers.h"

namespace perfschema::bindings {

namespace {

// Returns a capsule that releases the struct if no consumer has taken it.
template <typename Struct>
py::object Capsule(std::unique_ptr<Struct> exported, const char* name) {
  PyObject* const capsule = PyCapsule_New(exported.get(), name, [](PyObject* self) {
    auto* const held = static_cast<Struct*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
  if (capsule == nullptr) {
    exported->release(exported.get());
    throw py::error_already_set();
  }
  (void)exported.release();
  return py::reinterpret_steal<py::object>(capsule);
}

std::shared_ptr<ArrowTable> Arrow(const std::string& name, const ColumnList& columns, const AttachedSegment* segment,
                                  const std::optional<uint64_t>& now, bool any_order) {
  const NamedTable& table = GetTable(name);
  const std::vector<size_t> chosen = GetColumns(table, columns);
  std::vector<ArrowField> fields;
  for (const size_t index : chosen) {
    const Column& column = table.def->columns[index];
    const SqlType& type = column.type;
    fields.push_back({std::string(column.name.view()), type.kind, type.nullable, {type.values.begin(), type.values.end()}});
  }
  return ArrowTable::Of(std::move(fields), ReadColumns(table, chosen, segment, {now, false, any_order}));
}

template <typename T>
void CopyWords(const py::handle& values, size_t rows, LargeVector<uint64_t>* words) {
  const auto array = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(values);
  if (!array || static_cast<size_t>(array.size()) != rows) throw py::value_error("a column has another number of rows");
  words->resize(rows);
  for (size_t i = 0; i < rows; ++i) (*words)[i] = static_cast<uint64_t>(array.data()[i]);
}

ColumnKind KindOf(const std::string& name) {
  if (name == "uint64") return ColumnKind::kUInt64;
  if (name == "int64") return ColumnKind::kInt64;
  if (name == "uint32") return ColumnKind::kUInt32;
  if (name == "int32") return ColumnKind::kInt32;
  if (name == "double") return ColumnKind::kDouble;
  if (name == "timestamp") return ColumnKind::kTimestamp;
  if (name == "text") return ColumnKind::kText;
  throw py::value_error("unknown kind of column '" + name + "'");
}

// Makes a table of columns that Python holds: (name, kind, nullable, values or codes, mask or None, texts or None).
std::shared_ptr<ArrowTable> ArrowOf(size_t rows, const std::vector<py::tuple>& parts) {
  std::vector<ArrowField> fields;
  TableData data;
  data.rows = rows;
  for (const py::tuple& part : parts) {
    const ColumnKind kind = KindOf(part[1].cast<std::string>());
    fields.push_back({part[0].cast<std::string>(), kind, part[2].cast<bool>(), {}});
    ColumnData& column = data.columns.emplace_back();
    LargeVector<uint64_t> words;
    if (kind == ColumnKind::kDouble) {
      CopyWords<uint64_t>(part[3].attr("view")("uint64"), rows, &column.words);
    } else if (kind != ColumnKind::kText) {
      CopyWords<uint64_t>(part[3], rows, &column.words);
    } else {
      CopyWords<int64_t>(part[3], rows, &words);
      for (const py::handle& text : part[5]) column.texts.Add(text.cast<std::string>());
      column.codes.resize(rows);
      for (size_t i = 0; i < rows; ++i) {
        const bool is_null = static_cast<int64_t>(words[i]) < 0;
        if (!is_null && words[i] >= column.texts.size()) throw py::value_error("a code has no text");
        column.codes[i] = is_null ? 0 : static_cast<uint32_t>(words[i]);
      }
      if (rows != 0 && column.texts.empty()) column.texts.Add({});  // code 0 of NULL rows exists
    }
    if (!part[4].is_none()) {
      CopyWords<uint8_t>(part[4], rows, &words);
      column.nulls.resize(rows);
      for (size_t i = 0; i < rows; ++i) column.nulls[i] = static_cast<uint8_t>(words[i] != 0);
    }
  }
  return ArrowTable::Of(std::move(fields), std::move(data));
}

}  // namespace

void BindArrow(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  py::class_<ArrowTable, std::shared_ptr<ArrowTable>>(
      m, "ArrowTable",
      "The rows of a table at one moment, for any reader of the Arrow C stream interface: DuckDB, polars, pyarrow, pandas 3.")
      .def(
          "__arrow_c_schema__",
          [](const ArrowTable& table) {
            auto schema = std::make_unique<ArrowSchema>();
            table.ExportSchema(schema.get());
            return Capsule(std::move(schema), "arrow_schema");
          },
          "Returns the columns as a capsule of the Arrow C data interface.")
      .def(
          "__arrow_c_stream__",
          [](const ArrowTable& table, const py::object& requested_schema) {
            (void)requested_schema;  // a consumer converts what it wants otherwise
            auto stream = std::make_unique<ArrowArrayStream>();
            table.ExportStream(stream.get());
            return Capsule(std::move(stream), "arrow_array_stream");
          },
          py::arg("requested_schema").none(true) = py::none(), "Returns a stream of the rows, which is the same at each call.")
      .def_property_readonly("columns", [](const ArrowTable& table) { return table.names(); })
      .def_property_readonly("kinds",
                             [](const ArrowTable& table) {
                               std::vector<std::string> names;
                               for (const ColumnKind kind : table.kinds()) names.emplace_back(KindName(kind));
                               return names;
                             })
      .def("__len__", &ArrowTable::rows)
      .def("__repr__", [](const ArrowTable& table) {
        return "<ArrowTable of " + std::to_string(table.rows()) + " rows and " + std::to_string(table.names().size()) + " columns>";
      });
  m.def("arrow", Arrow, py::arg("table"), py::arg("columns").none(true), py::arg("segment").none(true), py::arg("now") = py::none(),
        py::arg("any_order") = false);
  m.def("arrow_of", ArrowOf, py::arg("rows"), py::arg("parts"));
  m.def("measure_timers", MeasureTimersAgain);
}

}  // namespace perfschema::bindings
