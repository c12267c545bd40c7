// tables/timers.h: the measurements that performance_timers shows.
#pragma once

#include "perfschema/abi.h"

namespace perfschema {

// Forgets the measurements of the timers, so that the next read of performance_timers measures them again. That takes some 30 ms.
// Threads: any.
PFS_API void MeasureTimersAgain();

}  // namespace perfschema
