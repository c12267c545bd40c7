#include "table/column_builder.h"

namespace perfschema {

void ColumnBuilder::Grow() {
  std::vector<Place> old(places_.empty() ? 64 : places_.size() * 2, Place{nullptr, 0, 0});
  old.swap(places_);
  for (const Place& place : old) {
    if (place.text == nullptr) continue;
    size_t at = Hash(place.text) & (places_.size() - 1);
    while (places_[at].text != nullptr) at = (at + 1) & (places_.size() - 1);
    places_[at] = place;
  }
}

uint32_t ColumnBuilder::CodeOf(std::string_view text) {
  if (text.data() == nullptr) text = "";
  if (places_used_ * 2 >= places_.size()) Grow();
  size_t at = Hash(text.data()) & (places_.size() - 1);
  while (places_[at].text != nullptr && (places_[at].text != text.data() || places_[at].size != text.size())) {
    at = (at + 1) & (places_.size() - 1);
  }
  if (places_[at].text == nullptr) {
    // A pointer not seen before: the same text may lie elsewhere, too.
    const auto [entry, is_new] = code_of_text_.emplace(text, static_cast<uint32_t>(data_.texts.size()));
    if (is_new) data_.texts.emplace_back(text);
    places_[at] = {text.data(), static_cast<uint32_t>(text.size()), entry->second};
    ++places_used_;
  }
  last_ = text;
  last_code_ = places_[at].code;
  return last_code_;
}

}  // namespace perfschema
