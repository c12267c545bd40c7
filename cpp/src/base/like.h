// base/like.h: SQL LIKE on instrument names, case-insensitive.
#pragma once

#include <string_view>

namespace perfschema {

inline char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (AsciiLower(a[i]) != AsciiLower(b[i])) return false;
  }
  return true;
}

// Matches '%' with any run of characters, `one` with one character ('_' in SQL, '?' in start-time presets); '\' escapes.
inline bool Like(std::string_view text, std::string_view pattern, char one = '_') {
  size_t t = 0, p = 0, retry_t = 0, retry_p = std::string_view::npos;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '%') {
      retry_p = ++p;
      retry_t = t;
      continue;
    }
    if (p < pattern.size()) {
      const bool escaped = pattern[p] == '\\' && p + 1 < pattern.size();
      const char want = pattern[p + (escaped ? 1 : 0)];
      if ((!escaped && want == one) || AsciiLower(want) == AsciiLower(text[t])) {
        p += escaped ? 2 : 1;
        ++t;
        continue;
      }
    }
    if (retry_p == std::string_view::npos) return false;
    p = retry_p;
    t = ++retry_t;
  }
  while (p < pattern.size() && pattern[p] == '%') ++p;
  return p == pattern.size();
}

}  // namespace perfschema
