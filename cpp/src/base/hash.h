// base/hash.h: FNV-1a, for private tables and for keys whose owner compares the full key.
#pragma once

#include <cstdint>
#include <string_view>

namespace perfschema {

// Threads: external lock.
class Hash {
 public:
  constexpr explicit Hash(uint64_t seed = 0) : value_(14695981039346656037u ^ seed) {}
  constexpr Hash& AddByte(uint8_t byte) {
    value_ = (value_ ^ byte) * 1099511628211u;
    return *this;
  }
  constexpr Hash& Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<uint8_t>(c));
    return *this;
  }
  // Adds a text and a mark behind it: ("ab", "c") is not ("a", "bc"). No UTF-8 has this byte.
  constexpr Hash& AddPart(std::string_view text) { return Add(text).AddByte(0xff); }

  constexpr uint64_t value() const { return value_; }
  constexpr uint32_t folded() const { return static_cast<uint32_t>(value_ ^ (value_ >> 32)); }

 private:
  uint64_t value_;
};

}  // namespace perfschema
