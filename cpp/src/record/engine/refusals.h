// record/engine/refusals.h: tells the user of a program that PFS_OPTIONS or PFS_DIR was refused.
#pragma once

#include <string>

namespace perfschema {

// Writes one line to stderr, if that is safe: stderr is open, takes the line without waiting, has a reader, and is no file that the
// program also reads (a program that closed its stderr may have opened a file of its own under that number). Preserves errno.
void ReportRefusal(const std::string& reason);

}  // namespace perfschema
