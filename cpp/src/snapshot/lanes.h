// snapshot/lanes.h: the statistics of an object, lane by lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/families.h"
#include "shm/cell.h"

namespace perfschema {

// Holds the statistics of an object, lane by lane (kReadLane ... in base/families.h): only its own lanes, since there may be a great many
// objects. Functions for columns are inlined into the columns' loops, which then do not load words that a column does not show.
template <uint32_t kCount>
struct LanesOf {
  Stat stats[kCount];
  uint64_t amounts[kCount] = {};

  // Merges as many lanes, or fewer.
  template <uint32_t kOthers>
  void Merge(const LanesOf<kOthers>& other) {
    static_assert(kOthers <= kCount);
    for (uint32_t i = 0; i < kOthers; ++i) {
      stats[i].Merge(other.stats[i]);
      amounts[i] += other.amounts[i];
    }
  }
  template <uint32_t kFirst>
  LanesOf<kFirst> first() const {
    static_assert(kFirst <= kCount);
    LanesOf<kFirst> some;
    std::copy_n(stats, kFirst, some.stats);
    std::copy_n(amounts, kFirst, some.amounts);
    return some;
  }
  PFS_ALWAYS_INLINE Stat total() const { return sum<0, kCount - 1>(); }
  // Serves columns of tables: one lane, the sum of adjacent lanes, the bytes transferred through a lane.
  template <uint8_t kFirst, uint8_t kLast = kFirst>
  PFS_ALWAYS_INLINE Stat sum() const {
    Stat all = stats[kFirst];
    for (uint32_t i = kFirst + 1; i <= kLast; ++i) all.Merge(stats[i]);
    return all;
  }
  template <uint8_t kLane, typename Number>
  PFS_ALWAYS_INLINE Number amount() const {
    return static_cast<Number>(amounts[kLane]);
  }
};
using Lanes = LanesOf<kMostLanes>;

}  // namespace perfschema
