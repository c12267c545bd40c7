#include "record/family/file_name.h"

#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/hash.h"
#include "base/text.h"
#include "base/valgrind.h"

namespace perfschema {

namespace {

// Returns whether an absolute path has no part that is left out or resolved: // or /. or /.. or a / at its end.
bool IsResolved(std::string_view path) {
  for (size_t at = 0; at < path.size(); at = path.find('/', at)) {
    const std::string_view rest = path.substr(++at);
    if (rest.empty() || rest[0] == '/') return false;
    const size_t dots = rest[0] != '.' ? 0 : rest.size() > 1 && rest[1] == '.' ? 2 : 1;
    if (dots != 0 && (rest.size() == dots || rest[dots] == '/')) return false;
  }
  return true;
}

struct Resolved {
  size_t bytes;
  const char* rest;  // of the path: what there was no space for, from the beginning of a part on; nullptr = all of it is there
};

// Writes the absolute name of a path. `is_last`: there is no larger space, so a working directory that cannot be had is left out.
Resolved Resolve(const char* path, std::span<char> text, bool is_last) {
  size_t bytes = 0;
  if (path[0] != '/') {
    const int error = errno;
    const bool is_there = getcwd(text.data(), text.size()) != nullptr;
    errno = error;
    if (!is_there && !is_last) return {0, path};
    bytes = is_there ? std::strlen(text.data()) : 0;
    if (bytes == 1) bytes = 0;  // "/" itself
  }
  for (const char* at = path; *at != 0;) {
    while (*at == '/') ++at;
    const char* end = at;
    while (*end != 0 && *end != '/') ++end;
    const auto part = static_cast<size_t>(end - at);
    if (part == 2 && at[0] == '.' && at[1] == '.') {
      while (bytes > 0 && text[bytes - 1] != '/') --bytes;
      if (bytes > 0) --bytes;
    } else if (part > 0 && !(part == 1 && at[0] == '.')) {
      if (bytes + 1 + part > text.size()) return {bytes, at};
      text[bytes++] = '/';
      std::memcpy(text.data() + bytes, at, part);
      bytes += part;
    }
    at = end;
  }
  if (bytes == 0) text[bytes++] = '/';
  return {bytes, nullptr};
}

}  // namespace

FileName::FileName(const char* path) {
  if (path[0] == '/') {
    bytes = strnlen(path, kMaxObjectName + 1);
    if (bytes <= kMaxObjectName && IsResolved({path, bytes})) {
      std::memcpy(text, path, bytes);
      return;
    }
  }
  const Resolved found = Resolve(path, text, false);
  bytes = found.bytes;
  if (found.rest != nullptr) ResolveLong(path);
}

[[gnu::noinline]] void FileName::ResolveLong(const char* path) {
  char whole[PATH_MAX];
  const Resolved found = Resolve(path, whole, true);
  const std::string_view name(whole, found.bytes);
  if (found.rest != nullptr || name.size() > sizeof text) return Shorten(name, found.rest != nullptr ? found.rest : "");
  bytes = name.copy(text, sizeof text);
}

void FileName::Shorten(std::string_view name, std::string_view more) {
  constexpr size_t kDigits = 16, kHalf = (kMaxObjectName - kDigits - 2) / 2;
  const uint64_t hash = Hash().Add(name).Add(more).value();
  const std::string_view head = CutText(name, kHalf);
  std::string_view tail = name.substr(name.size() - std::min(kHalf, name.size()));  // `more` may be nearly all of the path
  while (!tail.empty() && (static_cast<unsigned char>(tail[0]) & 0xc0u) == 0x80u) tail.remove_prefix(1);  // not from inside a character
  char* out = std::copy(head.begin(), head.end(), text);
  *out++ = '~';
  for (size_t i = 0; i < kDigits; ++i) *out++ = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  *out++ = '~';
  out = std::copy(tail.begin(), tail.end(), out);
  bytes = static_cast<size_t>(out - text);
}

namespace {

constexpr uintptr_t kPage = 4096;  // or a part of a larger one

// Reads a byte in the way that memcheck leaves alone: it would report that what stands around a name has not been set.
bool IsReadableUnderValgrind(uintptr_t at) {
  char byte;
  const iovec here{&byte, 1}, there{reinterpret_cast<void*>(at), 1};
  return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

// Asks the kernel. Changes errno.
bool IsPageReadable(uintptr_t at) {
  if (IsUnderValgrind()) return IsReadableUnderValgrind(at);
  // The kernel copies the set, and then finds that there is no such change: nothing happens.
  constexpr int kNoChange = -1;
  constexpr size_t kSetBytes = 8;
  return syscall(SYS_rt_sigprocmask, kNoChange, at & ~uintptr_t{kSetBytes - 1}, nullptr, kSetBytes) != 0 && errno == EINVAL;
}

// Returns whether a text that begins at `path` ends before `end`, up to which all is readable.
bool EndsBefore(const char* path, uintptr_t end) {
  return memchr(path, 0, std::min<size_t>(end - reinterpret_cast<uintptr_t>(path), PATH_MAX)) != nullptr;
}

uintptr_t EndOfHeap() { return reinterpret_cast<uintptr_t>(sbrk(0)); }

// Returns where the heap of brk(2) begins, or a later place in it. It stays readable up to its end. The pages are not read: most of a
// heap is not there until it is used.
uintptr_t FindHeap() {
  constexpr uintptr_t kMostPages = 64;  // the first pieces of memory that a program allocates lie in this many
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = EndOfHeap() & ~(page - 1);
  uintptr_t pages = 0;
  for (uintptr_t more = kMostPages; more != 0; more /= 2) {
    unsigned char resident[kMostPages];
    const uintptr_t bytes = (pages + more) * page;
    const bool is_mapped = pages + more <= kMostPages && mincore(reinterpret_cast<void*>(end - bytes), bytes, resident) == 0;
    if (is_mapped) pages += more;
  }
  return end - pages * page;
}

bool IsInHeap(const char* path) {
  static std::atomic<uintptr_t> heap{0};
  uintptr_t begin = heap.load(std::memory_order_relaxed);
  if (__builtin_expect(begin == 0, 0)) heap.store(begin = FindHeap(), std::memory_order_relaxed);
  const auto at = reinterpret_cast<uintptr_t>(path);
  const uintptr_t end = EndOfHeap();
  return at >= begin && at < end && EndsBefore(path, end);
}

// Returns whether a name lies in the stack of the main thread, which runs: all of it between this frame and the name of the program, which
// the kernel has put at its end. No other mapping is so near.
bool IsInMainStack(const char* path) {
  constexpr uintptr_t kNear = 8 << 20;
  static std::atomic<uintptr_t> known{0};
  uintptr_t end = known.load(std::memory_order_relaxed);
  if (__builtin_expect(end == 0, 0)) known.store(end = std::max<uintptr_t>(getauxval(AT_EXECFN), 1), std::memory_order_relaxed);
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), at = reinterpret_cast<uintptr_t>(path);
  return at > frame && at < end && end - frame < kNear && EndsBefore(path, end);
}

// A part of the main program in memory that nobody writes to: it stays as it is.
struct Part {
  uintptr_t begin, end;
};
constexpr size_t kMostParts = 6;

// Fills in those parts.
void FindParts(Part* parts) {
  const auto* const header = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const size_t count = header != nullptr ? getauxval(AT_PHNUM) : 0;
  uintptr_t base = 0;
  bool has_base = false;
  for (size_t i = 0; i < count; ++i) {
    if (header[i].p_type != PT_PHDR) continue;
    base = reinterpret_cast<uintptr_t>(header) - header[i].p_vaddr;
    has_base = true;
  }
  size_t found = 0;
  for (size_t i = 0; has_base && i < count && found < kMostParts; ++i) {
    if (header[i].p_type != PT_LOAD || (header[i].p_flags & (PF_R | PF_W)) != PF_R) continue;
    parts[found++] = {base + header[i].p_vaddr, base + header[i].p_vaddr + header[i].p_memsz};
  }
}

// Returns whether a name is a literal of the main program.
bool IsInProgram(const char* path) {
  static Part parts[kMostParts];
  static std::atomic<int> state{0};  // 1: somebody finds the parts, 2: they are known
  int now = state.load(std::memory_order_acquire);
  if (__builtin_expect(now != 2, 0)) {
    if (now != 0 || !state.compare_exchange_strong(now, 1)) return false;
    FindParts(parts);
    state.store(2, std::memory_order_release);
  }
  const auto at = reinterpret_cast<uintptr_t>(path);
  for (const Part& part : parts) {
    if (at >= part.begin && at < part.end) return EndsBefore(path, part.end);
  }
  return false;
}

}  // namespace

bool IsReadable(uintptr_t begin, size_t bytes) {
  const uintptr_t last = begin + bytes - 1;
  return IsPageReadable(begin) && (begin / kPage == last / kPage || IsPageReadable(last));
}

bool IsReadable(const char* path) {
  if (IsInMainStack(path) || IsInProgram(path)) return true;
  const int error = errno;
  bool is_whole = IsInHeap(path);
  for (size_t seen = 0; !is_whole && seen < PATH_MAX;) {
    const auto at = reinterpret_cast<uintptr_t>(path) + seen;
    if (!IsPageReadable(at)) break;
    const size_t rest = kPage - at % kPage;
    is_whole = std::memchr(path + seen, 0, rest) != nullptr;
    seen += rest;
  }
  errno = error;
  return is_whole;
}

}  // namespace perfschema
