// base/clip.h: texts that must fit into a name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace perfschema {

// Copies at most `most` bytes of a text, and a zero. Control characters, '%' and '/' become '_'. A longer text ends in two digits of its
// hash (FNV-1a), so that two such texts differ; python/pfs/_read/places/readable.py does the same. REQUIRES: most + 1 bytes, most > 2.
inline void CopyClipped(char* to, std::string_view text, size_t most) {
  const size_t kept = text.size() <= most ? text.size() : most - 2;
  for (size_t i = 0; i < kept; ++i) {
    const char c = text[i];
    to[i] = static_cast<unsigned char>(c) < 0x20 || c == '%' || c == '/' ? '_' : c;
  }
  to[kept] = 0;
  if (kept == text.size()) return;
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  (void)std::snprintf(to + kept, 3, "%02x", hash & 0xff);
}

}  // namespace perfschema
