#include "table/sql_text.h"

#include <bit>
#include <charconv>
#include <cstring>

namespace perfschema {
namespace {

// Returns the size of the UTF-8 character that begins here; 0 = it is invalid, or not allowed in a line.
size_t CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool is_no_character =
      (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);  // a surrogate, or beyond the last character
  return is_overlong || is_no_character ? 0 : bytes;
}

}  // namespace

std::string SqlType::text() const {
  if (width != 0) return std::string(name) + "(" + std::to_string(width) + ")";
  std::string text(name);
  for (const std::string_view value : values) text += (text.size() == name.size() ? "('" : ",'") + std::string(value) + "'";
  return values.empty() ? text : text + ")";
}

void SqlText::AddWord(uint64_t word) {
  char digits[32];
  std::to_chars_result made{};
  switch (type_->kind) {
    case ColumnKind::kInt64:
    case ColumnKind::kInt32:
    case ColumnKind::kTimestamp:
      made = std::to_chars(digits, digits + sizeof digits, static_cast<int64_t>(word));
      break;
    case ColumnKind::kDouble:
      made = std::to_chars(digits, digits + sizeof digits, std::bit_cast<double>(word));
      break;
    default:
      made = std::to_chars(digits, digits + sizeof digits, word);
  }
  out_.append(digits, made.ptr);
}

void SqlText::AddText(std::string_view text) {
  const size_t before = out_.size();
  out_ += '\'';
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterAt(text, at);
    if (bytes == 0) {
      static constexpr char kDigits[] = "0123456789ABCDEF";
      out_.resize(before);
      out_ += "CAST(X'";
      for (const char c : text) {
        out_ += kDigits[static_cast<unsigned char>(c) >> 4];
        out_ += kDigits[c & 15];
      }
      out_ += "' AS TEXT)";
      return;
    }
    if (text[at] == '\'') {
      out_.append(text, copied, at - copied);
      out_ += '\'';
      copied = at;
    }
    at += bytes;
  }
  out_.append(text, copied);
  out_ += '\'';
}

}  // namespace perfschema
