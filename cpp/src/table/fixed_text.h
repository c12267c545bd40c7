// table/fixed_text.h: a text that is composed at compile time: names and sentences of column groups.
#pragma once

#include <cstddef>
#include <string_view>

namespace perfschema {

// Threads: immutable.
template <size_t N>
class FixedText {
 public:
  constexpr FixedText() = default;
  constexpr FixedText(std::string_view text) { Add(text); }               // NOLINT(google-explicit-constructor)
  constexpr FixedText(const char* text) { Add(std::string_view(text)); }  // NOLINT(google-explicit-constructor)
  constexpr FixedText(std::string_view a, std::string_view b, std::string_view c = {}) {
    Add(a);
    Add(b);
    Add(c);
  }
  constexpr std::string_view view() const { return {text_, size_}; }

 private:
  constexpr void Add(std::string_view text) {
    if (size_ + text.size() > N) throw "text too long";  // in a constant expression: the build fails here
    for (const char c : text) text_[size_++] = c;
  }
  char text_[N] = {};
  size_t size_ = 0;
};

}  // namespace perfschema
