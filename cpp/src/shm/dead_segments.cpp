#include "shm/dead_segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "shm/layout.h"
#include "shm/place.h"

namespace perfschema {
namespace {

// A file that is named like the segment of a process.
struct Leftover {
  std::string name;
  uint64_t pid;
  uint64_t bytes;  // of memory, or of the disk
  timespec written;
};

// Returns the pid of "<pid>.pfs", "<pid>-<...>.pfs"; 0 for any other name.
uint64_t PidOfName(const char* name) {
  char* end = nullptr;
  const uint64_t pid = *name >= '1' && *name <= '9' ? std::strtoull(name, &end, 10) : 0;
  const char* const suffix = std::strrchr(name, '.');
  return pid != 0 && (*end == '.' || *end == '-') && suffix != nullptr && std::strcmp(suffix, ".pfs") == 0 ? pid : 0;
}

bool IsGone(uint64_t pid) { return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

// Returns whether the process of that name does not exist. Fills in the rest of what is known of the file.
bool IsDead(int folder, uid_t user, Leftover* file) {
  struct stat info;
  if (!IsGone(file->pid) || fstatat(folder, file->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  file->bytes = static_cast<uint64_t>(info.st_blocks) * 512;
  file->written = info.st_mtim;
  return S_ISREG(info.st_mode) && info.st_uid == user && info.st_nlink == 1;
}

// Calls each(name, pid) for all files with names of segments. Its descriptor is closed again when it returns: a process that has one for
// its own file has one to look at those of the dead. It reads the directory by the system call, for opendir() takes memory of malloc(): a
// child that a signal handler forked may have come out of the midst of malloc().
template <typename Each>
void ForEachFileIn(int folder, Each each) {
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  alignas(dirent64) char buffer[4096];  // glibc has the entries as the kernel writes them
  long bytes;
  while ((bytes = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer + at);
      if (const uint64_t pid = PidOfName(entry->d_name); pid != 0) each(entry->d_name, pid);
      at += entry->d_reclen;
    }
  }
  close(fd);
}

std::vector<Leftover> FilesIn(int folder) {
  std::vector<Leftover> found;
  ForEachFileIn(folder, [&](const char* name, uint64_t pid) { found.push_back({name, pid, 0, {}}); });
  return found;
}

constexpr time_t kSecondsToBegin = 60;  // longer than any process takes from making its file to writing its header

// Returns whether the file is what its name says: a segment of a process of this pid namespace, or what a process leaves that dies
// while it makes its segment. A file without a header does not say whose it is: it is of the dead if nobody has it locked. Where files have
// no locks, it must be old. The lock ends with the descriptor.
bool IsSegmentOf(int fd, const Leftover& file, uint64_t pid_namespace) {
  const int lock_error = TryLockFile(fd, F_RDLCK);
  uint64_t head[8] = {};
  const ssize_t got = pread(fd, head, sizeof head, 0);
  if (got >= 0 && std::all_of(std::begin(head), std::end(head), [](uint64_t word) { return word == 0; }) && file.bytes == 0) {
    const bool is_old = static_cast<time_t>(WallSeconds()) - file.written.tv_sec > kSecondsToBegin;
    return lock_error == 0 || (lock_error != EAGAIN && is_old);
  }
  return got == static_cast<ssize_t>(sizeof head) && (head[offsetof(ShmHeader, magic) / 8] == kSegmentMagic || IsUnfinished(head)) &&
         head[offsetof(ShmHeader, pid) / 8] == file.pid && head[offsetof(ShmHeader, pid_namespace) / 8] == pid_namespace;
}

bool Remove(int folder, const Leftover& file, uint64_t pid_namespace) {
  const int fd = openat(folder, file.name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool is_removed = IsSegmentOf(fd, file, pid_namespace) && IsGone(file.pid) && unlinkat(folder, file.name.c_str(), 0) == 0;
  close(fd);
  return is_removed;
}

}  // namespace

void CollectDeadSegments(int folder, const DeadLimits& limits, uint64_t pid_namespace) try {
  uint64_t most_bytes = limits.most_bytes;
  const uint64_t most = limits.most;
  uint64_t used_bytes = UINT64_MAX;  // of the file system
  if (struct statvfs system{}; fstatvfs(folder, &system) == 0 && system.f_blocks != 0) {
    most_bytes = std::min<uint64_t>(most_bytes, system.f_blocks / limits.part * system.f_frsize);
    used_bytes = (system.f_blocks - system.f_bfree) * system.f_frsize;
  }
  std::vector<Leftover> dead = FilesIn(folder);
  if (dead.size() <= most && used_bytes <= most_bytes) return;  // whosever they are
  std::erase_if(dead, [folder, user = geteuid()](Leftover& file) { return !IsDead(folder, user, &file); });
  uint64_t bytes = 0;
  for (const Leftover& file : dead) bytes += file.bytes;
  if (dead.size() <= most && bytes <= most_bytes) return;
  std::sort(dead.begin(), dead.end(), [](const Leftover& a, const Leftover& b) {
    return a.written.tv_sec != b.written.tv_sec ? a.written.tv_sec < b.written.tv_sec : a.written.tv_nsec < b.written.tv_nsec;
  });
  size_t left = dead.size();
  const uint64_t enough = left <= most ? most : most - most / 8;
  for (const Leftover& file : dead) {
    if ((left <= enough && bytes <= most_bytes) || (left == 1 && most != 0)) break;
    if (!Remove(folder, file, pid_namespace)) continue;
    --left;
    bytes -= std::min(bytes, file.bytes);
  }
} catch (const std::bad_alloc&) {  // out of memory: leave the files to another process
}

uint64_t BytesOfTheDead(const char* folder) {
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return 0;
  uint64_t bytes = 0;
  ForEachFileIn(fd, [&, user = geteuid()](const char* name, uint64_t pid) {
    struct stat info;
    if (IsGone(pid) && fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) && info.st_uid == user)
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  });
  close(fd);
  return bytes;
}

}  // namespace perfschema
