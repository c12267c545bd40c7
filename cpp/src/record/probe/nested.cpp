#include "record/probe/nested.h"

#include <cerrno>

namespace perfschema {

bool BeginEpochOfCell(ThreadState& thread, Kind kind, ShmCell& cell, bool is_global) {
  const ShmEpochs& epochs = g_runtime.header->EpochsOf(kind);
  const uint32_t now = epochs.now.load(kRelaxed);
  if (is_global) {  // no level is above the total: a TRUNCATE of a lower level changes nothing here
    const bool counts =
        static_cast<int32_t>(cell.gen.load(kRelaxed) - epochs.since[static_cast<uint32_t>(Level::kGlobal)].load(kRelaxed)) >= 0;
    const CellWriter writer(cell.seq);
    if (!counts) StoreNumbers(ShapeOf(kind), {}, cell);
    cell.gen.store(now, kRelease);
    return true;
  }
  const int error = errno;
  bool done = true;
  if (IsEmpty(ShapeOf(kind), cell)) {  // nothing to move
    const CellWriter writer(cell.seq);
    cell.gen.store(now, kRelease);
  } else if (const ColdLock lock; lock) {
    const CellWriter writer(cell.seq);
    RollOver(*thread.shared, static_cast<uint32_t>(&cell - thread.cells), cell, kind);
  } else {
    CountLoss(Loss::kThreadStatistics);
    done = false;
  }
  errno = error;
  return done;
}

}  // namespace perfschema
