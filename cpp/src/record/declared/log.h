// record/declared/log.h: the error log: a ring buffer of the last events that the program logged (semantics.md L3).
// Cold, but callable from anywhere.
//
// Writers exclude each other with a lock word of their own, not with the cold lock: memory may be allocated under the
// cold lock, and a signal handler must not wait for that. No writer waits long: after about a thousand failed tries
// it counts its event as lost.
//
// The ring has units of 64 bytes; positions only grow. If it gets no more memory, the oldest events go earlier. A
// writer moves log_begin past the space that it will overwrite, stores, and moves log_end. A reader copies an event and
// then checks whether log_begin has passed it.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/engine/runtime.h"

namespace perfschema {

enum class LogPriority : uint32_t { kSystem = 0, kError, kWarning, kNote };
inline constexpr size_t kLogCodeBytes = 10, kLogSubsystemBytes = 7, kLogDataBytes = 65535;

// Words of the first unit of an event, in this order. The texts of code, subsystem and data follow without gaps.
struct LogHead {
  uint64_t place;      // its own position; a mismatch means that the file is damaged
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

// Writes a row of error_log. Empty code or subsystem: NULL. Longer texts are cut. Returns false if the event is lost,
// and counts it. Preserves errno.
bool WriteLog(LogPriority priority, std::string_view code, std::string_view subsystem, std::string_view data);

// Starts an empty log in a forked child.
void ForgetLogInChild();

}  // namespace perfschema
