// run/loader/real.cpp: finds the C library's functions before the first of them is called.
//
// The pointer of each function first leads to a stub that finds all functions and then makes the call. So the order of constructors does
// not matter. The search is dlsym(RTLD_NEXT) for all of them at once, without the lock of the dynamic linker (run/loader/exported.h).
//
// A library that came late by dlopen() is behind the C library in the order of the search. Calls are led here one by one then, those that
// lead to the C library (run/loader/modules.cpp), so the functions are the C library's.
//
// The next object that defines a function may be another library than the C library: fakeroot, a sanitizer. It gets the calls that the
// program makes. It must not get those that this library makes for itself: it may call a replacement, which would call it again.
#include "run/loader/real.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/placement.h"
#include "run/loader/exported.h"
#include "run/loader/own_calls.h"
#include "run/loader/small_lock.h"

// The pointers, in the order of the lists: for the program's calls, and for our own ones.
// clang-format off
#define FUNCTION(name) ".globl pfs_real_" #name "\n.hidden pfs_real_" #name "\npfs_real_" #name ": .quad pfs_first_" #name "\n"
asm(".pushsection .data.pfs_real,\"aw\"\n.balign 8\n.globl pfs_real_all\n.hidden pfs_real_all\npfs_real_all:\n"
#include "run/loader/functions.def"
    ".popsection\n");
#define FUNCTION(name) "pfs_own_" #name ": .quad 0\n"
asm(".pushsection .data.pfs_real,\"aw\"\n.balign 8\n.globl pfs_own_all\n.hidden pfs_own_all\npfs_own_all:\n"
#include "run/loader/functions.def"
    ".popsection\n");
// clang-format on

#if defined(__aarch64__)
#include "run/loader/stubs_aarch64.h"
#elif defined(__x86_64__)
#include "run/loader/stubs_x86_64.h"
#else
#error "libperfschema-run.so exists for x86-64 and arm64 only."
#endif

// The code of a hidden symbol.
#define PFS_RUN_CODE(symbol, code) ".globl " symbol "\n.hidden " symbol "\n.type " symbol ", %function\n" symbol ": " code "\n"
// A tail jump keeps arguments of any number and type, also of variadic functions.
#define FUNCTION(name)                                                                                        \
  asm(".pushsection .text.startup.pfs,\"ax\"\n" PFS_RUN_CODE("__wrap_" #name, PFS_RUN_JUMP("pfs_own_" #name)) \
          PFS_RUN_CODE("__next_" #name, PFS_RUN_JUMP("pfs_real_" #name))                                      \
              PFS_RUN_CODE("pfs_first_" #name, PFS_RUN_FIRST("pfs_real_" #name)) ".popsection\n");
#include "run/loader/functions.def"
#undef PFS_RUN_CODE

// The functions that an older C library lacks, under their versions. The linker's --wrap leaves __real_name to the replacement.
#define VERSION(name, version)                                                                                                             \
  asm(".pushsection .text.pfs_newer,\"ax\"\n.globl pfs_newer_" #name "_" #version "\n.type pfs_newer_" #name "_" #version                  \
      ", %function\npfs_newer_" #name "_" #version ": " PFS_RUN_GO("__real_" #name) "\n.popsection\n.symver pfs_newer_" #name "_" #version \
                                                                                    ", " #name "@GLIBC_" #version "\n");
#include "run/loader/functions.def"

// What newer C libraries have, and the code inside this one would take from there.
extern "C" {
// Of glibc 2.32, for the C++ library. False: std::shared_ptr counts with atomic instructions.
__attribute__((weak, visibility("hidden"))) char __libc_single_threaded = 0;

// Of glibc 2.38, whose headers give these names to strtoul() and strtoull().
unsigned long pfs_run_strtoul(const char*, char**, int) __asm__("strtoul");
unsigned long long pfs_run_strtoull(const char*, char**, int) __asm__("strtoull");
__attribute__((visibility("hidden"))) unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return pfs_run_strtoul(text, end, base);
}
__attribute__((visibility("hidden"))) unsigned long long __isoc23_strtoull(const char* text, char** end, int base) {
  return pfs_run_strtoull(text, end, base);
}
}

extern "C" void* pfs_real_all[] __attribute__((visibility("hidden")));
extern "C" void* pfs_own_all[] __attribute__((visibility("hidden")));

namespace perfschema::run {

namespace {

// These take the place of functions that this C library does not have. No program that runs calls them, but the core does.
int NoSuchFunction() {
  errno = ENOSYS;
  return -1;
}
void* NoPointer() { return nullptr; }  // of the functions that look for a symbol, which a program may lack (libdl)

// Before glibc 2.33 these were inline functions.
int StatAt(int directory, const char* path, struct stat* info, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, path, info, flags));
}
int Stat(const char* path, struct stat* info) { return StatAt(AT_FDCWD, path, info, 0); }
int Lstat(const char* path, struct stat* info) { return StatAt(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW); }
int Fstat(int fd, struct stat* info) { return static_cast<int>(syscall(SYS_fstat, fd, info)); }

PFS_IN_EVERY_PROCESS void* Substitute(std::string_view name) {
  const auto as_pointer = [](auto* function) { return reinterpret_cast<void*>(function); };
  if (name == "stat" || name == "stat64") return as_pointer(Stat);
  if (name == "lstat" || name == "lstat64") return as_pointer(Lstat);
  if (name == "fstat" || name == "fstat64") return as_pointer(Fstat);
  if (name == "fstatat") return as_pointer(StatAt);
  return name.starts_with("dl") ? as_pointer(NoPointer) : as_pointer(NoSuchFunction);
}

// The names of all functions, in the order of the pointers.
// clang-format off
#define FUNCTION(name) #name "\0"
constexpr char kNames[] =
#include "run/loader/functions.def"
    ;
#define FUNCTION(name) +1
constexpr size_t kFunctions = 0
#include "run/loader/functions.def"
    ;
// clang-format on

constexpr auto kPlaces = PlacesIn<kFunctions>(kNames);

}  // namespace

PFS_IN_EVERY_PROCESS bool IsInCLibrary(const void* function) {
  return function != reinterpret_cast<void*>(NoSuchFunction) && function != reinterpret_cast<void*>(NoPointer);
}

bool LacksFunction(const char* name) {
  const std::string_view wanted(name);
  for (size_t i = 0; i < kFunctions; ++i) {
    if (wanted == kNames + kPlaces[i].at) return !IsInCLibrary(pfs_real_all[i]);
  }
  return false;
}

PFS_SET_IN_EVERY_PROCESS pid_t g_own_pid = 0;
PFS_IN_EVERY_PROCESS void RememberPid() {
  g_own_pid = getpid();
  if (__builtin_expect(t_locals.memory_owner != 0, 0)) {  // a forked child: its memory is its own
    t_locals.memory_owner = 0;
    t_locals.may_share_memory = false;
  }
}

namespace {

pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

void ShareWithClone() {
  t_locals.memory_owner = ThisThread();
  t_locals.may_share_memory = true;
}

bool SharesParentsMemory() {
  if (t_locals.memory_owner != 0) return ThisThread() != t_locals.memory_owner;
  if (getpid() != g_own_pid) return true;
  t_locals.may_share_memory = false;
  return false;
}

}  // namespace perfschema::run

// The first of all constructors: those of the C++ library inside call functions.
asm(".pushsection .init_array.00000,\"aw\"\n.balign 8\n.quad pfs_run_find_all\n.popsection\n");

PFS_IN_EVERY_PROCESS void pfs_run_find_all() {
  using namespace perfschema::run;
  using perfschema::g_came_late;
  PFS_SET_IN_EVERY_PROCESS static constinit bool is_done = false;
  if (is_done) return;
  is_done = true;
  const link_map* const own = OwnObject();
  const CLibrary library;
  if (own != nullptr) library.BindCallsOf(*own);  // first: a call would be the program's function
  const int error = errno;
  void* found[kFunctions] = {};
  g_came_late = own != nullptr && library.IsBefore(*own);
  if (own != nullptr && !g_came_late) FindAll(own->l_next, kNames, kPlaces, found);
  for (size_t i = 0; i < kFunctions; ++i) {
    const char* const name = kNames + kPlaces[i].at;
    if (g_came_late) found[i] = library.FunctionOf(name);
    pfs_real_all[i] = pfs_own_all[i] = found[i] != nullptr ? found[i] : Substitute(name);
    if (found[i] == nullptr || library.Has(found[i])) continue;
    if (void* const function = library.FunctionOf(name); function != nullptr) pfs_own_all[i] = function;
  }
  errno = error;
}
