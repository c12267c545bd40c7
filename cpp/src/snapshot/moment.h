// snapshot/moment.h: the moment of a reading, for rows that show what has not ended; whether the order of rows matters, and empty ones.
//
// Like ReadGuard, it belongs to the thread that reads, while the object exists. Without one, the moment is the present, running events
// have no end, and events come in their order.
#pragma once

#include <cstdint>
#include <optional>

#include "shm/layout.h"

namespace perfschema {

// Threads: one thread.
class ReadMoment {
 public:
  // `now`: picoseconds since the epoch; of a dead process the last moment at which it was known to run. nullopt: the timer says it.
  // `shows_elapsed`: running events have the end `now`, and the time so far.
  // `any_order`: the reader does not see in which order events come, so that they need not be sorted.
  // `only_used`: buckets of a digest's histogram in which nothing was counted are left out.
  ReadMoment(std::optional<uint64_t> now, bool shows_elapsed, bool any_order, bool only_used);
  ~ReadMoment();
  ReadMoment(const ReadMoment&) = delete;
  ReadMoment& operator=(const ReadMoment&) = delete;

  // Returns the moment of this thread's reading, in picoseconds since the epoch of the process that the header is of. It stays the same
  // during the reading.
  static uint64_t Now(const ShmHeader& header);
  // Returns the time from `start` to that moment, in picoseconds; 0 if it is later.
  static uint64_t Since(const ShmHeader& header, uint64_t start);
  // Returns that moment in seconds since 1970.
  static uint64_t NowSeconds(const ShmHeader& header);
  static bool ShowsElapsed();
  static bool AnyOrder();
  static bool OnlyUsed();

 private:
  std::optional<uint64_t> now_;
  const bool is_given_, shows_elapsed_, any_order_, only_used_;
  ReadMoment* const before_;
};

// Returns the present on the time line of a process's events, in picoseconds since its epoch.
// REQUIRES: the process was started since the last boot of this machine.
uint64_t PresentOf(const ShmHeader& header);

}  // namespace perfschema
