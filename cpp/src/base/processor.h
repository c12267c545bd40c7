// base/processor.h: what this processor can do. Asked at first use, and not when the library is loaded: a virtual machine traps CPUID, and
// the compiler's own check (__builtin_cpu_supports) executes 20 of them in each process.
#pragma once

namespace perfschema {

// Returns whether there is AVX, and the kernel saves its registers. Slow.
bool HasAvx();

}  // namespace perfschema
