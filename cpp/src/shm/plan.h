// shm/plan.h: computes how many elements each array has for given options, how long they are, and which addresses they get.
#pragma once

#include <cstdint>

#include "shm/layout.h"
#include "shm/options.h"

namespace perfschema {

inline uint64_t WholeBytes(const ShmArray& array) { return RoundToPages(array.capacity * array.stride); }

// Returns how many rows the pool of a kind holds while the trace is on, whose buffer it is. More than history_long shows, where nobody has
// set that number.
uint64_t RowsOfTrace(Kind kind, const Options& options);

// Returns the bytes from one record of a kind to the next.
uint64_t RecordBytesFor(Kind kind, const Options& options);
// Returns the bytes of a place for a statement's long texts; 0 = there are none.
uint64_t LongTextBytesFor(const Options& options);

// Threads: immutable.
struct Plan {
  explicit Plan(const Options& options);
  struct Place {
    uint64_t offset, stride, capacity, first_extent;  // as in ShmArray
  };
  Place arrays[kArrayCount];
  ArrayId order[kArrayCount];  // by address
  uint64_t bytes;              // ShmHeader.segment_bytes
};

}  // namespace perfschema
