#include "record/engine/refusals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace perfschema {
namespace {

bool IsSafe(int fd) {
  struct stat info {};
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &info) != 0) return false;
  const bool is_for_writing_only = (flags & O_ACCMODE) == O_WRONLY;
  if (!S_ISCHR(info.st_mode) && !S_ISFIFO(info.st_mode) && !(S_ISREG(info.st_mode) && is_for_writing_only)) return false;
  struct pollfd one {
    fd, POLLOUT, 0
  };
  return poll(&one, 1, 0) == 1 && one.revents == POLLOUT;
}

}  // namespace

void ReportRefusal(const std::string& reason) {
  const int error = errno;
  if (IsSafe(STDERR_FILENO)) {
    const std::string line = "pfs: " + reason + " (performance_schema_print_bad_options=OFF silences this line)\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) errno = error;
  }
  errno = error;
}

}  // namespace perfschema
