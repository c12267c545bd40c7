// base/histogram.h: the buckets of statement histograms (semantics.md I10).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace perfschema {

inline constexpr uint32_t kHistogramBuckets = 450;

// Lower bounds in picoseconds: 0, 10 microseconds, and then fifty per power of ten. Computed by the compiler: no floating point at run
// time.
inline constexpr std::array<uint64_t, kHistogramBuckets> kBucketLow = [] {
  std::array<uint64_t, kHistogramBuckets> low{};
  double bound = 1e7;
  for (uint32_t n = 1; n < kHistogramBuckets; ++n) {
    low[n] = static_cast<uint64_t>(bound);
    bound *= 1.04712854805089965;  // the fiftieth root of ten
  }
  return low;
}();
// Returns the upper bound; the last bucket has none.
constexpr uint64_t BucketHigh(uint32_t bucket) { return bucket + 1 < kHistogramBuckets ? kBucketLow[bucket + 1] : ~uint64_t{0}; }

// For each number of bits: the bucket of the smallest duration with this many bits.
inline constexpr std::array<uint16_t, 66> kFirstOfBits = [] {
  std::array<uint16_t, 66> first{};
  for (uint32_t bits = 1; bits <= 65; ++bits) {
    uint32_t bucket = first[bits - 1];
    while (bucket + 1 < kHistogramBuckets && (bits == 65 || kBucketLow[bucket + 1] <= uint64_t{1} << (bits - 1))) ++bucket;
    first[bits] = static_cast<uint16_t>(bucket);
  }
  return first;
}();

// Finds the bucket of a duration. Buckets are half open: a duration equal to a bound belongs to the bucket above.
// A power of two has fifteen buckets: four steps.
constexpr uint32_t BucketOf(uint64_t wait_ps) {
  const auto bits = static_cast<uint32_t>(std::bit_width(wait_ps));
  uint32_t low = kFirstOfBits[bits], high = uint32_t{kFirstOfBits[bits + 1]} + 1;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (wait_ps < kBucketLow[middle] ? high : low) = middle;
  }
  return low;
}
static_assert(kBucketLow[1] == 10'000'000 && kBucketLow[2] == 10'471'285 && kBucketLow[3] == 10'964'781 && kBucketLow[4] == 11'481'536);
static_assert(kBucketLow[440] == 6'025'595'860'743'779 && kBucketLow[441] == 6'309'573'444'802'144);
static_assert(BucketOf(0) == 0 && BucketOf(9'999'999) == 0 && BucketOf(10'000'000) == 1 && BucketOf(~uint64_t{0}) == 449);

}  // namespace perfschema
