// snapshot/mend.h: mends copies of statistics whose writer died, or was stopped, while it changed them. Count and sum are one store, and
// so right. Minimum and maximum are shown if they are consistent.
#pragma once

#include "shm/shapes.h"

namespace perfschema {

inline void Mend(Stat* stat) {
  if (stat->count == 0) {  // half cleared, or half of its first event
    *stat = {};
    return;
  }
  // Does not check MIN <= AVG: a wait for many rows counts all of them, and events that are not timed count as well.
  if (stat->min_ps() <= stat->max_ps && stat->max_ps <= stat->sum_ps && stat->avg_ps() <= stat->max_ps) return;
  stat->inverted_min_ps = stat->max_ps = 0;
}

inline void MendNumbers(const Shape& shape, Numbers* numbers) {
  for (uint32_t i = 0; i < WordsOf(shape.columns); ++i) {
    if (shape.rules[i] != Rule::kStat) continue;
    Stat stat = StatIn(*numbers, i);
    Mend(&stat);
    PutStatIn(numbers, i, stat);
  }
}

}  // namespace perfschema
