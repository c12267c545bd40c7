#include "shm/writer.h"

#include <cerrno>
#include <csignal>
#include <cstring>

namespace perfschema {

WriterState StateOfWriter(const ShmHeader& header, const std::string& name) {
  constexpr uint64_t kMostPid = 1u << 22;  // greater than any pid on Linux
  const uint64_t pid = header.pid, here = PidNamespace();
  const std::string boot = BootId();
  const char* const boot_then = reinterpret_cast<const char*>(header.boot_id);
  if (pid == 0 || pid > kMostPid || here == 0 || header.pid_namespace != here) return WriterState::kUnknown;
  if (boot.empty() || boot != std::string(boot_then, strnlen(boot_then, sizeof header.boot_id))) return WriterState::kUnknown;
  ProcessStat now;
  if (!ReadProcessStat(pid, &now)) {
    const bool is_free = errno == ENOENT || errno == ESRCH;
    const bool is_gone = is_free && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;  // else /proc hides it
    return is_gone ? WriterState::kAtRest : WriterState::kUnknown;
  }
  const bool has_ended = (now.state == 'Z' || now.state == 'X') && now.threads <= 1;  // with more threads, only the first has ended
  const bool is_stopped = now.state == 'T' || now.state == 't';
  if (now.start_ticks != header.process_start_ticks || has_ended || is_stopped) return WriterState::kAtRest;
  return MapsFile(pid, name) ? WriterState::kRuns : WriterState::kAtRest;
}

std::optional<ProcessStat> StatOfWriter(const ShmHeader& header) {
  ProcessStat now;
  const bool is_it =
      header.pid_namespace == PidNamespace() && ReadProcessStat(header.pid, &now) && now.start_ticks == header.process_start_ticks;
  return is_it ? std::optional(now) : std::nullopt;
}

}  // namespace perfschema
