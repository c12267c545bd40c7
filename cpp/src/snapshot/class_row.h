// snapshot/class_row.h: an instrument, as readers see it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/families.h"
#include "shm/governor.h"
#include "shm/rules.h"
#include "snapshot/text.h"

namespace perfschema {

// An instrument, or a registered error or status variable.
struct ClassRow {
  uint32_t index;  // of its ShmClass
  Family family;
  uint32_t key;
  Text<128> name;
  bool enabled;
  Timing timed;
  Step step;
  bool trace_enabled;
  uint32_t properties;
  uint32_t volatility;
  std::optional<LongText> documentation;
  int32_t error_number;  // of a registered error
  Text<5> sqlstate;
  bool controlled;
  Kind kind() const { return TraitsOf(family).kind; }
  bool is_wait() const { return kind() == Kind::kWait; }
};

}  // namespace perfschema
