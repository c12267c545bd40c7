// run/loader/modules.cpp: libraries whose calls pass this one by.
//
// If this library came late, that is all of them. BindProgram() binds their calls. A library that is loaded later is bound when the program
// looks for its functions: at the next dlsym().
//
// RTLD_DEEPBIND makes a library find its functions in its own dependencies first: in libc and not here. The flag stays as it is. When the
// library is there, its calls of libc, and those of what it needs, are bound to the replacements. dlmopen() gives a library a libc of its
// own: the error log says that it is not seen. The dynamic linker takes the return address of dlopen() for the caller, whose search path
// counts: so these leave by a jump, with the stack as it was, unless the path needs no search.
#include "run/loader/modules.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "perfschema/pfs.h"
#include "run/loader/exported.h"
#include "run/loader/own_calls.h"
#include "run/loader/real.h"
#include "run/loader/small_lock.h"

using namespace perfschema::run;

namespace {

// Calls `visit` for each object that this one needs.
template <typename Visit>
void ForEachNeeded(const link_map& object, Visit visit) {
  const char* const names = DynamicSection(object).names;
  for (const ElfW(Dyn)* entry = object.l_ld; names != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    for (const link_map* other = FirstObject(); other != nullptr; other = other->l_next) {
      const DynamicSection section(*other);
      const bool has_name = section.name_of_library != 0 && section.names != nullptr;
      if (has_name && std::strcmp(section.names + section.name_of_library, names + entry->d_un.d_val) == 0) visit(*other);
    }
  }
}

// Binds the calls of a library, and of what it needs, to the replacements.
void BindAll(const link_map& library) {
  constexpr size_t kMost = 64;
  const CLibrary c_library;
  const link_map* found[kMost] = {&library};
  size_t count = 1;
  for (size_t i = 0; i < count; ++i) {
    c_library.BindCallsHere(*found[i]);
    ForEachNeeded(*found[i], [&](const link_map& needed) {
      const bool is_new = std::find(found, found + count, &needed) == found + count && &needed != OwnObject();
      const auto* const code = reinterpret_cast<const void*>(needed.l_ld);
      if (is_new && count < kMost && !c_library.Has(code)) found[count++] = &needed;
    });
  }
}

SmallLock binding;                           // two threads must not bind one object
constinit std::atomic<uint64_t> loaded = 0;  // objects, when all were bound

}  // namespace

namespace perfschema::run {

void BindProgram(bool is_here) {
  std::optional<const CLibrary> c_library;
  std::vector<std::string> names;
  const uint64_t seen = WithObjects([&] {
    c_library.emplace();
    const link_map* const own = OwnObject();
    for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
      const bool has_file = std::strchr(object->l_name, '/') != nullptr || object == FirstObject();
      if (has_file && object != own && !c_library->Has(object->l_ld)) names.emplace_back(object->l_name);
    }
  });
  for (const std::string& name : names) {
    // An object that another thread is loading has been relocated when this returns, and it stays as long as the handle.
    void* const handle = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    {
      const SmallLock::Guard guard(binding);
      const auto& object = *static_cast<const link_map*>(handle);
      WithObjects([&] { is_here ? c_library->BindCallsHere(object) : c_library->BindCallsBack(object); });
    }
    dlclose(handle);
  }
  loaded.store(seen, std::memory_order_relaxed);
}

}  // namespace perfschema::run

extern "C" __attribute__((used, visibility("hidden"))) void pfs_run_bind_new() {
  if (IsPlain()) return;
  const int error = errno;
  if (WithObjects([] {}) != loaded.load(std::memory_order_relaxed)) BindProgram(true);
  errno = error;
}

extern "C" __attribute__((used, visibility("hidden"))) void pfs_run_note_unseen(const char* path) {
  if (IsPlain() || path == nullptr) return;
  char text[512];
  std::snprintf(text, sizeof text, "%s has been loaded apart (RTLD_DEEPBIND or dlmopen): its calls are not seen", path);
  (void)pfs_log(PFS_LOG_WARNING, "PFS-RUN", "modules", text);
}

namespace {
constexpr uintptr_t kNotOpened = 1;
}

// Loads a library with RTLD_DEEPBIND. Returns kNotOpened if the caller must do so by a jump.
extern "C" __attribute__((used, visibility("hidden"))) void* pfs_run_open_apart(const char* path, int flags) {
  if (IsPlain() || path == nullptr || perfschema::g_came_late) return reinterpret_cast<void*>(kNotOpened);
  if (std::strchr(path, '/') == nullptr || std::strchr(path, '$') != nullptr) {
    pfs_run_note_unseen(path);
    return reinterpret_cast<void*>(kNotOpened);
  }
  void* const library = PFS_REAL(dlopen)(path, flags);
  if (library != nullptr) BindAll(*static_cast<const link_map*>(library));
  return library;
}

#if defined(__aarch64__)
// x0 and x1 hold the path and the flags of dlopen(); the path of dlmopen() is in x1.
asm(R"(
.pushsection .text.pfs_modules,"ax"
.globl dlopen
.type dlopen, %function
dlopen:
  tbz w1, #3, 1f
  stp x29, x30, [sp, #-32]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  bl pfs_run_open_apart
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  cmp x16, #1
  b.eq 1f
  mov x0, x16
  ret
1:
  adrp x16, pfs_real_dlopen
  ldr x16, [x16, #:lo12:pfs_real_dlopen]
  br x16
.size dlopen, . - dlopen
.globl dlmopen
.type dlmopen, %function
dlmopen:
  stp x29, x30, [sp, #-48]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  str x2, [sp, #32]
  mov x0, x1
  bl pfs_run_note_unseen
  ldp x0, x1, [sp, #16]
  ldr x2, [sp, #32]
  ldp x29, x30, [sp], #48
  adrp x16, pfs_real_dlmopen
  ldr x16, [x16, #:lo12:pfs_real_dlmopen]
  br x16
.size dlmopen, . - dlmopen
.hidden pfs_run_late_dlsym
.globl pfs_run_late_dlsym
.type pfs_run_late_dlsym, %function
pfs_run_late_dlsym:
  stp x29, x30, [sp, #-32]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  bl pfs_run_bind_new
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  adrp x16, pfs_real_dlsym
  ldr x16, [x16, #:lo12:pfs_real_dlsym]
  br x16
.size pfs_run_late_dlsym, . - pfs_run_late_dlsym
.popsection
)");
#else
// %rdi and %rsi hold the path and the flags of dlopen(); the path of dlmopen() is in %rsi.
asm(R"(
.pushsection .text.pfs_modules,"ax"
.globl dlopen
.type dlopen, @function
dlopen:
  test $8, %esi
  jne 1f
  jmp *pfs_real_dlopen(%rip)
1:
  push %rdi
  push %rsi
  sub $8, %rsp
  call pfs_run_open_apart
  add $8, %rsp
  pop %rsi
  pop %rdi
  cmp $1, %rax
  je 2f
  ret
2:
  jmp *pfs_real_dlopen(%rip)
.size dlopen, . - dlopen
.globl dlmopen
.type dlmopen, @function
dlmopen:
  push %rdi
  push %rsi
  push %rdx
  mov %rsi, %rdi
  call pfs_run_note_unseen
  pop %rdx
  pop %rsi
  pop %rdi
  jmp *pfs_real_dlmopen(%rip)
.size dlmopen, . - dlmopen
.hidden pfs_run_late_dlsym
.globl pfs_run_late_dlsym
.type pfs_run_late_dlsym, @function
pfs_run_late_dlsym:
  push %rdi
  push %rsi
  sub $8, %rsp
  call pfs_run_bind_new
  add $8, %rsp
  pop %rsi
  pop %rdi
  jmp *pfs_real_dlsym(%rip)
.size pfs_run_late_dlsym, . - pfs_run_late_dlsym
.popsection
)");
#endif
static_assert(RTLD_DEEPBIND == 8);
