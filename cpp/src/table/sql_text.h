// table/sql_text.h: values as SQL literals, one behind the other. docs/trace.md says how they look.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "table/registry.h"

namespace perfschema {

// What a type says about its column.
struct SqlType {
  std::string_view name;  // without the width or values
  ColumnKind kind;
  uint32_t width = 0;  // varchar
  bool nullable = false;
  std::span<const std::string_view> values = {};
};

// Takes what a batch of a ColumnBuilder takes, and appends it to a text.
// Threads: external lock.
class SqlText {
 public:
  explicit SqlText(std::string& out) : out_(out) {}
  // Of the value that comes next.
  void Begin(const SqlType& type) { type_ = &type; }

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
