// bindings/identity.h: the writer of a segment, from the first bytes of its file. Nothing else is read, so a list of processes costs
// little and also shows segments of other layouts.
#pragma once

#include <cstdint>
#include <string>

#include "shm/layout.h"

namespace perfschema::bindings {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
inline constexpr size_t kIdentityBytes = offsetof(ShmHeader, timers);
#pragma GCC diagnostic pop

// Holds the claims of the header, which are not verified.
// Threads: immutable.
struct Identity {
  uint32_t layout_major, layout_minor;
  bool is_readable;  // by this library
  bool is_finished;  // false: it is being made, or its process died at that
  uint64_t pid, pid_namespace, process_start_ticks, epoch_unix_micros;
  uint64_t parent;  // its pid; 0 if it is not known
  std::string boot_id, library_version;
  std::string command;  // as /proc/PID/cmdline
};

// `head`: kIdentityBytes, already copied.
Identity IdentityOf(const void* head);

}  // namespace perfschema::bindings
