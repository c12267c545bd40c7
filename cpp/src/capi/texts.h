// capi/texts.h: texts that a program passes.
#pragma once

#include <string_view>

namespace perfschema::capi {

// Returns a text of the program; NULL is an empty text.
inline std::string_view TextOf(const char* text) { return text != nullptr ? text : ""; }

}  // namespace perfschema::capi
