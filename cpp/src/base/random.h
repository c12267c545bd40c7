// base/random.h: numbers that need not be secret.
#pragma once

#include <cstdint>

namespace perfschema {

// Returns the next number of Marsaglia's xorshift. REQUIRES: `state` is not 0.
inline uint64_t NextRandom(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

}  // namespace perfschema
