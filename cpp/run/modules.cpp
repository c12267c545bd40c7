// run/modules.cpp: notes libraries whose calls pass this one by.
//
// RTLD_DEEPBIND makes a library find its functions in its own dependencies first: in libc and not here. dlmopen() gives it a libc of its
// own. The program may need that, so the call stays as it is, and the error log says what is not seen. The dynamic linker takes the
// return address of dlopen() for the caller, whose search path counts: so these leave by a jump, with the stack as it was.
#include <dlfcn.h>

#include <cstdio>

#include "perfschema/pfs.h"
#include "run/real.h"

using namespace perfschema::run;

extern "C" __attribute__((used, visibility("hidden"))) void pfs_run_note_unseen(const char* path) {
  if (IsPlain() || path == nullptr) return;
  char text[512];
  std::snprintf(text, sizeof text, "%s has been loaded apart (RTLD_DEEPBIND or dlmopen): its calls are not seen", path);
  (void)pfs_log(PFS_LOG_WARNING, "PFS-RUN", "modules", text);
}

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
static_assert(RTLD_DEEPBIND == 8);
