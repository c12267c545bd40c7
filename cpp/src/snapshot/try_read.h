// snapshot/try_read.h: Snapshot::TryRead, LoadWords and ForEachSlot, shared by the files of this folder.
#pragma once

#include <ctime>

#include "snapshot/snapshot.h"

namespace perfschema {

// ReadWhole with patience: a writer that was descheduled inside a section goes on within milliseconds. One that died
// there never does: the naps are counted over the whole Snapshot, so that a damaged file costs milliseconds, not
// minutes. False: torn; the caller counts the row.
template <typename Copy>
PFS_ALWAYS_INLINE bool Snapshot::TryRead(const HalfWord& seq, Copy copy) const {
#if !defined(PFS_BREAK_SEQLOCK)
  if (patience_ == 0 && (seq.load(kRelaxed) & 1) != 0) return false;
#endif
  while (!ReadWhole(seq, copy)) {
    if (patience_ <= 0) return false;
    --patience_;
    const timespec nap{0, 100'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

// Each word whole; whether they belong together the caller knows.
template <size_t N>
void LoadWords(const Word (&from)[N], uint64_t (&to)[N]) {
  for (size_t i = 0; i < N; ++i) to[i] = from[i].load(kAcquire);
}

// Rows of all elements that are there. One that stays torn is left out and counted.
// `read`: Found(const Snapshot*, uint32_t index, Row* row), which sets all of a row that it has found.
template <typename T, typename Row, typename Read>
void Snapshot::ForEachSlot(const ArrayView<T>& array, Read read, const std::function<void(const Row&)>& use) const {
  if (!ok_) return;
  StartWalks();
  Row row{};  // one for all: what it points to keeps its memory
  for (uint64_t i = 1; i < array.used(); ++i) {
    switch (std::invoke(read, this, static_cast<uint32_t>(i), &row)) {
      case Found::kFree:
        break;
      case Found::kRead:
        use(row);
        break;
      case Found::kTorn:
        ++skipped_;
        break;
    }
  }
}

}  // namespace perfschema
