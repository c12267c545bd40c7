#include "aggregate/statements.h"

#include "aggregate/resets.h"
#include "record/family/digests.h"
#include "record/family/histograms.h"
#include "record/family/programs.h"

namespace perfschema {

Status TruncateDigests() { return UnderLock(ForgetDigests); }
Status TruncateDigestHistograms() { return UnderLock(EmptyDigestHistograms); }
Status TruncateHistogram() { return UnderLock(EmptyHistogram); }
Status TruncatePrograms() { return UnderLock(EmptyPrograms); }
Status TruncatePrepared() { return UnderLock(EmptyPrepared); }

}  // namespace perfschema
