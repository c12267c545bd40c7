// run/calls/vfork.cpp: replaces vfork(): the thread waits until its child runs another program, or ends.
//
// The child goes on in the caller's frame, with the thread's stack and variables, and overwrites what is below that frame. So the event and
// the place to return to are in static memory, and the code that is there before and after the call has no frame. The child records
// nothing: it only reads where to return to. A nested call, as of a signal's handler, is a plain one. So is each where the processor
// compares return addresses with its own stack of them, which knows of calls that return only.
#include <atomic>
#include <cerrno>
#include <new>

#include "run/calls/wait_calls.h"

using namespace perfschema::run;

namespace {

// A thread that waits in vfork(). The child has its parent's thread locals, and finds the place by them.
struct InVfork {
  std::atomic<const void*> thread;  // nullptr = free
  const void* caller;
  alignas(Waiting) char wait[sizeof(Waiting)];
};
constinit InVfork g_in_vfork[16] = {};  // further ones make no event

InVfork* InVforkOf(const void* thread) {
  for (InVfork& place : g_in_vfork) {
    if (place.thread.load(std::memory_order_relaxed) == thread) return &place;
  }
  return nullptr;
}

InVfork* TakeInVfork() {
  for (InVfork& place : g_in_vfork) {
    const void* free = nullptr;
    if (place.thread.compare_exchange_strong(free, &perfschema::t_locals, std::memory_order_acquire)) return &place;
  }
  return nullptr;
}

}  // namespace

// Begins the event. Returns false if there is none: nothing may be done after the call then. `shadow_stack`: the processor's; 0 = none.
extern "C" __attribute__((visibility("hidden"), used)) bool pfs_run_before_vfork(const void* caller, uintptr_t shadow_stack) {
  InVfork* const place = IsPlain() || shadow_stack != 0 || InVforkOf(&perfschema::t_locals) != nullptr ? nullptr : TakeInVfork();
  if (place != nullptr) {
    place->caller = caller;
    const void* const user = UserAt(caller);
    new (place->wait) Waiting(
        ObjectOfPlace(Kind::kChild, user), [=] { return SourceOfScript(SourceAt(user)); }, perfschema::Operation::kCreate);
  }
  perfschema::t_locals.may_share_memory = true;
  return place != nullptr;
}

// Ends it, in the parent. Returns where both return to.
extern "C" __attribute__((visibility("hidden"), used)) const void* pfs_run_after_vfork(pid_t child) {
  InVfork& place = *InVforkOf(&perfschema::t_locals);
  const void* const caller = place.caller;
  if (child == 0) return caller;
  const int error = errno;
  std::launder(reinterpret_cast<Waiting*>(place.wait))->~Waiting();
  place.thread.store(nullptr, std::memory_order_release);  // pairs with TakeInVfork
  errno = error;
  return caller;
}

// __next_vfork is the C library's function.
// clang-format off
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl vfork
.type vfork, @function
vfork:
  .cfi_startproc
  mov (%rsp), %rdi
  xor %esi, %esi
  rdsspq %rsi
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call pfs_run_before_vfork
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  test %al, %al
  jz __next_vfork
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  .cfi_undefined %rip
  call __next_vfork
  mov %eax, %edi
  push %rax
  sub $8, %rsp
  call pfs_run_after_vfork
  mov %rax, %rdx
  add $8, %rsp
  pop %rax
  jmp *%rdx
  .cfi_endproc
.size vfork, . - vfork
.popsection
)");
#else
asm(R"(
.pushsection .text
.globl vfork
.type vfork, %function
vfork:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_adjust_cfa_offset 16
  .cfi_rel_offset x30, 8
  mov x0, x30
  mov x1, #0
  bl pfs_run_before_vfork
  ldp x29, x30, [sp], #16
  .cfi_adjust_cfa_offset -16
  .cfi_restore x30
  tbnz w0, #0, 1f
  b __next_vfork
1:
  .cfi_undefined x30
  bl __next_vfork
  stp x0, x29, [sp, #-16]!
  bl pfs_run_after_vfork
  mov x30, x0
  ldp x0, x29, [sp], #16
  ret
  .cfi_endproc
.size vfork, . - vfork
.popsection
)");
#endif
// clang-format on
