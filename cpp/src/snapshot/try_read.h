// snapshot/try_read.h: Snapshot::TryRead, LoadWords and ForEachSlot, shared by the files of this folder.
#pragma once

#include <ctime>

#include "snapshot/snapshot.h"

namespace perfschema {

inline constexpr int kSlotAttempts = 8;  // for a slot or an object that changes hands while it is read

// Runs ReadWhole with patience: a writer that was descheduled inside a section goes on within milliseconds. One that died there never
// does. So the naps are counted over the whole Snapshot, and a damaged file costs milliseconds, not minutes. If the writer rests
// (WriterRests), the copy is taken as the writer left it, mend() repairs it as far as possible, and the row counts as repaired. Returns
// false if the copy is torn; the caller counts the row.
template <typename Copy, typename Mend>
PFS_ALWAYS_INLINE bool Snapshot::TryRead(const HalfWord& seq, Copy copy, Mend mend) const {
#if !defined(PFS_BREAK_SEQLOCK)
  if ((seq.load(kRelaxed) & 1) != 0) {
    if (rests_ && ReadUnfinished(seq, copy, mend)) return true;
    if (patience_ == 0 && !WriterRests()) return false;
  }
#endif
  while (!ReadWhole(seq, copy)) {
    if (WriterRests() && ReadUnfinished(seq, copy, mend)) return true;
    if (patience_ <= 0) return false;
    --patience_;
    const timespec nap{0, 100'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

// Returns false if the writer goes on after all.
template <typename Copy, typename Mend>
[[gnu::noinline]] bool Snapshot::ReadUnfinished(const HalfWord& seq, Copy& copy, Mend& mend) const {
  const uint32_t before = seq.load(kAcquire);
  if ((before & 1) == 0) return false;
  (void)copy();
  if (seq.load(kRelaxed) != before) return false;
  mend();
  NoteRepaired(&seq);
  return true;
}

// Loads each word whole; the caller knows whether they belong together.
template <size_t N>
void LoadWords(const Word (&from)[N], uint64_t (&to)[N]) {
  for (size_t i = 0; i < N; ++i) to[i] = from[i].load(kAcquire);
}

// Shows the rows of all existing elements. A row that stays torn is left out and counted. `read`: Found(const Snapshot*, uint32_t index,
// Row* row), which sets all of a row that it has found.
template <typename T, typename Row, typename Read>
void Snapshot::ForEachSlot(const ArrayView<T>& array, Read read, const std::function<void(const Row&)>& use) const {
  if (!ok_) return;
  StartWalks();
  Row row{};  // reused for all rows: its vectors keep their memory
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
