// shm/fact.h: encodes and decodes a fact, its numbers and texts. record/declared/program.h says what those of each
// kind mean.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shm/layout_program.h"

namespace perfschema {

using FactText = std::optional<std::string>;  // nullopt = NULL

struct Fact {
  std::vector<uint64_t> numbers;
  std::vector<FactText> texts;

  uint64_t number(size_t i) const { return i < numbers.size() ? numbers[i] : 0; }
  std::string_view text(size_t i) const { return i < texts.size() && texts[i] ? std::string_view(*texts[i]) : std::string_view(); }
};

inline constexpr uint32_t kNullText = ~uint32_t{0};

inline std::string EncodeFact(const Fact& fact) {
  std::string bytes;
  const auto add = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(static_cast<uint32_t>(fact.numbers.size()));
  add(static_cast<uint32_t>(fact.texts.size()));
  for (const uint64_t number : fact.numbers) add(number);
  for (const FactText& text : fact.texts) {
    add(text ? static_cast<uint32_t>(text->size()) : kNullText);
    if (text) bytes += *text;
  }
  return bytes;
}

// Calls number(value) and text(std::optional<std::string_view>) for each value. Returns false if the bytes make no
// sense.
template <typename OnNumber, typename OnText>
bool DecodeFact(std::string_view bytes, OnNumber number, OnText text) {
  const auto take = [&](auto* value) {
    if (bytes.size() < sizeof *value) return false;
    std::memcpy(value, bytes.data(), sizeof *value);
    bytes.remove_prefix(sizeof *value);
    return true;
  };
  uint32_t numbers = 0, texts = 0;
  if (!take(&numbers) || !take(&texts)) return false;
  for (uint32_t i = 0; i < numbers; ++i) {
    uint64_t value = 0;
    if (!take(&value)) return false;
    number(value);
  }
  for (uint32_t i = 0; i < texts; ++i) {
    uint32_t size = 0;
    if (!take(&size) || (size != kNullText && size > bytes.size())) return false;
    text(size == kNullText ? std::optional<std::string_view>() : bytes.substr(0, size));
    if (size != kNullText) bytes.remove_prefix(size);
  }
  return true;
}

// Reads the bytes of a chain of any segment: block(index) is a ShmFactBlock or nullptr. Returns false if the chain
// ends too early.
template <typename BlockAt>
bool ReadChain(uint32_t first, uint32_t bytes, BlockAt block, std::string* to) {
  if (bytes > kMostFactBytes) return false;
  to->resize(bytes);
  for (size_t done = 0; done < bytes; done += kFactBlockBytes) {
    const ShmFactBlock* const at = block(first);
    if (at == nullptr) return false;
    CopyFromShared(to->data() + done, at->words, std::min<size_t>(bytes - done, kFactBlockBytes));
    first = at->next.load(kAcquire);
  }
  return true;
}

}  // namespace perfschema
