#include "record/engine/own_stack.h"

#include <cstddef>

#include "base/valgrind.h"

namespace perfschema {

namespace {

constexpr size_t kBytes = size_t{64} << 10;  // a start takes 11 KiB
alignas(64) constinit char own_stack[kBytes] = {};

}  // namespace

// Nothing of this function lives across the call but the old stack pointer, in a register that the callee preserves. The frame pointer
// lets debuggers find the caller.
[[gnu::noinline]] void CallOnOwnStack(void (*call)(void* argument), void* argument) {
  if (IsUnderValgrind()) return call(argument);
  [[maybe_unused]] void* const frame = __builtin_frame_address(0);
  char* const top = own_stack + kBytes;
#if defined(__x86_64__)
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "callq *%[call]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(argument), [call] "+a"(call)
      : [top] "r"(top)
      : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
  register void* x0 asm("x0") = argument;
  asm volatile(
      "mov x19, sp\n\t"
      "mov sp, %[top]\n\t"
      "blr %[call]\n\t"
      "mov sp, x19"
      : "+r"(x0)
      : [top] "r"(top), [call] "r"(call)
      : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30",
        "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
        "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#else
  (void)top;
  call(argument);
#endif
}

}  // namespace perfschema
