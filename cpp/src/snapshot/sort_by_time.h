// snapshot/sort_by_time.h: sorts up to a million events by the time at which they finished.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/large_vector.h"

namespace perfschema {

struct TimedPlace {
  uint64_t time;
  uint64_t place;
};

// Sorts by time; items of equal time keep their order. The work is linear for any distribution of times: one pass to read them, and one
// for each 11 bits in which they differ. `buffer` is working memory.
inline void SortByTime(LargeVector<TimedPlace>* items, LargeVector<TimedPlace>* cached) {
  constexpr uint32_t kBits = 11;
  constexpr size_t kDigits = size_t{1} << kBits;
  if (items->empty()) return;
  uint64_t least = items->front().time, most = least, last = least;
  bool is_sorted = true;
  for (const TimedPlace& item : *items) {
    least = item.time < least ? item.time : least;
    most = item.time > most ? item.time : most;
    is_sorted &= last <= item.time;
    last = item.time;
  }
  if (is_sorted) return;
  cached->resize(items->size());
  const auto bits = static_cast<uint32_t>(std::bit_width(most - least));
  for (uint32_t shift = 0; shift < bits; shift += kBits) {
    const auto digit = [&](const TimedPlace& item) { return (item.time - least) >> shift & (kDigits - 1); };
    std::array<size_t, kDigits> next{};
    for (const TimedPlace& item : *items) ++next[digit(item)];
    size_t before = 0;
    for (size_t& place : next) before += std::exchange(place, before);
    for (const TimedPlace& item : *items) (*cached)[next[digit(item)]++] = item;
    items->swap(*cached);
  }
}

}  // namespace perfschema
