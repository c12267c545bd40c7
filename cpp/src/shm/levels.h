// shm/levels.h: the levels that an event of a thread counts for, and the epochs in which their numbers began.
#pragma once

#include <cstdint>

#include "base/families.h"
#include "shm/array.h"

namespace perfschema {

// Levels that an event of a thread counts for: the thread, its account, that account's user and host, and all. Each level has a row of
// cells for each member, in which column = class. Numbers move up when a thread ends, an account goes, or a TRUNCATE empties the level
// below. Waits have no numbers of the last level: their totals are those of the objects.
enum class Level : uint32_t { kThread = 0, kAccount, kUser, kHost, kGlobal };
inline constexpr uint32_t kLevelCount = 5;
constexpr bool HasGlobalLevel(Kind kind) { return kind != Kind::kWait; }

// TRUNCATE of a level begins a new epoch: `now` grows, and `since` of the levels that it empties becomes `now`. A cell's gen is the epoch
// in which its numbers began: they count for a level if gen >= since[level]. A thread that finds its cell in an old epoch moves the
// numbers to the level where they still count, and starts from zero.
struct ShmEpochs {
  HalfWord now;
  HalfWord since[kLevelCount];
};

}  // namespace perfschema
