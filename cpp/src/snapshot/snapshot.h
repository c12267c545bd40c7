// snapshot/snapshot.h: the only reader of shared memory. Slots of a segment become plain rows.
//
// It works on one's own segment and on any file: all bytes are untrusted, indices are checked, loops are bounded, lengths are clamped. A
// row that stays torn after bounded retries is left out and counted, never shown. If its writer died or was stopped in the middle of it,
// the row is shown as the writer left it, and counted as repaired. Nothing here stores to the segment.
//
// A Snapshot is the mapping, the patience of a reading, and the store of its texts. A kind of rows is functions that take a Snapshot:
//   state.h     the header                  threads.h  threads                         program_tables.h  tables, handles, metadata locks
//   rules.h     setup tables                sums.h     sums of threads and accounts    program.h         rows that the program declared
//   objects.h   objects, totals of classes  events.h   the views of events             digests.h         objects of statements
#pragma once

#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/number_map.h"
#include "shm/segment.h"
#include "snapshot/class_row.h"
#include "snapshot/pool_view.h"

namespace perfschema {

// Threads: external lock. Valid as long as the mapping.
class Snapshot {
 public:
  // Runs a function while no object can be made or destroyed; false = impossible. Only one's own segment has it: it is the last resort
  // for totals of a class whose objects die faster than they can be added up.
  using Quiesce = std::function<bool(const std::function<void()>&)>;

  // `facts`: holds the rows that the program declared while `view` is not ok().
  explicit Snapshot(const SegmentView& view, Quiesce quiesce = {}, const SegmentView& facts = {});
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  bool ok() const { return ok_; }  // false: no segment; every list is empty
  const SegmentView& view() const { return view_; }
  const ShmHeader& header() const { return view_.header(); }  // REQUIRES: ok(), for this one and the next two
  int64_t option(OptionId id) const { return static_cast<int64_t>(header().options[static_cast<uint32_t>(id)]); }
  uint32_t Reset(ResetDomain domain) const { return header().resets[domain].load(kAcquire); }  // pairs with BumpResets
  // Returns the elements that existed when the snapshot was made.
  template <ArrayId kId>
  const auto& array() const {
    return std::get<static_cast<size_t>(kId)>(arrays_);
  }
  const PoolView& pool(Kind kind) const { return pools_[static_cast<uint32_t>(kind)]; }

  // Instruments: families in their order, each as registered.
  std::span<const ClassRow> classes() const { return classes_; }
  const std::vector<const ClassRow*>& ClassesOf(Kind kind) const { return classes_of_[static_cast<uint32_t>(kind)]; }
  uint64_t MostClasses() const { return class_at_.size(); }  // indices are less
  const ClassRow* ClassAt(uint64_t index) const { return index < class_at_.size() ? class_at_[index] : nullptr; }

  // ---- Texts, which stay valid as long as this Snapshot.
  std::string_view Keep(std::string_view text) const;
  template <size_t N>
  std::string_view KeepWords(const uint64_t (&words)[N]) const {  // zero padded
    const char* text = reinterpret_cast<const char*>(words);
    return Keep({text, strnlen(text, sizeof words)});
  }
  // Copies the name that begins at `granule`, if the granule is still of generation `version`.
  bool CopyName(uint32_t granule, uint32_t version, std::string_view* name) const;
  // Does the same for a name that is read once: it is not searched among the names copied before.
  bool CopyNewName(uint32_t granule, uint32_t version, std::string_view* name) const;
  std::optional<Text<64>> SourceText(uint64_t index) const;  // SOURCE of a call site, nullopt if it has none
  std::vector<char>& buffer() const { return buffer_; }      // for one text at a time

  // ---- Retries, and what they leave out.
  uint64_t skipped() const { return skipped_; }           // rows left out because they stayed torn
  uint64_t repaired() const { return repaired_.size(); }  // rows, and parts of sums, shown as a dead or stopped writer left them
  void CountSkipped() const { ++skipped_; }
  void NoteLeftOut(const void* what) const { skipped_ += left_out_.insert(what).second ? 1 : 0; }  // once, however often it is met
  // Runs ReadWhole with patience: a writer that was descheduled inside a section goes on within milliseconds. One that died there never
  // does. So the naps are counted over the whole Snapshot, and a damaged file costs milliseconds, not minutes. If the writer rests
  // (WriterRests), the copy is taken as the writer left it, mend() repairs it as far as possible, and the row counts as repaired. Returns
  // false if the copy is torn; the caller counts the row.
  template <typename Copy, typename Mend>
  bool TryRead(const HalfWord& seq, Copy copy, Mend mend) const;
  template <typename Copy>
  bool TryRead(const HalfWord& seq, Copy copy) const {
    return TryRead(seq, copy, [] {});
  }
  // Calls read() until it returns true: nothing moved meanwhile. It does so with naps, then while `quiesce` keeps writers out, then as
  // a dead writer left it. Returns whether it did.
  enum class Quiet { kMayQuiesce, kNever };
  bool ReadSettled(const std::function<bool()>& read, Quiet quiet = Quiet::kMayQuiesce) const;
  // Returns whether no thread can complete the section of `seq` any more. One's own segment: never. If the state is unknown: when
  // patience is at its end.
  bool WriterRests() const;
  // Returns whether the section of `seq`, which was `value`, is open and its writer still runs. If the writer rests, the section is noted
  // as repaired.
  bool IsUnderWay(const HalfWord& seq, uint32_t value) const;
  // Returns whether there is time to read again a row that changed. Another process's segment may never be still.
  bool MayTryAgain() const;
  // Bounds walks along lists, because a damaged list may be a circle: a pass over them starts, and takes a step for each element.
  void StartWalks() const;
  bool TakeStep() const { return steps_left_ != 0 && steps_left_-- != 0; }  // false: the pass has had its steps

 private:
  template <typename Copy, typename Mend>
  bool ReadUnfinished(const HalfWord& seq, Copy& copy, Mend& mend) const;
  void LoadClasses();

  SegmentView view_;
  Quiesce quiesce_;
  bool ok_ = false;
#define X(name, type) ArrayView<type>,
  std::tuple<PFS_FOR_EACH_ARRAY(X) char> arrays_;  // the char ends the list
#undef X
  PoolView pools_[kEventKinds];
  std::vector<ClassRow> classes_;
  std::vector<const ClassRow*> class_at_;  // by index of the ShmClass; nullptr = not there
  std::vector<const ClassRow*> classes_of_[kKindCount];

  // Costs and caches of reading; no part of the observable state.
  mutable uint64_t skipped_ = 0;
  mutable std::unordered_set<const void*> repaired_, left_out_;
  mutable bool rests_ = false;  // known so far
  mutable bool has_asked_ = false, is_unknown_ = false;
  mutable int patience_ = 100;  // remaining naps for cells whose writer does not go on
  mutable uint64_t steps_left_ = 0;
  mutable uint64_t first_retry_ns_ = 0;
  mutable std::vector<char> buffer_;
  mutable std::vector<std::unique_ptr<char[]>> blocks_;
  mutable char* free_begin_ = nullptr;
  mutable size_t free_bytes_ = 0;
  mutable NumberMap<std::string_view> names_seen_;  // granule << 32 | version, which is even
};

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
  repaired_.insert(&seq);
  return true;
}

}  // namespace perfschema
