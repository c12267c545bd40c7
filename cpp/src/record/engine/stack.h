// record/engine/stack.h: which frames of the stack still run. A longjmp out of a signal handler leaves work half done; the place where the work began tells.
//
// A probe cannot block signals, nor can the lock-free path that creates and destroys objects. A handler that interrupts them finds the
// thread's guard set, does its operation plainly and counts Performance_schema_locker_lost. The guard is the stack address where the
// thread entered. If a later event of the thread comes from a frame above that address, a longjmp has left them: the thread gives the
// event up, counts it as lost, and goes on.
#pragma once

#include "shm/cell.h"

namespace perfschema {

// Where the stack is.
PFS_ALWAYS_INLINE const void* StackMark() {
  const void* mark;
#if defined(__x86_64__)
  asm("mov %%rsp, %0" : "=r"(mark));
#else
  asm("mov %0, sp" : "=r"(mark));
#endif
  return mark;
}

// The place of what no longjmp leaves behind, or of what lies on no stack.
inline const void* const kNoFrame = reinterpret_cast<const void*>(~uintptr_t{0});

// Does `place` lie in a frame that has been given back? `frame` is the stack pointer of a frame that runs. Memory that is far away is on no stack, or on
// another one, and was not given back.
inline bool LiesBelow(const void* place, const void* frame) {
  constexpr uintptr_t kStackBytes = 64u << 20;
  return reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(place) - 1 < kStackBytes;
}

// For what only a signal handler can interrupt: its frames lie below those of what it interrupted by a red zone and a signal frame, 1000 bytes at least. Less
// than that, the frame that asks may lie deeper than the one that was left.
inline const void* AboveHandlersOf(const void* frame) { return static_cast<const char*>(frame) + 640; }

// The same in a signal handler, too: one that runs on a stack of its own does not know how far the interrupted stack goes. Returns false there.
// `place` == `frame` is below: whatever runs inside a call has a frame of its own. Makes a system call if `place` lies below. Preserves errno.
[[gnu::noinline]] bool WasLeft(const void* place, const void* frame);

}  // namespace perfschema
