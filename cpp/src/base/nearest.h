// base/nearest.h: finds the name with the fewest edits from the typed name, for "did you mean".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/like.h"

namespace perfschema {

// Returns the Levenshtein distance, case-insensitively.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (AsciiLower(a[i - 1]) == AsciiLower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Returns an empty text if no name is like the typed one, because half of the longer of both would have to change. A name that
// begins with the typed one is like it. Input that is longer than any name is cut: pasted text must not cost seconds.
template <typename Range, typename NameOf>
std::string_view Nearest(std::string_view typed, const Range& range, NameOf name_of) {
  typed = typed.substr(0, 128);
  std::string_view best;
  size_t best_distance = 0;
  for (const auto& item : range) {
    const std::string_view name = name_of(item);
    size_t distance = EditDistance(typed, name);
    if (typed.size() >= 3 && EqualsIgnoringCase(name.substr(0, typed.size()), typed)) distance = std::min(distance, typed.size() / 2);
    if (2 * distance >= std::max(typed.size(), name.size())) continue;
    if (best.empty() || distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

// Returns the end of a message about an unknown name: ": the nearest is 'name'", or `otherwise`, which says where all are.
template <typename Range, typename NameOf>
std::string NearestHint(std::string_view typed, const Range& range, NameOf name_of, std::string_view otherwise = {}) {
  const std::string_view nearest = Nearest(typed, range, name_of);
  return nearest.empty() ? std::string(otherwise) : ": the nearest is '" + std::string(nearest) + "'";
}

}  // namespace perfschema
