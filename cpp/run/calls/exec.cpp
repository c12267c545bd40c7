// run/calls/exec.cpp: replaces exec and posix_spawn: a program that this library would harm runs without it.
//
// Programs that the recorded one starts find the library in LD_PRELOAD. A 32-bit program would complain about it on its stderr; a program
// of another C library (musl), or one with a sanitizer, whose library must be the first, would not start. So the head of the file is
// read, and LD_PRELOAD loses this library for such a program, and where the library cannot be opened: the dynamic linker would say so on
// stderr. A static program ignores LD_PRELOAD; what it starts may not. A setuid program ignores and forgets it. A note in the folder of the
// run counts each program that is not recorded.
//
// All of this may run in the child of a vfork(), which shares the parent's memory: it stores to its own stack only, and takes no lock.
#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/placement.h"
#include "base/settings.h"
#include "capi/call.h"
#include "record/context/thread_time.h"
#include "record/family/file_name.h"
#include "run/calls/sandbox.h"
#include "run/calls/wait_calls.h"
#include "run/loader/real.h"
#include "run/loader/start_path.h"
#include "shm/place.h"

namespace perfschema::run {
namespace {

constexpr std::string_view kPreload = "LD_PRELOAD=";
char long_library[PATH_MAX] = "";
PFS_SET_IN_EVERY_PROCESS constinit StartPath library(long_library);  // as LD_PRELOAD has it; empty: children are not recorded
char long_folder[PATH_MAX] = "";
PFS_SET_IN_EVERY_PROCESS constinit StartPath folder(long_folder);  // of the run: a program may clear its environment

// Returns the entry of LD_PRELOAD that has this library, or nullptr.
char* const* PreloadIn(char* const* environment) {
  if (environment == nullptr) return nullptr;
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kPreload.data(), kPreload.size()) == 0) {
      return std::strstr(*environment, library.text()) != nullptr ? environment : nullptr;
    }
  }
  return nullptr;
}

// Copies the value of LD_PRELOAD without this library. Returns whether it is empty. REQUIRES: as many bytes as the entry has.
bool CopyWithout(const char* entry, char* to) {
  const char* const at = std::strstr(entry, library.text());
  const char* rest = at + std::strlen(library.text());
  if (*rest == ':') ++rest;
  const auto head = static_cast<size_t>(at - entry);
  std::memcpy(to, entry, head);
  std::strcpy(to + head, rest);
  return to[kPreload.size()] == 0;
}

#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
constexpr char kLinker[] = "/ld-linux-aarch64.so";
#else
constexpr int kMachine = EM_X86_64;
constexpr char kLinker[] = "/ld-linux-x86-64.so";
#endif

// Reads a file through a window: what lies together is one system call. Not for threads.
class Reader {
 public:
  explicit Reader(int fd) : fd_(fd) {}
  // Returns how many bytes were read, which are fewer at the end of the file.
  size_t ReadBytes(uint64_t at, void* to, size_t bytes) {
    if (at < begin_ || at - begin_ > size_ || bytes > size_ - (at - begin_)) {
      begin_ = at;
      size_ = static_cast<size_t>(std::max<ssize_t>(PFS_REAL(pread)(fd_, window_, sizeof window_, static_cast<off_t>(at)), 0));
    }
    const size_t there = std::min<size_t>(bytes, size_ - (at - begin_));
    std::memcpy(to, window_ + (at - begin_), there);
    return there;
  }
  // Returns false if the file ends before the end of the object.
  template <typename Object>
  bool Read(uint64_t at, Object* object) {
    return ReadBytes(at, object, sizeof *object) == sizeof *object;
  }

 private:
  const int fd_;
  uint64_t begin_ = 0;
  size_t size_ = 0;
  char window_[4096];  // a compiler's head of a file, and the names of the libraries it needs
};

bool IsSanitizer(const char* library_name) {
  for (const char* const start : {"libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so"}) {
    if (std::strncmp(library_name, start, std::strlen(start)) == 0) return true;
  }
  return false;
}

// Returns whether an ELF file needs the library of a sanitizer. `dynamic`: its PT_DYNAMIC.
bool NeedsSanitizer(Reader& file, const Elf64_Ehdr& header, const Elf64_Phdr& dynamic) {
  constexpr size_t kMost = 8;  // a compiler names the library of a sanitizer first
  uint64_t needed[kMost], texts = 0;
  size_t count = 0;
  Elf64_Dyn entry;
  for (uint64_t at = 0; at + sizeof entry <= dynamic.p_filesz && file.Read(dynamic.p_offset + at, &entry) && entry.d_tag != DT_NULL;
       at += sizeof entry) {
    if (entry.d_tag == DT_NEEDED && count < kMost) needed[count++] = entry.d_un.d_val;
    if (entry.d_tag == DT_STRTAB) texts = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRTAB && count != 0) break;  // the needed ones come first
  }
  Elf64_Phdr part;
  for (int i = 0; i < header.e_phnum && file.Read(header.e_phoff + static_cast<uint64_t>(i) * header.e_phentsize, &part); ++i) {
    if (part.p_type != PT_LOAD || texts < part.p_vaddr || texts - part.p_vaddr >= part.p_filesz) continue;
    for (size_t k = 0; k < count; ++k) {
      char name[16] = "";
      if (file.Read(part.p_offset + (texts - part.p_vaddr) + needed[k], &name) && IsSanitizer(name)) return true;
    }
  }
  return false;
}

// Says whether a program is recorded. The texts of the reasons are in python/pfs/_process/run/program.py.
struct Verdict {
  const char* why_not = nullptr;  // recorded
  bool may_have = true;           // the library in LD_PRELOAD does no harm
  bool is_there = true;           // no file has the name: the call fails
};

constexpr Verdict kMissing = {.is_there = false};

// Looks at an ELF file: its dynamic linker must be glibc's for this processor, and no library must be loaded before.
Verdict LookAtElf(Reader& file, const char* path) {
  Elf64_Ehdr header;
  if (!file.Read(0, &header) || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) return {"machine", false};
  Elf64_Phdr part;
  bool has_linker = std::strstr(path, "/ld-") != nullptr;  // the dynamic linker itself has none
  for (int i = 0; i < header.e_phnum && file.Read(header.e_phoff + static_cast<uint64_t>(i) * header.e_phentsize, &part); ++i) {
    if (part.p_type == PT_DYNAMIC && NeedsSanitizer(file, header, part)) return {"sanitizer", false};
    if (part.p_type != PT_INTERP) continue;
    has_linker = true;
    char name[256] = "";
    if (part.p_filesz >= sizeof name || file.ReadBytes(part.p_offset, name, part.p_filesz) == 0) continue;
    if (std::strstr(name, kLinker) == nullptr) return {std::strstr(name, "musl") != nullptr ? "musl" : "linker", false};
  }
  if (!has_linker) return {"static", true};
  return {};
}

// Returns whether the system gives a program other rights than its caller's, and so makes its dynamic linker ignore LD_PRELOAD.
bool GetsOtherRights(int fd) {
  struct stat info;
  if (PFS_REAL(fstat)(fd, &info) != 0) return false;
  const bool is_setgid = (info.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  return ((info.st_mode & S_ISUID) != 0 && info.st_uid != geteuid()) || (is_setgid && info.st_gid != getegid());
}

// Looks at a program. What is no program is recorded: the call fails as without.
[[gnu::noinline]] Verdict LookAt(const char* path) {
  constexpr int kMostScripts = 5;  // as the kernel follows "#!"
  char head[512], interpreter[256];
  for (int i = 0; i < kMostScripts; ++i) {
    const int fd = PFS_REAL(open)(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return i == 0 && (errno == ENOENT || errno == ENOTDIR) ? kMissing : Verdict{};
    Reader file(fd);
    const size_t bytes = file.ReadBytes(0, head, sizeof head - 1);
    const bool is_elf = bytes >= sizeof(Elf64_Ehdr) && std::memcmp(head, ELFMAG, SELFMAG) == 0;
    Verdict verdict = is_elf ? LookAtElf(file, path) : Verdict{};
    if (is_elf && verdict.why_not == nullptr && GetsOtherRights(fd)) verdict = {"setuid", true};
    PFS_REAL(close)(fd);
    if (bytes < 2 || head[0] != '#' || head[1] != '!') return verdict;
    head[bytes] = 0;
    const char* const begin = head + 2 + std::strspn(head + 2, " \t");
    const size_t length = std::strcspn(begin, " \t\r\n");
    if (length == 0 || length >= sizeof interpreter) return {};
    std::memcpy(interpreter, begin, length);
    interpreter[length] = 0;
    path = interpreter;
  }
  return {};
}

// Looks at a program that is looked for in PATH.
[[gnu::noinline]] Verdict LookInPath(const char* file) {
  if (std::strchr(file, '/') != nullptr) return LookAt(file);
  const char* folders = secure_getenv("PATH");
  if (folders == nullptr) folders = "/bin:/usr/bin";
  char path[PATH_MAX];
  for (;;) {
    const size_t length = std::strcspn(folders, ":");
    const int bytes = std::snprintf(path, sizeof path, "%.*s%s%s", static_cast<int>(length), folders, length != 0 ? "/" : "", file);
    struct stat info;
    if (bytes > 0 && static_cast<size_t>(bytes) < sizeof path && PFS_REAL(access)(path, X_OK) == 0 && PFS_REAL(stat)(path, &info) == 0 &&
        S_ISREG(info.st_mode)) {
      return LookAt(path);
    }
    if (folders[length] == 0) return kMissing;
    folders += length + 1;
  }
}

// Returns whether the library can be opened below a root; "": from here. chroot() may have changed the root, or the library is gone.
[[gnu::noinline]] bool IsThere(const char* root) {
  const int bytes = static_cast<int>(std::strcspn(library.text(), ":"));  // with memory, two libraries lie side by side
  char path[PATH_MAX];
  const int written = std::snprintf(path, sizeof path, "%s%.*s", root, bytes, library.text());
  return static_cast<size_t>(written) < sizeof path && PFS_REAL(access)(path, R_OK) == 0;
}

// Calls an exec function, which returns only if it fails: this program ends here.
struct Become {
  template <typename Call>
  int operator()(Call call) const {
    perfschema::ReadTimesAtEnd(true);
    const int rc = call();
    perfschema::ForgetTimesAtEnd();
    return rc;
  }
};

// Calls a function that waits until its child runs a program.
struct Spawn {
  const void* caller;
  int operator()(auto call) const { return WaitedAtPlace(Kind::kChild, true, caller, call, perfschema::Operation::kCreate); }
};

// Calls call(environment) with the environment, or with one on the stack that does not have the library. `look` looks at the program,
// which is called `name`. If it is not recorded, a note says so. A shell tries each folder of PATH: a name that no file has costs little.
// Preserves errno before the call.
template <typename Way, typename Look, typename Call>
[[gnu::always_inline]] inline int WithEnvironment(Way way, char* const* environment, const char* name, Look look, Call call) {
  const auto run = [&](char* const* given) { return way([&] { return call(given); }); };
  if (library.text()[0] == 0) return run(environment);
  char* const* const entry = PreloadIn(environment);
  const int error = errno;
  Verdict verdict = entry == nullptr ? Verdict{"environment", true} : g_is_sandboxed ? Verdict{"sandbox", false} : look();
  if (entry != nullptr && !g_is_sandboxed && verdict.is_there && !IsThere("")) verdict = {"gone", false};
  errno = error;
  if (!verdict.is_there) return call(environment);
  if (__builtin_expect(verdict.why_not == nullptr, 1)) return run(environment);
  std::optional<Note> note;
  if (!g_is_sandboxed) note.emplace(folder.text(), verdict.why_not, name != nullptr ? name : "");
  int rc;
  if (verdict.may_have) {
    rc = run(environment);
  } else {
    size_t count = 0;
    while (environment[count] != nullptr) ++count;
    auto** const copy = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
    auto* const text = static_cast<char*>(alloca(std::strlen(*entry) + 1));
    const bool is_empty = CopyWithout(*entry, text);
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      if (&environment[i] != entry) {
        copy[at++] = environment[i];
      } else if (!is_empty) {
        copy[at++] = text;
      }
    }
    copy[at] = nullptr;
    rc = run(copy);
  }
  if (rc != 0 && note) note->Remove();
  return rc;
}

int Execute(const char* path, char* const* arguments, char* const* environment) {
  return WithEnvironment(
      Become(), environment, path, [=] { return LookAt(path); },
      [=](char* const* given) { return PFS_REAL(execve)(path, arguments, given); });
}

int ExecuteInPath(const char* file, char* const* arguments, char* const* environment) {
  return WithEnvironment(
      Become(), environment, file, [=] { return LookInPath(file); },
      [=](char* const* given) { return PFS_REAL(execvpe)(file, arguments, given); });
}

}  // namespace

PFS_IN_EVERY_PROCESS static void SetFrom(const char* variable, StartPath* path) {
  const char* const text = Setting(variable);
  if (text == nullptr || std::strlen(text) >= PATH_MAX) return;
  path->Set([text](char* to, size_t bytes) {
    const size_t there = std::min(bytes, std::strlen(text));
    std::memcpy(to, text, there);
    return there;
  });
}

PFS_IN_EVERY_PROCESS void StartExec() {
  SetFrom("PFS_RUN_PRELOAD", &library);
  SetFrom("PFS_DIR", &folder);
}

}  // namespace perfschema::run

using namespace perfschema::run;

PFS_REPLACES int execve(const char* path, char* const* arguments, char* const* environment) {
  return Execute(path, arguments, environment);
}
PFS_REPLACES int execv(const char* path, char* const* arguments) { return Execute(path, arguments, environ); }
PFS_REPLACES int execvpe(const char* file, char* const* arguments, char* const* environment) {
  return ExecuteInPath(file, arguments, environment);
}
PFS_REPLACES int execvp(const char* file, char* const* arguments) { return ExecuteInPath(file, arguments, environ); }
PFS_REPLACES int fexecve(int fd, char* const* arguments, char* const* environment) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return WithEnvironment(
      Become(), environment, path, [&] { return LookAt(path); },
      [=](char* const* given) { return PFS_REAL(fexecve)(fd, arguments, given); });
}
PFS_REPLACES int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                             char* const* arguments, char* const* environment) {
  return WithEnvironment(
      Spawn{PFS_CALLER}, environment, path, [=] { return LookAt(path); },
      [=](char* const* given) { return PFS_REAL(posix_spawn)(pid, path, actions, attributes, arguments, given); });
}
PFS_REPLACES int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
                              char* const* arguments, char* const* environment) {
  return WithEnvironment(
      Spawn{PFS_CALLER}, environment, file, [=] { return LookInPath(file); },
      [=](char* const* given) { return PFS_REAL(posix_spawnp)(pid, file, actions, attributes, arguments, given); });
}

// Collects the arguments of execl() and the like on the stack of the caller.
#define PFS_COLLECT_ARGUMENTS                                                        \
  va_list list;                                                                      \
  va_start(list, first);                                                             \
  size_t count = 1;                                                                  \
  if (first != nullptr) {                                                            \
    while (va_arg(list, const char*) != nullptr) ++count;                            \
  }                                                                                  \
  va_end(list);                                                                      \
  auto** const arguments = static_cast<char**>(alloca((count + 1) * sizeof(char*))); \
  arguments[0] = const_cast<char*>(first);                                           \
  va_start(list, first);                                                             \
  for (size_t i = 1; i <= count; ++i) arguments[i] = first != nullptr ? va_arg(list, char*) : nullptr

PFS_REPLACES int execl(const char* path, const char* first, ...) {
  PFS_COLLECT_ARGUMENTS;
  va_end(list);
  return Execute(path, arguments, environ);
}
PFS_REPLACES int execlp(const char* file, const char* first, ...) {
  PFS_COLLECT_ARGUMENTS;
  va_end(list);
  return ExecuteInPath(file, arguments, environ);
}
PFS_REPLACES int execle(const char* path, const char* first, ...) {
  PFS_COLLECT_ARGUMENTS;
  char* const* const environment = va_arg(list, char**);
  va_end(list);
  return Execute(path, arguments, environment);
}

// From another root neither the library nor the folder of the run can be opened. So the note is left before.
PFS_REPLACES int chroot(const char* path) noexcept {
  const int error = errno;
  const bool is_recorded = library.text()[0] == 0 || perfschema::capi::IsNull(path) || !perfschema::IsReadable(path) || IsThere(path);
  errno = error;
  perfschema::DirectoriesMayHaveMoved();
  if (is_recorded) return PFS_REAL(chroot)(path);
  perfschema::Note note(folder.text(), "root", path);
  const int rc = PFS_REAL(chroot)(path);
  if (rc != 0) note.Remove();
  return rc;
}
