// base/number_map.h: maps numbers to values, in one block: for maps that are made, filled and thrown away.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace perfschema {

// Threads: external lock. A number of all ones is no key.
template <typename Value>
class NumberMap {
 public:
  // Returns the value, valid until the next Add(), or nullptr if the key is missing.
  const Value* Find(uint64_t key) const {
    if (places_.empty()) return nullptr;
    const Place& place = places_[PlaceOf(key)];
    return place.key == key ? &place.value : nullptr;
  }
  // Adds a value. REQUIRES: the key is missing.
  void Add(uint64_t key, const Value& value) {
    if (++size_ * 2 > places_.size()) Grow();
    places_[PlaceOf(key)] = {key, value};
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Place {
    uint64_t key = kFree;
    Value value{};
  };
  // Returns the place of the key, or its free place if it is missing.
  size_t PlaceOf(uint64_t key) const {
    size_t at = (key * 0x9e3779b97f4a7c15u) >> shift_;  // the highest bits: only they depend on all bits of the key
    while (places_[at].key != key && places_[at].key != kFree) at = (at + 1) & (places_.size() - 1);
    return at;
  }
  void Grow() {
    std::vector<Place> old(places_.empty() ? 64 : places_.size() * 4);
    old.swap(places_);
    shift_ = static_cast<uint32_t>(std::countl_zero(places_.size()) + 1);
    for (const Place& place : old) {
      if (place.key != kFree) places_[PlaceOf(place.key)] = place;
    }
  }

  std::vector<Place> places_;  // open addressing, a power of two
  size_t size_ = 0;
  uint32_t shift_ = 0;
};

}  // namespace perfschema
