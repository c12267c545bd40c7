// run/loader/modules.cpp: notes libraries whose calls pass this one by.
//
// RTLD_DEEPBIND makes a library find its functions in its own dependencies first: in libc and not here. dlmopen() gives it a libc of its
// own. The program may need that, so the call stays as it is, and the error log says what is not seen. The dynamic linker takes the
// return address of dlopen() for the caller, whose search path counts: so these leave by a jump, with the stack as it was.
#include <dlfcn.h>

#include <cstdio>

#include "perfschema/pfs.h"
#include "run/loader/real.h"

using namespace perfschema::run;

extern "C" __attribute__((used, visibility("hidden"))) void pfs_run_note_unseen(const char* path) {
  if (IsPlain() || path == nullptr) return;
  char text[512];
  std::snprintf(text, sizeof text, "%s has been loaded apart (RTLD_DEEPBIND or dlmopen): its calls are not seen", path);
  (void)pfs_log(PFS_LOG_WARNING, "PFS-RUN", "modules", text);
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
  bl pfs_run_note_unseen
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
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
  call pfs_run_note_unseen
  add $8, %rsp
  pop %rsi
  pop %rdi
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
.popsection
)");
#endif
static_assert(RTLD_DEEPBIND == 8);
