// Makes the CREATE TABLE text.
#include "table/registry.h"

namespace perfschema {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace

std::string TableDdl(const TableFacts& table) {
  size_t name_width = 0, type_width = 0;
  for (const ColumnFacts& column : table.columns) {
    name_width = std::max(name_width, column.name.size());
    type_width = std::max(type_width, column.sql_type.size());
  }
  if (type_width > 24) type_width = 24;  // long value lists exceed the width anyway
  std::string text = "CREATE TABLE performance_schema." + std::string(table.name) + " (\n";
  const auto pad = [&](std::string_view word, size_t width) {
    text += word;
    text.append(word.size() < width ? width - word.size() : 1, ' ');
  };
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const ColumnFacts& column = table.columns[i];
    const bool is_last = i + 1 == table.columns.size() && table.key.empty();
    text += "  ";
    pad(column.name, name_width + 1);
    pad(column.sql_type, type_width + 1);
    pad(column.nullable ? "NULL" : "NOT NULL", 9);
    text += "COMMENT " + Quoted(column.doc) + (is_last ? "\n" : ",\n");
  }
  if (!table.key.empty()) {
    text += "  PRIMARY KEY (";
    for (size_t i = 0; i < table.key.size(); ++i) text += (i == 0 ? "" : ", ") + std::string(table.key[i]);
    text += ")\n";
  }
  return text + ") COMMENT = " + Quoted(table.doc) + ";\n";
}

}  // namespace perfschema
