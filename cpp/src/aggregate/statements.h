// aggregate/statements.h: TRUNCATE of statistics of statements other than the rows of threads and their principals (resets.h).
//
// Threads: any thread. kState in a signal handler that interrupted pfs; success if pfs is off.
#pragma once

#include "base/status.h"

namespace perfschema {

// Digests lose their rows, and start again with the next statement. Histograms of digests, programs and prepared statements keep their
// rows, and lose their numbers (semantics.md F12).
Status TruncateDigests();
Status TruncateDigestHistograms();
Status TruncateHistogram();
Status TruncatePrograms();
Status TruncatePrepared();

}  // namespace perfschema
