// base/valgrind.h: whether valgrind runs this program.
#pragma once

// A function of the library that valgrind puts before all others.
extern "C" [[gnu::weak]] void _vgnU_freeres();

namespace perfschema {

inline bool IsUnderValgrind() { return __builtin_expect(_vgnU_freeres != nullptr, 0); }

}  // namespace perfschema
