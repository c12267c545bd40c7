// run/real.cpp: finds the C library's functions before the first of them is called.
//
// The pointer of each function first leads to a stub that finds all functions and then makes the call. So the order of constructors does
// not matter. The search is that of dlsym(RTLD_NEXT), without the lock of the dynamic linker (run/exported.h).
#include "run/real.h"

#include <cerrno>
#include <cstdint>

#include "run/exported.h"

#if defined(__aarch64__)
#include "run/stubs_aarch64.h"
#elif defined(__x86_64__)

// A tail jump keeps arguments of any number and type, also of variadic functions.
#define PFS_RUN_SYMBOLS(name)                      \
  asm(".pushsection .data.pfs_real,\"aw\"\n"       \
      ".balign 8\n"                                \
      ".globl pfs_real_" #name                     \
      "\n"                                         \
      ".hidden pfs_real_" #name                    \
      "\n"                                         \
      "pfs_real_" #name ": .quad pfs_first_" #name \
      "\n"                                         \
      ".popsection\n"                              \
      ".pushsection .text.pfs_real,\"ax\"\n"       \
      ".globl __wrap_" #name                       \
      "\n"                                         \
      ".hidden __wrap_" #name                      \
      "\n"                                         \
      ".type __wrap_" #name                        \
      ", @function\n"                              \
      "__wrap_" #name ": jmp *pfs_real_" #name     \
      "(%rip)\n"                                   \
      ".globl pfs_first_" #name                    \
      "\n"                                         \
      ".hidden pfs_first_" #name                   \
      "\n"                                         \
      ".type pfs_first_" #name                     \
      ", @function\n"                              \
      "pfs_first_" #name ": lea pfs_real_" #name   \
      "(%rip), %r11\n"                             \
      "jmp pfs_run_first\n"                        \
      ".popsection\n");

// Saves the registers of the arguments, finds all functions and jumps to the one that %r11 points to.
asm(R"(
.pushsection .text.pfs_real,"ax"
.type pfs_run_first, @function
pfs_run_first:
  push %rbp
  mov %rsp, %rbp
  push %rax
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %r11
  sub $128, %rsp
  and $-16, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  call pfs_run_find_all
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  lea -64(%rbp), %rsp
  pop %r11
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rax
  pop %rbp
  jmp *(%r11)
.popsection
)");

#else
#error "libperfschema-run.so exists for x86-64 and arm64 only."
#endif

PFS_RUN_FUNCTIONS(PFS_RUN_SYMBOLS)
#undef PFS_RUN_SYMBOLS

namespace perfschema::run {

thread_local constinit ThreadFlags t_flags __attribute__((tls_model("initial-exec"))) = {};
bool g_is_off = true;  // until StartRun

namespace {
pid_t own_pid = 0;

// Takes the place of a function that this C library does not have. No program that runs can call it.
int Missing() {
  errno = ENOSYS;
  return -1;
}
}  // namespace

void RememberPid() { own_pid = getpid(); }

bool IsVforkChild() {
  if (getpid() != own_pid) return true;
  t_flags.may_be_vfork_child = false;
  return false;
}

}  // namespace perfschema::run

namespace {
// Returns what dlsym(RTLD_NEXT) does, but takes no lock and no memory: the first call may come from an allocator that has just begun.
void* NextSymbol(const char* name) {
  using namespace perfschema::run;
  const SymbolName symbol(name);
  const link_map* object = OwnObject();
  void* found = nullptr;
  while (found == nullptr && object != nullptr && (object = object->l_next) != nullptr) found = Exported(*object).Find(symbol);
  return found;
}
}  // namespace

// Another thread cannot run yet: this library finds its functions before the program begins.
extern "C" __attribute__((visibility("hidden"))) void pfs_run_find_all() {
  const int error = errno;
#define PFS_RUN_FIND(name)                                                                          \
  {                                                                                                 \
    void* const found = NextSymbol(#name);                                                          \
    pfs_real_##name = found != nullptr ? found : reinterpret_cast<void*>(perfschema::run::Missing); \
  }
  PFS_RUN_FUNCTIONS(PFS_RUN_FIND)
#undef PFS_RUN_FIND
  errno = error;
}
