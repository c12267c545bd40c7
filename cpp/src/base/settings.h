// base/settings.h: the variables PFS_...: of the environment, or of the text that `pfs join` hands over.
#pragma once

namespace perfschema {

// Returns the value of a variable, or nullptr. A setuid program has none: so does the environment of a program that was joined, which the
// program may be changing. THREADS: any, after HandOver().
const char* Setting(const char* name);

// From here on Setting() reads a copy of `text` instead of the environment: NAME=value, each ends with a zero; an empty one ends the text.
// The first text stays. Returns false without memory. THREADS: one.
bool HandOverSettings(const char* text);

}  // namespace perfschema
