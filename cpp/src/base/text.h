// base/text.h: texts cut to a width.
#pragma once

#include <cstddef>
#include <string_view>

namespace perfschema {

// The longest beginning of `text` of at most `limit` bytes that does not end inside a UTF-8 character.
constexpr std::string_view CutText(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  // At most three steps back: bytes that are no UTF-8 are cut where they are.
  for (int steps = 0; steps < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u; ++steps) --end;
  if ((static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) end = limit;
  return text.substr(0, end);
}

}  // namespace perfschema
