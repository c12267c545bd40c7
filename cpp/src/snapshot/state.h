// snapshot/state.h: what the header says of the process, of pfs and of the ceiling on its overhead.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "shm/layout.h"
#include "shm/losses.h"
#include "shm/segment.h"
#include "snapshot/class_row.h"

namespace perfschema {

class Snapshot;

// An array of the segment.
struct ArrayRow {
  Text<64> name;
  uint64_t used, capacity, reserved_bytes;
};

// A change that the ceiling made to an instrument.
struct StepRow {
  uint64_t number, micros;
  const ClassRow* instrument;
  Step from, to;
  uint64_t overhead_ppm, class_ppm, limit_ppm, events_per_second;
};

// Calls of one place with one result.
struct CallSiteRow {
  const ClassRow* instrument;
  Operation operation;
  std::optional<Text<64>> source;
  int error;  // its errno; 0: it found nothing; kOtherError
  uint64_t count, sum_ps;
  std::string_view name;  // of the file of the first one; empty: none
};

std::vector<ArrayRow> Arrays(const SegmentView& view);
uint64_t LossOf(const Snapshot& snapshot, Loss id);  // another process's segment: with the losses of its reader
uint64_t RepairedBefore(const Snapshot& snapshot);   // counts of the readers of another process's segment, before this snapshot
TimerId TimerOf(const Snapshot& snapshot, TimedClass id);
std::string_view StatusReasonIn(const Snapshot& snapshot);                                   // why pfs is off, or empty
std::string_view TraceStatusIn(const Snapshot& snapshot);                                    // the last error of the trace
std::string_view TimerReasonIn(const Snapshot& snapshot);                                    // why the cycle counter is not used
void ForEachStep(const Snapshot& snapshot, const std::function<void(const StepRow&)>& use);  // oldest first
void ForEachCallSite(const Snapshot& snapshot,
                     const std::function<void(const CallSiteRow&)>& use);  // those that were called since TRUNCATE

}  // namespace perfschema
