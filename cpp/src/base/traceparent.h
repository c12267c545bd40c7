// base/traceparent.h: W3C's traceparent, which names the span that called: "00-<32 digits>-<16 digits>-<2 digits>".
// Digits are lowercase hexadecimal.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace perfschema {

struct Traceparent {
  static constexpr uint32_t kBytes = 24, kTextBytes = 55;
  uint8_t ids[kBytes];  // the trace's 16 bytes, then the span's 8
  uint8_t flags;
};

namespace internal {

constexpr int HexDigit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

}  // namespace internal

// Returns what the text says; nothing if W3C says that a receiver must ignore it. A later version may add fields.
constexpr std::optional<Traceparent> ParseTraceparent(std::string_view text) {
  constexpr uint32_t kDashes[] = {2, 35, 52};
  if (text.size() < Traceparent::kTextBytes || text.substr(0, 2) == "ff") return std::nullopt;
  if (text.size() > Traceparent::kTextBytes && (text.substr(0, 2) == "00" || text[Traceparent::kTextBytes] != '-')) return std::nullopt;
  uint8_t bytes[1 + Traceparent::kBytes + 1] = {};
  uint32_t digits = 0;
  for (uint32_t i = 0; i < Traceparent::kTextBytes; ++i) {
    if (i == kDashes[0] || i == kDashes[1] || i == kDashes[2]) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const int digit = internal::HexDigit(text[i]);
    if (digit < 0) return std::nullopt;
    bytes[digits / 2] = static_cast<uint8_t>(bytes[digits / 2] << 4 | digit);
    ++digits;
  }
  Traceparent made{};
  uint8_t trace = 0, span = 0;
  for (uint32_t i = 0; i < Traceparent::kBytes; ++i) {
    made.ids[i] = bytes[1 + i];
    (i < 16 ? trace : span) |= bytes[1 + i];
  }
  made.flags = bytes[1 + Traceparent::kBytes];
  return trace != 0 && span != 0 ? std::optional(made) : std::nullopt;
}

// Writes kTextBytes characters.
constexpr void FormatTraceparent(const Traceparent& parent, char* to) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto put = [&](uint8_t byte) {
    *to++ = kDigits[byte >> 4];
    *to++ = kDigits[byte & 15];
  };
  put(0);
  *to++ = '-';
  for (uint32_t i = 0; i < Traceparent::kBytes; ++i) {
    put(parent.ids[i]);
    if (i == 15) *to++ = '-';
  }
  *to++ = '-';
  put(parent.flags);
}

}  // namespace perfschema
