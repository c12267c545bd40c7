// record/engine/texts.h: texts of the segment that are whole words, zero padded: names of threads, principals,
// actors.
#pragma once

#include <cstring>
#include <string_view>

#include "base/text.h"
#include "shm/cell.h"

namespace perfschema {

// Widths of user and host in every table.
inline constexpr size_t kUserBytes = 32, kHostBytes = 255;

// Stores a text; a longer one is cut. Stores only the words that the text needs: readers stop at the first zero byte.
// REQUIRES: the section or the lock that guards the words; readers check it.
template <size_t N>
void StoreText(Word (&words)[N], std::string_view text) {
  text = CutText(text.substr(0, text.find('\0')), N * 8);
  const size_t bytes = text.size() < N * 8 ? text.size() + 1 : text.size();
  char padded[N * 8] = {};
  text.copy(padded, sizeof padded);
  CopyToShared(words, padded, bytes);
}

// Compares the words with a text. REQUIRES: no thread stores to the words meanwhile.
template <size_t N>
bool IsText(const Word (&words)[N], std::string_view text) {
  char found[N * 8];
  CopyFromShared(found, words, sizeof found);
  return std::string_view(found, strnlen(found, sizeof found)) == text.substr(0, text.find('\0'));
}

}  // namespace perfschema
