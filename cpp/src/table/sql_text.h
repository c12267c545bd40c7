// table/sql_text.h: formats values as consecutive SQL literals. docs/reference/trace.md defines the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "table/registry.h"

namespace perfschema {

// The SQL type of a column.
struct SqlType {
  std::string_view name;  // without the width or values
  ColumnKind kind;
  uint32_t width = 0;  // varchar
  bool nullable = false;
  std::span<const std::string_view> values = {};
  PFS_API std::string text() const;  // "varchar(64)"
};

// Takes the same calls as a batch of a ColumnBuilder, and appends the values to a text.
// Threads: external lock.
class SqlText {
 public:
  explicit SqlText(std::string& out) : out_(out) {}
  // Sets the type of the next value.
  void Begin(const SqlType& type) { type_ = &type; }
  void Begin(const SqlType&&) = delete;  // the type must live as long
  void AddComma() { out_ += ','; }

  void AddWord(uint64_t word);
  void AddCode(uint32_t code) { AddText(code < type_->values.size() ? type_->values[code] : std::string_view()); }
  void AddText(std::string_view text);
  void AddOwnText(std::string_view text) { AddText(text); }
  template <typename MakeText>
  void AddMadeText(uint64_t, MakeText make) {
    AddText(make());
  }
  void AddNullWord() { out_ += "NULL"; }
  void AddNullCode() { out_ += "NULL"; }

 private:
  std::string& out_;
  const SqlType* type_ = nullptr;
};

}  // namespace perfschema
