#include "table/column_builder.h"

#include <functional>

namespace perfschema {

constexpr size_t kSeen = 512;

uint32_t ColumnBuilder::CodeOf(std::string_view text) {
  if (text.data() == nullptr) text = "";
  if (seen_.empty()) seen_.resize(kSeen);
  const auto pointer = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(text.data()));
  Seen& seen = seen_[(pointer * 0x9e3779b97f4a7c15u) >> 32 & (kSeen - 1)];
  if (seen.text != text.data() || seen.size != text.size()) seen = {text.data(), text.size(), CodeOfText(text)};
  return seen.code;
}

// The same text may be at many addresses.
uint32_t ColumnBuilder::CodeOfText(std::string_view text) {
  if (data_.texts.size() * 2 >= places_.size()) Grow();
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(text));
  size_t at = hash & (places_.size() - 1);
  for (; places_[at].code_and_1 != 0; at = (at + 1) & (places_.size() - 1)) {
    if (places_[at].hash == hash && data_.texts[places_[at].code_and_1 - 1] == text) return places_[at].code_and_1 - 1;
  }
  places_[at] = {hash, static_cast<uint32_t>(data_.texts.size()) + 1};
  data_.texts.Add(text);
  return places_[at].code_and_1 - 1;
}

void ColumnBuilder::Grow() {
  std::vector<Place> old(places_.empty() ? 64 : places_.size() * 4, Place{0, 0});
  old.swap(places_);
  for (const Place& place : old) {
    if (place.code_and_1 == 0) continue;
    size_t at = place.hash & (places_.size() - 1);
    while (places_[at].code_and_1 != 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = place;
  }
}

}  // namespace perfschema
