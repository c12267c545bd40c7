#include "shm/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

#include "base/settings.h"
#include "shm/layout.h"

namespace perfschema {

std::string Reason(const char* what, const std::string& where, int error) {
  return std::string(what) + " " + where + ": " + std::strerror(error);
}

// Reads a small file of /proc or /sys into `buffer`, zero terminated.
bool ReadSmallFile(const char* path, char* buffer, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, buffer, size - 1);
  close(fd);
  if (got < 0) return false;
  buffer[got] = 0;
  return true;
}

uint64_t PidNamespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

std::string BootId() {
  char text[sizeof ShmHeader::boot_id + 1] = {};
  if (!ReadSmallFile("/proc/sys/kernel/random/boot_id", text, sizeof text)) return {};
  return {text, std::strcspn(text, "\n")};
}

bool ReadProcessStat(uint64_t pid, ProcessStat* found) {
  char stat[1024];
  const std::string path = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/stat";
  if (!ReadSmallFile(path.c_str(), stat, sizeof stat)) return false;
  errno = EIO;
  const char* at = std::strrchr(stat, ')');  // the name may have blanks and parentheses
  if (at == nullptr || at[1] == 0) return false;
  found->state = at[2];
  uint64_t fields[23] = {};
  size_t field = 2;
  while (*++at != 0) {  // the state is no number, and those that are used are never negative
    if (*at == ' ' && ++field == std::size(fields)) break;
    if (*at != ' ') fields[field] = fields[field] * 10 + static_cast<uint64_t>(*at - '0');
  }
  found->parent = fields[4];
  found->threads = fields[20];
  found->start_ticks = fields[22];
  return field == std::size(fields);
}

SchedulerTimes ParseSchedulerTimes(const char* text) {
  char* end = nullptr;
  const uint64_t computed = std::strtoull(text, &end, 10);
  return {computed, std::strtoull(end, nullptr, 10)};
}

bool MapsFile(uint64_t pid, const std::string& name) {
  const std::string path = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid)) + "/maps";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  const std::string end = "/" + name + "\n", deleted = "/" + name + " (deleted)\n";
  std::string text;
  bool is_mapped = false;
  char part[16384];
  for (ssize_t got; !is_mapped && (got = read(fd, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(got));
    is_mapped = text.find(end) != std::string::npos || text.find(deleted) != std::string::npos;
    if (text.size() > deleted.size()) text.erase(0, text.size() - deleted.size());
  }
  close(fd);
  return is_mapped;
}

namespace {

// Holds what the environment says about segments.
struct Settings {
  std::string directory;   // PFS_DIR, absolute; "" = the default
  std::string mode;        // PFS_MODE
  bool keeps = false;      // PFS_KEEP
  bool is_of_run = false;  // PFS_RUN_PRELOAD: `pfs run` has chosen all of it
};

std::string FromEnvironment(const char* name) {
  const char* const text = Setting(name);  // secure: ignored in a setuid program
  return text != nullptr ? text : "";
}

std::string Absolute(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();  // "link/" would follow the link
  if (path.empty() || path.front() == '/') return path;
  char here[4096];  // the program may change it later
  return getcwd(here, sizeof here) == nullptr ? path : std::string(here) + "/" + path;
}

const Settings* g_first_settings = nullptr;  // what was read first. Never destroyed: the end of the process asks late

// Returns whether PFS_DIR was there and is not any more. A server may overwrite its environment, to show a title in ps, and its forked
// children must find the same place: what this process or an ancestor first read counts then. Needs no memory.
bool IsOverwritten() {
  const char* const directory = Setting("PFS_DIR");
  return (directory == nullptr || *directory == 0) && g_first_settings != nullptr && !g_first_settings->directory.empty();
}

bool SaysKeep() {
  const char* const keep = Setting("PFS_KEEP");
  return keep != nullptr && std::strcmp(keep, "1") == 0;
}

bool SaysRun() {
  const char* const library = Setting("PFS_RUN_PRELOAD");
  return library != nullptr && *library != 0;
}

// Returns what the environment says now, unless it is overwritten. Threads: called under the cold lock.
Settings TheSettings() {
  if (IsOverwritten()) return *g_first_settings;
  Settings now{Absolute(FromEnvironment("PFS_DIR")), FromEnvironment("PFS_MODE"), SaysKeep(), SaysRun()};
  if (g_first_settings == nullptr) g_first_settings = new Settings(now);
  return now;
}

// Returns PFS_MODE: users who may read the file (SELECT), and those who may store to it (UPDATE, TRUNCATE). A bad value leaves both to
// the owner alone.
mode_t ModeOfFile(std::string* reason) {
  const std::string wanted = TheSettings().mode;
  const char* text = wanted.c_str();
  if (*text == 0) return 0600;
  for (const mode_t legal : {0600, 0640, 0644, 0660, 0664}) {
    char* end = nullptr;
    if (std::strtoul(text, &end, 8) == legal && *end == 0 && *text != '-' && *text != '+') return legal;
  }
  *reason = "bad PFS_MODE '" + std::string(text).substr(0, 32) + "': legal are 0600, 0640, 0644, 0660 and 0664; 0600 is used";
  return 0600;
}

// Returns whether a directory is this user's and closed to writes of others.
bool IsOwn(const struct stat& info) {
  return info.st_uid == geteuid() && (info.st_mode & S_IWOTH) == 0 && ((info.st_mode & S_IWGRP) == 0 || info.st_gid == getegid());
}

// Opens a directory. Without the right to list it, the descriptor is good for entering it only.
int EnterDirectory(int at, const char* path) {
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int fd = openat(at, path, O_RDONLY | kFlags);
  return fd >= 0 || errno != EACCES ? fd : openat(at, path, O_PATH | kFlags);
}

// "pfs-<uid>": a user's own directory in one that several users share.
struct NameOfUser {
  char text[20];
  explicit NameOfUser(uid_t user) { std::snprintf(text, sizeof text, "pfs-%u", user); }
};

// Makes a directory, if it is not there, and opens it. Adds the name of the user's own one to `path` if `path` is shared: it belongs to
// root, or others may write to it. The default directory is never shared. `is_ours`: whether its mode is not the user's choice.
int MakeDirectory(std::string* path, bool is_chosen, bool* is_ours, std::string* reason) {
  const bool is_new = mkdir(path->c_str(), 0700) == 0;
  if (!is_new && errno != EEXIST) {
    *reason = Reason("cannot make the directory", *path, errno);
    return -1;
  }
  *is_ours = is_new || !is_chosen;
  int fd = EnterDirectory(AT_FDCWD, path->c_str());
  struct stat info;
  if (is_chosen && fd >= 0 && fstat(fd, &info) == 0 && !IsOwn(info) && (info.st_uid == 0 || info.st_uid == geteuid())) {
    const NameOfUser name(geteuid());
    *is_ours = true;
    const int error = mkdirat(fd, name.text, 0700) == 0 ? 0 : errno;
    const int own = EnterDirectory(fd, name.text);
    close(fd);
    if (own < 0 && error != 0 && error != EEXIST) {
      *reason = "the directory " + *path + (info.st_uid == geteuid() ? " can be written to by others" : " belongs to another user") +
                ", and " + name.text + " cannot be made in it: " + std::strerror(error);
      return -1;
    }
    *path += "/";
    *path += name.text;
    fd = own;
  }
  if (fd >= 0) return fd;
  const bool is_link = lstat(path->c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  *reason = is_link ? "the directory " + *path + " is a symbolic link" : Reason("cannot open the directory", *path, errno);
  return -1;
}

// Opens a directory for segments, owned by this user and closed to writes of others: `path`, or the user's own one in it. Users who may
// read the file may also enter a new directory, and the default one; PFS_DIR keeps the mode that its owner gave it.
int OpenDirectory(std::string* path, mode_t file_mode, bool is_chosen, std::string* reason) {
  bool is_ours;
  const int fd = MakeDirectory(path, is_chosen, &is_ours, reason);
  if (fd < 0) return -1;
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid()) {
    *reason = "the directory " + *path + " belongs to another user";
  } else if (!IsOwn(info)) {
    *reason = "the directory " + *path + " can be written to by others";
  } else {
    const mode_t entered = (file_mode & 0044) | (file_mode & 0044) >> 2;  // users who may read may list and enter
    if (is_ours && (info.st_mode & entered) != entered) fchmod(fd, (info.st_mode & 07777) | entered);
    return fd;
  }
  close(fd);
  return -1;
}

// Classifies the file that lies at our file's place.
enum class Found { kLeftover, kEarlier, kOurs, kOfAnother, kPlanted };

EarlierProgram earlier_program;  // the last of them. Guarded by the cold lock

// kLeftover: of a dead process that had our pid. kEarlier: of this process, before it ran another program (exec). kOurs: the segment of
// another copy of this library in this process. kOfAnother: a segment of our user whose pid is that of another container. kPlanted:
// anything else.
Found WhatIsThere(int directory, const std::string& name, std::string* what) {
  struct stat info;
  if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? Found::kLeftover : Found::kPlanted;
  *what = S_ISLNK(info.st_mode)      ? "a symbolic link"
          : !S_ISREG(info.st_mode)   ? "not a plain file"
          : info.st_uid != geteuid() ? "a file of another user"
          : info.st_nlink != 1       ? "a file with a second name"
                                     : "";
  if (!what->empty()) return Found::kPlanted;
  const int fd = openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Found::kPlanted;
  uint64_t head[offsetof(ShmHeader, epoch_unix_micros) / 8] = {};  // its boot_id is the last of them
  const char* const boot = reinterpret_cast<const char*>(head) + offsetof(ShmHeader, boot_id);
  const ssize_t got = pread(fd, head, sizeof head, 0);
  EarlierProgram before;
  static_assert(sizeof before == sizeof(ShmProgramEnd));
  if (pread(fd, &before, sizeof before, offsetof(ShmHeader, became)) != sizeof before) before = {};
  close(fd);
  if (got == 0 || head[0] == 0)
    return MapsFile(0, name) ? Found::kOurs : Found::kLeftover;  // is being created, or its creator died at that
  if (got < static_cast<ssize_t>(sizeof head) || head[0] != kSegmentMagic) {
    *what = "not a segment";
    return Found::kPlanted;
  }
  if (head[offsetof(ShmHeader, pid_namespace) / 8] != PidNamespace()) return Found::kOfAnother;
  ProcessStat self;
  const bool is_of_this_process = head[offsetof(ShmHeader, pid) / 8] == static_cast<uint64_t>(getpid()) && ReadProcessStat(0, &self) &&
                                  head[offsetof(ShmHeader, process_start_ticks) / 8] == self.start_ticks &&
                                  std::memcmp(boot, BootId().data(), BootId().size()) == 0;
  if (!is_of_this_process) return Found::kLeftover;
  if (MapsFile(0, name)) return Found::kOurs;
  if (before.at > earlier_program.at) earlier_program = before;
  return Found::kEarlier;
}

constexpr const char* kSuffix = ".pfs";
bool directory_was_refused = false;  // guarded by the cold lock
constexpr int kMostCopies = 9;       // of this library in one process

// Makes a new file of this name that is ours alone. Returns -1, with the reason, if there is one already or it fails.
int MakeIn(int dir, const std::string& directory, std::string* name, std::string* reason) {
  const auto make = [&] { return openat(dir, name->c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); };
  std::string base = name->substr(0, name->size() - std::strlen(kSuffix));
  int copies = 1;
  for (int attempt = 0; attempt < kMostCopies + 3; ++attempt) {
    const int fd = make();
    if (fd >= 0) return fd;
    if (errno != EEXIST) break;
    std::string what;
    const Found found = WhatIsThere(dir, *name, &what);
    if (found == Found::kPlanted) {
      *reason = "the file " + directory + "/" + *name + " is there already, and is " + (what.empty() ? "not readable" : what);
      return -1;
    }
    // What a process is to leave behind is kept over an exec, too, up to a limit: a shell may run one program after the other.
    const bool is_kept = found == Found::kEarlier && KeepsSegment() && copies < kMostCopies;
    if (found == Found::kLeftover || (found == Found::kEarlier && !is_kept)) unlinkat(dir, name->c_str(), 0);
    if ((found == Found::kOurs || is_kept) && ++copies <= kMostCopies) *name = base + "-" + std::to_string(copies) + kSuffix;
    if (found == Found::kOfAnother) {
      base = std::to_string(getpid()) + "-" + std::to_string(PidNamespace());
      *name = base + kSuffix;
    }
    errno = EEXIST;
  }
  *reason = Reason("cannot make the file", directory + "/" + *name, errno);
  return -1;
}

}  // namespace

bool KeepsSegment() { return IsOverwritten() ? g_first_settings->keeps : SaysKeep(); }

std::string SegmentDirectory() {
  const std::string chosen = TheSettings().directory;
  return chosen.empty() ? "/dev/shm/pfs-" + std::to_string(geteuid()) : chosen;
}

bool ChosenDirectoryWasRefused() { return directory_was_refused && !TheSettings().directory.empty() && !TheSettings().is_of_run; }

bool MakeDirectoryOf(uid_t user) {
  const char* const chosen = IsOverwritten() ? g_first_settings->directory.c_str() : Setting("PFS_DIR");
  if (user == 0 || user == static_cast<uid_t>(-1) || chosen == nullptr || *chosen == 0 || geteuid() != 0) return false;
  const int error = errno;
  bool is_there = false;
  const int dir = EnterDirectory(AT_FDCWD, chosen);
  struct stat info;
  if (dir >= 0 && fstat(dir, &info) == 0 && IsOwn(info)) {
    const NameOfUser name(user);
    // The directory is root's alone, so nobody else can have put anything there. Another process may be in between, so each sets the owner.
    (void)mkdirat(dir, name.text, 0700);
    const int own = EnterDirectory(dir, name.text);
    is_there = own >= 0 && syscall(SYS_fchown, own, user, -1) == 0;
    if (own >= 0) close(own);
  }
  if (dir >= 0) close(dir);
  errno = error;
  return is_there;
}

namespace {

// Calls use(directory) with the folder of a run; if that fails, with this user's in it. Preserves errno.
template <typename Use>
void InFolderOfRun(const char* folder, Use use) {
  const int error = errno;
  const int dir = *folder != 0 ? EnterDirectory(AT_FDCWD, folder) : -1;
  if (dir >= 0 && !use(dir)) {
    const int own = EnterDirectory(dir, NameOfUser(geteuid()).text);
    if (own >= 0) (void)use(own);
    if (own >= 0) close(own);
  }
  if (dir >= 0) close(dir);
  errno = error;
}

void Leave(const char* folder, const char* name, const char* kind, const char* what) {
  char text[128];  // a longer target would take a page of the file system
  const size_t bytes = std::strlen(what), most = sizeof text - std::strlen(kind) - std::strlen(" ...") - 1;
  const bool is_long = bytes > most;  // its end says more
  std::snprintf(text, sizeof text, "%s %s%s", kind, is_long ? "..." : "", is_long ? what + (bytes - most) : what);
  InFolderOfRun(folder, [&](int dir) { return symlinkat(text, dir, name) == 0 || errno == EEXIST; });
}

}  // namespace

Note::Note(const char* folder, const char* kind, const char* what) : folder_(folder) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::snprintf(name_, sizeof name_, "%d-%lld%09ld.unseen", getpid(), static_cast<long long>(now.tv_sec), now.tv_nsec);
  Leave(folder_, name_, kind, what);
}

void Note::Remove() {
  InFolderOfRun(folder_, [this](int dir) { return unlinkat(dir, name_, 0) == 0; });
}

void Note::OfThisProcess(const char* kind, const char* what) {
  const bool is_run = IsOverwritten() ? g_first_settings->is_of_run : SaysRun();
  const char* const folder = IsOverwritten() ? g_first_settings->directory.c_str() : Setting("PFS_DIR");
  if (!is_run || folder == nullptr) return;
  char name[24];
  std::snprintf(name, sizeof name, "%d.unseen", getpid());
  Leave(folder, name, kind, what);
}

int TryLockFile(int fd, short type) {
  struct flock whole {};
  whole.l_type = type;
  whole.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_SETLK, &whole) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
}

const EarlierProgram& TheEarlierProgram() { return earlier_program; }

int MakeSegmentFile(const DeadLimits& limits, uint64_t pid_namespace, std::string* path, mode_t* mode, std::string* remark,
                    std::string* reason) {
  *mode = ModeOfFile(remark);
  std::string directory = SegmentDirectory();
  const int dir = OpenDirectory(&directory, *mode, !TheSettings().directory.empty(), reason);
  directory_was_refused = dir < 0;
  if (dir < 0) return -1;
  CollectDeadSegments(dir, limits, pid_namespace);
  earlier_program = {};
  std::string name = std::to_string(getpid()) + kSuffix;
  const int fd = MakeIn(dir, directory, &name, reason);
  close(dir);
  *path = directory + "/" + name;
  return fd;
}

}  // namespace perfschema
