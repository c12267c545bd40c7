// Makes the CREATE TABLE text, which MySQL and MariaDB take.
#include <cstddef>

#include "table/facts.h"
#include "table/sql_text.h"

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
std::vector<std::string> Defaults(const TableFacts& table) {
  std::vector<std::string> defaults;
  const TableDef* const def = DefOf(table);
  if (def == nullptr || def->insert.make_default == nullptr) return defaults;
  std::vector<std::max_align_t> row(def->scan.row_bytes / sizeof(std::max_align_t) + 1);
  def->insert.make_default(row.data());
  for (const Column& column : def->columns) {
    SqlText text(defaults.emplace_back());
    text.Begin(column.type);
    column.AppendSql(row.data(), text);
  }
  return defaults;
}

}  // namespace

std::string TableDdl(const TableFacts& table) {
  size_t name_width = 0, type_width = 0;
  for (const ColumnFacts& column : table.columns) {
    name_width = std::max(name_width, column.name.size());
    type_width = std::max(type_width, column.sql_type.size());
  }
  if (type_width > 24) type_width = 24;  // long value lists exceed the width anyway
  const std::vector<std::string> defaults = Defaults(table);
  std::string text = "CREATE TABLE `performance_schema`.`" + std::string(table.name) + "` (\n";
  const auto pad = [&](std::string_view word, size_t width) {
    text += word;
    text.append(word.size() < width ? width - word.size() : 1, ' ');
  };
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const ColumnFacts& column = table.columns[i];
    const bool is_last = i + 1 == table.columns.size() && table.key.empty();
    text += "  ";
    pad(Backquoted(column.name), name_width + 3);
    pad(column.sql_type, type_width + 1);
    pad(column.nullable ? "NULL" : "NOT NULL", 9);
    if (!defaults.empty()) text += "DEFAULT " + defaults[i] + " ";
    text += "COMMENT " + Quoted(column.doc) + (is_last ? "\n" : ",\n");
  }
  if (!table.key.empty()) {
    bool may_be_null = false;  // a PRIMARY KEY may not
    for (const ColumnFacts& column : table.columns) {
      may_be_null |= column.nullable && std::find(table.key.begin(), table.key.end(), column.name) != table.key.end();
    }
    text += may_be_null ? "  UNIQUE KEY (" : "  PRIMARY KEY (";
    for (size_t i = 0; i < table.key.size(); ++i) text += (i == 0 ? "" : ", ") + Backquoted(table.key[i]);
    text += ")\n";
  }
  return text + ") COMMENT = " + Quoted(table.doc) + ";\n";
}

}  // namespace perfschema
