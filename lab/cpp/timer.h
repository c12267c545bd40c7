/* timer.h: two instructions that differ by processor: to read the timer that a probe reads, and to wait for another thread. C and C++. */
#pragma once

#include <stdint.h>

static inline uint64_t read_timer(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

/* Says to the processor that the thread waits for another one. */
static inline void relax_processor(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}
