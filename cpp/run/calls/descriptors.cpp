#include "run/calls/descriptors.h"

#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "record/family/file_name.h"
#include "run/python/python.h"

namespace perfschema::run {
namespace {

// Descriptors whose adoption has been tried in vain: epoll, folders. Threads: any; a lost update costs a second try. The limit is the
// kernel's default one (fs.nr_open).
constexpr uint32_t kTried = 1 << 20;
constinit std::atomic<uint8_t> tried[kTried] = {};

// An extension is a kind if it has at most this many letters and digits, and no digit first.
constexpr size_t kMostExtension = 8;

// Returns the kind of a file by its name.
std::string_view KindOfPath(std::string_view path) {
  const auto below = [&](std::string_view folder) { return path.starts_with(folder); };
  if (below("/proc/")) return "proc";
  if (below("/sys/")) return "sys";
  if (below("/dev/") && !below("/dev/shm/")) return "dev";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return "file";
  const std::string_view extension = name.substr(dot + 1);
  if (extension.empty() || extension.size() > kMostExtension) return "file";
  for (const char c : extension) {
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')) return "file";
  }
  if (extension[0] >= '0' && extension[0] <= '9') return "file";
  return extension;
}

// Temporary names have an extension of their own each: beyond this many kinds all files are of the kind "file".
constexpr int kMostKinds = 48;
std::atomic<int> kinds{0};

// The keys of kinds of files or sockets, by the module that uses them. The same few come again: this saves the search. Threads: any; a lost
// update costs a search.
class KeysOfKinds {
 public:
  // Returns 0 if it is not known.
  pfs_key_t Find(std::string_view kind, const Module* module) const {
    const uint32_t count = std::min<uint32_t>(count_.load(std::memory_order_acquire), kMost);
    for (uint32_t i = 0; i < count; ++i) {
      const pfs_key_t key = entries_[i].key.load(std::memory_order_acquire);
      if (key != 0 && entries_[i].module == module && kind == entries_[i].kind) return key;
    }
    return 0;
  }

  // Registers it if it is not known. `noun` begins the documentation.
  pfs_key_t Of(std::string_view kind, const Module* module, Register family, const char* noun) {
    if (const pfs_key_t known = Find(kind, module); known != 0) return known;
    char documentation[256];
    std::snprintf(documentation, sizeof documentation, "%s of kind %.*s that are used from %s", noun, static_cast<int>(kind.size()),
                  kind.data(), module != nullptr ? module->path : "unknown code");
    const pfs_key_t key = KeyOf(family, module, kind, documentation);
    if (key == 0) return 0;
    if (const uint32_t at = count_.fetch_add(1); at < kMost) {
      kind.copy(entries_[at].kind, kMostExtension);
      entries_[at].module = module;
      entries_[at].key.store(key, std::memory_order_release);
    }
    return key;
  }

 private:
  static constexpr uint32_t kMost = 256;
  struct Entry {
    std::atomic<pfs_key_t> key;  // last: publishes the entry
    const Module* module;
    char kind[kMostExtension + 1];
  };
  std::atomic<uint32_t> count_{0};
  Entry entries_[kMost] = {};
};
constinit KeysOfKinds of_files, of_sockets, of_memory;

}  // namespace

namespace {

pfs_key_t KeyOfKind(std::string_view kind, const Site& site) {
  if (t_locals.state == nullptr && t_locals.silent) return 0;  // the thread is detached
  if (const pfs_key_t known = of_files.Find(kind, site.module); known != 0) return known;
  const bool is_general = kind == "file" || kind == "proc" || kind == "sys" || kind == "dev";
  return of_files.Of(is_general || kinds.fetch_add(1) < kMostKinds ? kind : "file", site.module, pfs_register_file, "Files");
}

}  // namespace

pfs_key_t KeyOfFile(const char* path, bool is_readable, const Site& site) {
  if (is_readable && IsOfPythonLayer(path)) return 0;
  return KeyOfKind(is_readable ? KindOfPath(path) : "file", site);
}

pfs_key_t KeyOfHeap(const Site& site) { return of_memory.Of("heap", site.module, pfs_register_memory, "Memory"); }

pfs_key_t KeyOfSocket(const char* kind, const Site& site) { return of_sockets.Of(kind, site.module, pfs_register_socket, "Sockets"); }

const char* KindOfSocket(int domain, int type) {
  if (domain == AF_UNIX) return "unix";
  if (domain != AF_INET && domain != AF_INET6) return "other";
  constexpr int kTypeMask = 0xf;
  return (type & kTypeMask) == SOCK_STREAM ? "tcp" : (type & kTypeMask) == SOCK_DGRAM ? "udp" : "raw";
}

bool IsKnown(int fd) {
  if (FileOfDescriptor(fd) != nullptr || fd < 0) return true;
  return static_cast<uint32_t>(fd) < kTried && tried[fd].load(std::memory_order_relaxed) != 0;
}

namespace {

// Returns the kind of what is no file, but is read or written as a pipe is: anon_inode:[eventfd], anon_inode:inotify. "" for others.
std::string_view KindOfAnonymous(std::string_view name) {
  constexpr std::string_view kFirst = "anon_inode:";
  if (!name.starts_with(kFirst)) return "";
  name.remove_prefix(kFirst.size());
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  for (const std::string_view kind : {"eventfd", "timerfd", "signalfd", "inotify", "fanotify"}) {
    if (name == kind) return kind;
  }
  return "";
}

// Adopts a file of a type by the name that the kernel gives its descriptor. Returns false if that does not fit into `kBytes` bytes.
template <size_t kBytes>
[[gnu::noinline]] bool AdoptFile(int fd, mode_t type, const Site& site) {
  char link[32], name[kBytes];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name);
  if (length == ssize_t{sizeof name}) return false;
  if (length <= 0) return true;
  name[length] = 0;
  const bool is_path = name[0] == '/';
  const std::string_view kind = is_path ? "" : type == S_IFIFO ? "pipe" : KindOfAnonymous(name);
  if (type == 0 && kind.empty()) return true;  // epoll and others, of which nothing is read
  const pfs_key_t key = kind.empty() ? KeyOfFile(name, true, site) : KeyOfKind(kind, site);
  // "pipe:[4711]" is no path: it stays as it is.
  if (key != 0) (void)(is_path ? BindFile(key, fd, FileName(name).view()) : BindFile(key, fd, name));
  return true;
}

}  // namespace

void Adopt(int fd, const Site& site) {
  const int error = errno;
  struct stat info;
  if (fstat(fd, &info) == 0) {
    if (S_ISSOCK(info.st_mode)) {
      const auto option = [fd](int name) {
        int value = 0;
        socklen_t size = sizeof value;
        getsockopt(fd, SOL_SOCKET, name, &value, &size);
        return value;
      };
      const char* const kind = option(SO_ACCEPTCONN) != 0 ? "listen" : KindOfSocket(option(SO_DOMAIN), option(SO_TYPE));
      (void)pfs_socket_bind(KeyOfSocket(kind, site), fd);
    } else if (const mode_t type = info.st_mode & S_IFMT; type != S_IFDIR && type != S_IFLNK) {
      if (!AdoptFile<512>(fd, type, site)) (void)AdoptFile<PATH_MAX + 1>(fd, type, site);
    }
    if (static_cast<uint32_t>(fd) < kTried) tried[fd].store(1, std::memory_order_relaxed);
  }
  errno = error;
}

void LeaveAlone(int fd) {
  if (static_cast<uint32_t>(fd) < kTried) tried[fd].store(1, std::memory_order_relaxed);
}

void ForgetAdopted(int fd) {
  if (static_cast<uint32_t>(fd) < kTried && tried[fd].load(std::memory_order_relaxed) != 0) tried[fd].store(0, std::memory_order_relaxed);
}

void Duplicated(int from, int to, const Site& site) {
  if (FileOfDescriptor(to) != nullptr) UnbindFile(to);
  ForgetAdopted(to);
  ShmFile* const file = FileOfDescriptor(from);
  if (file == nullptr) return;  // a standard stream that nobody has used yet stays unknown
  const bool is_socket = (file->flags.load(std::memory_order_relaxed) & kFlagSocket) != 0;
  if (is_socket || !GiveDescriptorWithoutLock(to, *file, file->name.load(std::memory_order_acquire))) Adopt(to, site);
}

}  // namespace perfschema::run
