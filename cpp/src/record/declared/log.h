// record/declared/log.h: the error log: a ring of the last events that the program logged (SEMANTICS L3). Cold, but may be called from anywhere.
//
// Writers take turns by a word of their own, not by the cold lock: under that one memory may be allocated, which a signal handler must not wait
// for. Nobody waits for long: a writer that does not get its turn in about a thousand tries counts its event as lost.
//
// The ring has units of 64 bytes; positions count up for ever. A writer moves log_begin past what it will overwrite, stores, and moves
// log_end. A reader copies an event and then checks whether log_begin has passed it.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/engine/runtime.h"

namespace perfschema {

enum class LogPriority : uint32_t { kSystem = 0, kError, kWarning, kNote };
inline constexpr size_t kLogCodeBytes = 10, kLogSubsystemBytes = 7, kLogDataBytes = 65535;

// Words of the first unit of an event, in this order; then code, subsystem and data, one behind the other.
struct LogHead {
  uint64_t place;      // its own: what a damaged file has is no event
  uint64_t logged;     // microseconds since 1970
  uint64_t thread_id;  // 0 = NULL
  uint64_t sizes;      // priority | bytes of code << 8 | of subsystem << 16 | of data << 32

  uint32_t priority() const { return sizes & 0xff; }
  uint32_t code_bytes() const { return sizes >> 8 & 0xff; }
  uint32_t subsystem_bytes() const { return sizes >> 16 & 0xff; }
  uint32_t data_bytes() const { return static_cast<uint32_t>(sizes >> 32); }
  uint64_t bytes() const { return sizeof(LogHead) + code_bytes() + subsystem_bytes() + uint64_t{data_bytes()}; }
  uint64_t units() const { return (bytes() + sizeof(ShmLogUnit) - 1) / sizeof(ShmLogUnit); }
};

// A row of error_log. Empty code, subsystem: NULL. Longer texts are cut. False: lost, and counted. Preserves errno.
bool WriteLog(LogPriority priority, std::string_view code, std::string_view subsystem, std::string_view data);

// In a forked child, which begins a log of its own.
void ForgetLogInChild();

}  // namespace perfschema
