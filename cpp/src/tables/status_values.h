// tables/status_values.h: status variables of the program as text, for the tables that show them.
#pragma once

#include <string>

#include "tables/sums.h"

namespace perfschema {

inline Text<64> VariableName(const SumRow& row) { return row.instrument->name.view(); }
inline Text<1024> StatusText(const Snapshot& snapshot, const Numbers& numbers) {
  return snapshot.Keep(std::to_string(static_cast<int64_t>(numbers[0])));
}

}  // namespace perfschema
