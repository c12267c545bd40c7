#include "base/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace perfschema {

bool HasAvx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kNeeded = bit_OSXSAVE | bit_AVX, kSavesSseAndAvx = 6;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kNeeded) != kNeeded) return false;
  unsigned saved = 0, high = 0;
  asm("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return (saved & kSavesSseAndAvx) == kSavesSseAndAvx;
#else
  return false;
#endif
}

}  // namespace perfschema
