// base/rounding.h: rounds sizes up.
#pragma once

#include <cstdint>

namespace perfschema {

inline constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
constexpr uint64_t RoundToPages(uint64_t bytes) { return RoundUp(bytes, kPageBytes); }

}  // namespace perfschema
