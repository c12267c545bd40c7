#include "aggregate/statements.h"

#include "aggregate/resets.h"
#include "record/digests.h"
#include "record/programs.h"
#include "record/statements.h"

namespace perfschema {

Status TruncateDigests() { return UnderLock(ForgetDigests); }
Status TruncateDigestHistograms() { return UnderLock(EmptyDigestHistograms); }
Status TruncateHistogram() { return UnderLock(EmptyHistogram); }
Status TruncatePrograms() { return UnderLock(EmptyPrograms); }
Status TruncatePrepared() { return UnderLock(EmptyPrepared); }

}  // namespace perfschema
