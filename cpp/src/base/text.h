// base/text.h: texts cut to a width.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace perfschema {

// Returns the longest beginning of `text` of at most `limit` bytes that does not end inside a UTF-8 character.
constexpr std::string_view CutText(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  // Goes back at most three bytes: text that is no UTF-8 is cut at the limit.
  for (int steps = 0; steps < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u; ++steps) --end;
  if ((static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) end = limit;
  return text.substr(0, end);
}

// semantics.md I1: copies `text` in at most `limit` bytes. A longer text ends with three dots, as far as they fit. Returns the bytes
// written to `out`. REQUIRES: a capacity of `limit`.
inline size_t CutText(std::string_view text, size_t limit, char* out) {
  const size_t dots = text.size() <= limit ? 0 : limit < 3 ? limit : 3;
  const std::string_view kept = CutText(text, limit - dots);
  if (!kept.empty()) std::memcpy(out, kept.data(), kept.size());
  if (dots != 0) std::memset(out + kept.size(), '.', dots);
  return kept.size() + dots;
}

}  // namespace perfschema
