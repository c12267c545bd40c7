// base/hash.h: hashes of texts, for private tables and for keys whose owner compares the full key. Hash is FNV-1a, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
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

// Returns a hash that takes whole words: for long texts. Its high bits are the good ones.
inline uint64_t HashByWords(std::string_view text) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash = text.size();
  const auto add = [&](uint64_t word) {
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (uint64_t word; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    add(word);
  }
  uint64_t rest = 0;
  for (; at < text.size(); ++at) rest = rest << 8 | static_cast<uint8_t>(text[at]);
  add(rest);
  return hash * kFactor;
}

}  // namespace perfschema
