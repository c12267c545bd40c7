#include "run/loader/wrappers.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "base/settings.h"

namespace perfschema::run {
namespace {

// The wrappers: what a symbol begins with.
constexpr std::string_view kPrefixes[] = {
    // C++: locks, conditions, and waits for time and threads. Not all of std: functions of the user may be inlined there.
    "_ZNSt5mutex", "_ZNSt11timed_mutex", "_ZNSt15recursive_mutex", "_ZNSt21recursive_timed_mutex", "_ZNSt12shared_mutex",
    "_ZNSt18shared_timed_mutex", "_ZNSt22__shared_mutex_pthread", "_ZNSt18__mutex_base", "_ZNSt10lock_guard", "_ZNSt11unique_lock",
    "_ZNSt11scoped_lock", "_ZNSt11shared_lock", "_ZSt4lock", "_ZNSt18condition_variable", "_ZNSt22condition_variable_any",
    "_ZNSt8__condvar", "_ZNSt6thread4joinEv", "_ZNSt11this_thread", "_ZNSt24__atomic_futex_unsigned", "_ZNSt28__atomic_futex_unsigned_base",
    "_ZNSt8__detail15__platform_wait", "_ZNSt8__detail13__waiter_pool", "_ZNSt8__detail8__waiter", "_ZSt21__atomic_wait_address",
    "_ZSt23__atomic_wait_address_v", "_ZSt26__atomic_wait_address_bare", "_ZNKSt13__atomic_base", "_ZNKSt6atomic", "_ZNKSt11atomic_flag",
    "_ZNKSt5latch", "_ZNSt5latch", "_ZNSt18__atomic_semaphore", "_ZNSt16__semaphore_impl", "_ZNSt25__platform_semaphore_impl",
    "_ZNSt18counting_semaphore", "_ZNSt7barrier", "_ZNSt14__tree_barrier", "_ZNSt13__future_base13_State_baseV24waitEv",
    "_ZNKSt14__basic_futureI", "_ZNSt6futureI", "_ZNKSt13shared_futureI", "_ZNSt3__15mutex", "_ZNSt3__111timed_mutex",
    "_ZNSt3__115recursive_mutex", "_ZNSt3__112shared_mutex", "_ZNSt3__119__shared_mutex_base", "_ZNSt3__110lock_guard",
    "_ZNSt3__111unique_lock", "_ZNSt3__118condition_variable", "_ZNSt3__16thread4join", "_ZNSt3__111this_thread", "_ZNSt3__122__libcpp_",
    // C
    "CRYPTO_THREAD_", "ossl_crypto_mutex_", "ossl_crypto_condvar_", "rb_native_mutex_", "rb_native_cond_", "rb_nativethread_lock_",
    "g_mutex_", "g_rec_mutex_", "g_rw_lock_", "g_cond_", "uv_mutex_", "uv_rwlock_", "uv_cond_", "uv_sem_", "uv_barrier_",
    "apr_thread_mutex_", "apr_thread_rwlock_", "apr_thread_cond_", "SDL_LockMutex", "SDL_CondWait", "psi_mutex_", "psi_rwlock_",
    "psi_cond_", "io_getevents", "io_pgetevents", "io_queue_",
    // The Java machine
    "_ZN15PlatformMonitor", "_ZN13PlatformMutex", "_ZN2os15PlatformMonitor", "_ZN2os13PlatformMutex"};
// What a symbol has anywhere: gthreads of libstdc++ are static functions; names of Rust begin with a hash or with types. A future of
// std::async() has call_once(), __invoke() ... call std::thread::join().
constexpr std::string_view kParts[] = {"__gthread_",    "__glibcxx_rwlock_", "MSt6threadFvvE",        "_Async_state_commonV2",
                                       "3std4sync",     "3sys4sync",         "3std6thread9functions", "3sys6thread",
                                       "10JoinHandle",  "9JoinInner",        "JoinHandle$LT$T$GT$",   "JoinInner$LT$T$GT$",
                                       "11parking_lot", "16parking_lot_core"};

// What the standard library of Rust calls the system in, and core::fmt, which calls it. Its own implementations for a type of the user's
// are the user's code.
constexpr std::string_view kRustModules[] = {"2fs", "2io", "3net", "3sys", "7process", "10sys_common"};

// Returns whether a mangled name is one of these modules: _RNvXs_NtCs1234_3std2fs..., _ZN47_$LT$std..fs..File$u20$as$u20$...
constexpr bool IsOfRust(std::string_view name) {
  for (const std::string_view module : kRustModules) {
    if (name.starts_with("_R")) {
      const std::string_view crate = name.substr(std::min(name.find("Cs"), name.size()));
      const std::string_view path = crate.substr(std::min(crate.find('_'), crate.size()));
      if (path.starts_with("_4core3fmt")) return true;
      if (path.starts_with("_3std") && path.substr(5).starts_with(module)) return true;
      continue;
    }
    const std::string_view path = name.substr(std::min(name.find_first_not_of("0123456789", 3), name.size()));
    if (!name.starts_with("_ZN")) return false;
    if (path.starts_with("core3fmt")) return true;
    if (path.starts_with("std") && path.substr(3).starts_with(module)) return true;
    const size_t of_type = path.find("std..");
    if (path.starts_with("_$LT$") && of_type <= 9 && path.substr(of_type + 5).starts_with(module.substr(1))) return true;
  }
  return false;
}

// The function of Rust's std below main() and below a thread: an optimizing compiler puts the user's closure into it.
constexpr std::string_view kRustStart = "__rust_begin_short_backtrace";

constexpr bool IsOfWrapper(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  if (!name.starts_with('_') || name.find(kRustStart) != name.npos) return false;
  for (const std::string_view part : kParts) {
    if (name.find(part) != name.npos) return true;
  }
  return IsOfRust(name);
}
static_assert(IsOfWrapper("_RNvXsa_NtCsjrHSEGnQ3l9_3std2fsNtB5_4FileNtNtB7_2io4Read4read"));
static_assert(IsOfWrapper("_ZN47_$LT$std..fs..File$u20$as$u20$std..io..Read$GT$4read17h0123456789abcdefE"));
static_assert(IsOfWrapper("_ZN3std2io18default_read_exact17h0123456789abcdefE"));
static_assert(IsOfWrapper("_ZN3std10sys_common5mutex12MovableMutex8raw_lock17h0123456789abcdefE"));
static_assert(!IsOfWrapper("_ZN3std10sys_common9backtrace28__rust_begin_short_backtrace17h0123456789abcdefE"));
static_assert(IsOfWrapper("_ZN3std6thread9lifecycle18JoinInner$LT$T$GT$4join17h992a4df1c48603bcE"));
static_assert(IsOfWrapper("_RNvXs5_NtNtCsbe54_4core3fmt3numjNtB7_7Display3fmt"));
static_assert(IsOfWrapper("_ZN4core3fmt5write17h0123456789abcdefE"));
static_assert(!IsOfWrapper("_RNvXCs1234_4shopNtB2_5OrderNtNtCs5678_4core3fmt7Display3fmt"));
static_assert(!IsOfWrapper("_ZN53_$LT$shop..Order$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE"));
static_assert(!IsOfWrapper("_RNvXCs1234_4shopNtB2_3LogNtNtCs5678_3std2io5Write5write"));
static_assert(!IsOfWrapper("_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h0123456789abcdefE"));
static_assert(!IsOfWrapper("_ZN51_$LT$shop..Log$u20$as$u20$std..io..Write$GT$5write17h0123456789abcdefE"));

// Returns whether a name is one of the user's: names between commas, each of which may end in a `*` for any other characters.
bool IsOfUsers(std::string_view name, std::string_view wrappers) {
  while (!wrappers.empty()) {
    const size_t end = std::min(wrappers.find(','), wrappers.size());
    const std::string_view wrapper = wrappers.substr(0, end);
    wrappers.remove_prefix(std::min(end + 1, wrappers.size()));
    if (wrapper.ends_with('*') ? name.starts_with(wrapper.substr(0, end - 1)) : name == wrapper) return true;
  }
  return false;
}

struct Range {
  uint64_t begin, end;
};

// The wrappers of a module, sorted.
struct Ranges {
  size_t count;
  const Range* first;
};
constexpr Ranges kNone = {};

// A file of a module. It is mapped as the dynamic linker maps it: who cuts a library off ends its programs anyway.
class ModuleFile {
 public:
  explicit ModuleFile(const Module& module) {
    const int fd = open(module.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= static_cast<off_t>(sizeof(ElfW(Ehdr)))) {
      bytes_ = static_cast<uint64_t>(info.st_size);
      void* const memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
      data_ = memory != MAP_FAILED ? static_cast<const char*>(memory) : nullptr;
    }
    close(fd);
    // Another file may have the path by now.
    const auto* const loaded = reinterpret_cast<const char*>(module.begin);
    if (data_ == nullptr || std::memcmp(data_, loaded, sizeof(ElfW(Ehdr))) != 0) return;
    const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(data_);
    sections_ = At<ElfW(Shdr)>(header->e_shoff, uint64_t{header->e_shnum} * sizeof(ElfW(Shdr)));
  }
  ~ModuleFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), bytes_);
  }
  ModuleFile(const ModuleFile&) = delete;
  ModuleFile& operator=(const ModuleFile&) = delete;

  // Calls visit(symbol, name) for each symbol: of the whole table, or of what the module exports if it has no other.
  template <typename Visit>
  void ForEachSymbol(Visit visit) const {
    static constexpr uint32_t kTables[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (const uint32_t type : kTables) {
      for (const ElfW(Shdr) & table : sections_) {
        if (table.sh_type != type || table.sh_link >= sections_.size()) continue;
        const std::span names = At<char>(sections_[table.sh_link].sh_offset, sections_[table.sh_link].sh_size);
        if (names.empty() || names.back() != 0) continue;
        for (const ElfW(Sym) & symbol : At<ElfW(Sym)>(table.sh_offset, table.sh_size)) {
          if (symbol.st_name < names.size()) visit(symbol, names.data() + symbol.st_name);
        }
        return;
      }
    }
  }

 private:
  // Returns a part of the file, or nothing if the file does not have it.
  template <typename T>
  std::span<const T> At(uint64_t offset, uint64_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset || offset % alignof(T) != 0) return {};
    return {reinterpret_cast<const T*>(data_ + offset), bytes / sizeof(T)};
  }

  const char* data_ = nullptr;
  uint64_t bytes_ = 0;
  std::span<const ElfW(Shdr)> sections_;
};

Ranges ReadWrappers(const Module& module) {
  constexpr size_t kMost = 2048;
  auto* const ranges = static_cast<Range*>(std::malloc(kMost * sizeof(Range)));
  if (ranges == nullptr) return kNone;
  const char* const setting = Setting("PFS_RUN_WRAPPERS");
  const std::string_view of_user = setting != nullptr ? setting : "";
  size_t count = 0;
  ModuleFile(module).ForEachSymbol([&](const ElfW(Sym) & symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || count == kMost) return;
    if (!IsOfWrapper(name) && !IsOfUsers(name, of_user)) return;
    ranges[count++] = {symbol.st_value, symbol.st_value + symbol.st_size};
  });
  std::sort(ranges, ranges + count, [](const Range& a, const Range& b) { return a.begin < b.begin; });
  auto* const kept = count != 0 ? static_cast<Range*>(std::realloc(ranges, count * sizeof(Range))) : nullptr;
  if (kept == nullptr) std::free(ranges);
  return kept != nullptr ? Ranges{count, kept} : kNone;
}

const Ranges* WrappersOf(const Module& module) {
  const std::atomic_ref known(module.wrappers);
  if (const void* const there = known.load(std::memory_order_acquire); there != nullptr) return static_cast<const Ranges*>(there);
  auto* const made = static_cast<Ranges*>(std::malloc(sizeof(Ranges)));
  if (made == nullptr) return &kNone;
  *made = ReadWrappers(module);
  const void* none = nullptr;
  if (known.compare_exchange_strong(none, made, std::memory_order_acq_rel)) return made;  // pairs with the load above
  std::free(const_cast<Range*>(made->first));                                             // another thread was faster
  std::free(made);
  return static_cast<const Ranges*>(none);
}

// Returns whether a module is the C library, or pfs.
bool IsOfOnce(const Module& module) {
  const std::string_view name(module.name);
  return name == "libc" || name == "libpthread" || name == "libperfschema-run";
}

struct Walk {
  uintptr_t caller;
  const void* user;
  int left;
  bool is_past_caller;
};

// Looks at a frame, the innermost first.
_Unwind_Reason_Code Look(_Unwind_Context* context, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  const auto address = static_cast<uintptr_t>(_Unwind_GetIP(context));
  if (--walk.left == 0) return _URC_END_OF_STACK;
  if (!walk.is_past_caller) {
    walk.is_past_caller = address == walk.caller;
    return _URC_NO_REASON;
  }
  const auto* const at = reinterpret_cast<const void*>(address);
  if (at == nullptr) return _URC_END_OF_STACK;
  const Site& site = *SiteOf(at);
  // A wrapper may have its other half called by pthread_once(), or by the function that replaces it.
  if (site.module != nullptr && IsOfOnce(*site.module)) return _URC_NO_REASON;
  walk.user = at;
  return IsInWrapper(site) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

}  // namespace

bool IsOfStreams(const Module& module) {
  const std::string_view name(module.name);
  return name == "libstdc++" || name == "libc++";
}

bool FindWrapper(const Site& site) {
  bool is_in = false;
  if (site.module != nullptr) {
    const int error = errno;
    const bool is_of_library = IsOfStreams(*site.module);
    const Ranges& ranges = is_of_library ? kNone : *WrappersOf(*site.module);
    errno = error;
    const uint64_t inside = site.offset - 1;  // a return address stands behind its call
    const Range* const after = std::upper_bound(ranges.first, ranges.first + ranges.count, inside,
                                                [](uint64_t at, const Range& range) { return at < range.begin; });
    is_in = is_of_library || (after != ranges.first && inside < after[-1].end);
  }
  std::atomic_ref(site.in_wrapper).store(is_in ? Site::InWrapper::kYes : Site::InWrapper::kNo, std::memory_order_relaxed);
  return is_in;
}

const void* CallerOfWrapper(const void* caller) {
  constexpr int kMostFrames = 24;
  Walk walk = {reinterpret_cast<uintptr_t>(caller), caller, kMostFrames, false};
  const int error = errno;
  (void)_Unwind_Backtrace(Look, &walk);
  errno = error;
  return walk.user;
}

}  // namespace perfschema::run
