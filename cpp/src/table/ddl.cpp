// Makes the CREATE TABLE text, which MySQL and MariaDB take.
#include <cstddef>

#include "table/sql_text.h"
#include "table/table_def.h"

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

std::string Backquoted(std::string_view name) { return "`" + std::string(name) + "`"; }

// Returns the literals of the row that INSERT without values makes, one for each column; none if the table takes no rows.
std::vector<std::string> Defaults(const TableDef& def) {
  std::vector<std::string> defaults;
  if (def.insert.make_default == nullptr) return defaults;
  std::vector<std::max_align_t> row(def.scan.row_bytes / sizeof(std::max_align_t) + 1);
  def.insert.make_default(row.data());
  for (const Column& column : def.columns) {
    SqlText text(defaults.emplace_back());
    text.Begin(column.type);
    column.AppendSql(row.data(), text);
  }
  return defaults;
}

}  // namespace

std::string TableDdl(const NamedTable& table) {
  const TableDef& def = *table.def;
  const std::span<const std::string_view> key = def.key.get();
  size_t name_width = 0, type_width = 0;
  for (const Column& column : def.columns) {
    name_width = std::max(name_width, column.name.view().size());
    type_width = std::max(type_width, column.type.text().size());
  }
  if (type_width > 24) type_width = 24;  // long value lists exceed the width anyway
  const std::vector<std::string> defaults = Defaults(def);
  std::string text = "CREATE TABLE `performance_schema`.`" + std::string(table.name) + "` (\n";
  const auto pad = [&](std::string_view word, size_t width) {
    text += word;
    text.append(word.size() < width ? width - word.size() : 1, ' ');
  };
  for (size_t i = 0; i < def.columns.size(); ++i) {
    const Column& column = def.columns[i];
    const bool is_last = i + 1 == def.columns.size() && key.empty();
    text += "  ";
    pad(Backquoted(column.name.view()), name_width + 3);
    pad(column.type.text(), type_width + 1);
    pad(column.type.nullable ? "NULL" : "NOT NULL", 9);
    if (!defaults.empty()) text += "DEFAULT " + defaults[i] + " ";
    text += "COMMENT " + Quoted(column.doc.view()) + (is_last ? "\n" : ",\n");
  }
  if (!key.empty()) {
    bool may_be_null = false;  // a PRIMARY KEY may not
    for (const Column& column : def.columns) {
      may_be_null |= column.type.nullable && std::find(key.begin(), key.end(), column.name.view()) != key.end();
    }
    text += may_be_null ? "  UNIQUE KEY (" : "  PRIMARY KEY (";
    for (size_t i = 0; i < key.size(); ++i) text += (i == 0 ? "" : ", ") + Backquoted(key[i]);
    text += ")\n";
  }
  return text + ") COMMENT = " + Quoted(def.doc) + ";\n";
}

}  // namespace perfschema
