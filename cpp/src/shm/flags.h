// shm/flags.h: the flag word.
#pragma once

#include <cstdint>

#include "perfschema/abi.h"

namespace perfschema {

// Bits of the flag word of a class and of each of its objects: one load yields all that setup says about an event.
inline constexpr uint32_t kFlagEnabled = PFS_FLAG_ENABLED;
inline constexpr uint32_t kFlagTimed = 1u << 1;
inline constexpr uint32_t kFlagThread = 1u << 2;       // thread_instrumentation
inline constexpr uint32_t kFlagCurrent = 1u << 3;      // events_*_current
inline constexpr uint32_t kFlagHistory = 1u << 4;      // events_*_history
inline constexpr uint32_t kFlagHistoryLong = 1u << 5;  // events_*_history_long
inline constexpr uint32_t kFlagSlowTimer = 1u << 6;    // the timer is not CYCLE
inline constexpr uint32_t kFlagTrace = 1u << 7;        // the trace, for threads that are traced
inline constexpr uint32_t kFlagTraceOnly = 1u << 11;   // events_*_current is off: records are for the trace alone
inline constexpr uint32_t kFlagTimerShift = 8;         // TimerId in bits 8..10
inline constexpr uint32_t kFlagTimerMask = 7u << kFlagTimerShift;
inline constexpr uint32_t kFlagContended = 1u << 12;  // of a lock: an event is timed and recorded only if the thread must wait
// TIMED = 'SAMPLED': one event in N is timed and recorded, the others are only counted. Without kFlagTimed: all are only counted.
inline constexpr uint32_t kFlagSampled = 1u << 14;
inline constexpr uint32_t kFlagHolds = PFS_FLAG_HOLDS;    // of a lock: lock_holds
inline constexpr uint32_t kFlagDead = 1u << 16;           // the object is gone: count on its class
inline constexpr uint32_t kFlagShared = PFS_FLAG_SHARED;  // of an instance: there are cells in its list
inline constexpr uint32_t kFlagHeld = 1u << 22;           // in a forked child: stat.count is how often the forking thread holds it shared
inline constexpr uint32_t kFlagDigest = 1u << 19;         // of a statement: statements_digest
inline constexpr uint32_t kFlagCpu = 1u << 20;            // of a statement: events_statements_cpu
inline constexpr uint32_t kFlagDialectShift = 24;         // of a statement: the language of its text (base/sql_dialect.h) in bits 24..27
inline constexpr uint32_t kFlagDialectMask = 15u << kFlagDialectShift;
inline constexpr uint32_t kFlagControlled = 1u << 21;  // of memory: counts as controlled
inline constexpr uint32_t kFlagSocket = 1u << 18;      // a socket, not a file: both share some operations

}  // namespace perfschema
