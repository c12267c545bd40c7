// aggregate/statements.h: TRUNCATE of what statements count in besides the rows of threads and their parties (resets.h).
//
// Threads: any thread. kState in a signal handler that interrupted pfs; success if pfs is off.
#pragma once

#include "base/status.h"

namespace perfschema {

// Digests lose their rows, and begin anew with the next statement; histograms of digests, programs and prepared statements keep theirs, and their
// numbers go (SEMANTICS F12).
Status TruncateDigests();
Status TruncateDigestHistograms();
Status TruncateHistogram();
Status TruncatePrograms();
Status TruncatePrepared();

}  // namespace perfschema
