// snapshot/text.h: texts of rows. A Text does not own its bytes: they are a literal, lie in the segment and never
// change, or lie in the arena of the Snapshot that made the row. So equal pointers mean equal texts, which
// table/column_builder.h relies on.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace perfschema {

// VARCHAR(N): longer input is cut, never rejected.
// Threads: immutable. Valid as long as the Snapshot.
template <uint32_t N>
struct Text {
  static constexpr uint32_t kWidth = N;
  const char* data = "";
  uint32_t size = 0;

  constexpr Text() = default;
  constexpr Text(std::string_view text) {  // NOLINT(google-explicit-constructor): a text is a text
    const std::string_view kept = CutText(text, N);
    data = kept.data();
    size = static_cast<uint32_t>(kept.size());
  }
  constexpr Text(const char* text) : Text(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  constexpr std::string_view view() const { return {data, size}; }
};

// CHAR(N).
template <uint32_t N>
struct Char : Text<N> {
  using Text<N>::Text;
  constexpr Char(const Text<N>& text) : Text<N>(text) {}  // NOLINT(google-explicit-constructor)
};

// VARCHAR(N) with different values in each row: a key. Readers do not search an earlier row for the same one.
template <uint32_t N>
struct OwnText : Text<N> {
  using Text<N>::Text;
  constexpr OwnText(const Text<N>& text) : Text<N>(text) {}  // NOLINT(google-explicit-constructor)
};

// LONGTEXT: no width of its own.
struct LongText : Text<0xffffffffu> {
  using Text::Text;
};

}  // namespace perfschema
