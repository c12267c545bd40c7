// record/engine/stack.h: tells whether a longjmp out of a signal handler has left work half done, by the stack
// address where the work began.
//
// A probe cannot block signals, nor can the lock-free path that creates and destroys objects. A handler that
// interrupts them finds the thread's guard set, performs its operation uninstrumented and counts
// Performance_schema_locker_lost. The guard is the stack address where the thread entered. If a later event of the
// thread comes from a frame above that address, a longjmp has left the probe. The thread drops its event, counts it
// as lost, and goes on.
#pragma once

#include "shm/cell.h"

namespace perfschema {

// Returns the stack pointer.
PFS_ALWAYS_INLINE const void* StackMark() {
  const void* mark;
#if defined(__x86_64__)
  asm("mov %%rsp, %0" : "=r"(mark));
#else
  asm("mov %0, sp" : "=r"(mark));
#endif
  return mark;
}

// The stack address of work that no longjmp leaves, or that lies on no stack.
inline const void* const kNoFrame = reinterpret_cast<const void*>(~uintptr_t{0});

// Returns true if `place` lies in a released frame. `frame` is the stack pointer of a running frame. Memory that is
// far away is on no stack or on another one, and counts as not released.
inline bool LiesBelow(const void* place, const void* frame) {
  constexpr uintptr_t kStackBytes = 64u << 20;
  return reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(place) - 1 < kStackBytes;
}

// Adjusts `frame` for work that only a signal handler can interrupt. A handler's frames lie below the interrupted
// work by a red zone and a signal frame, 1000 bytes at least. Within that distance, the asking frame may lie deeper
// than the abandoned one.
inline const void* AboveHandlersOf(const void* frame) { return static_cast<const char*>(frame) + 640; }

// Does the same in signal handlers, too. A handler on a stack of its own does not know how far the interrupted stack
// goes; there it returns false. `place` == `frame` counts as below: every call has a frame of its own. Makes a system
// call if `place` lies below. Preserves errno.
[[gnu::noinline]] bool WasLeft(const void* place, const void* frame);

}  // namespace perfschema
