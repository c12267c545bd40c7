// snapshot/snapshot.h: the only reader of shared memory. Slots of a segment become plain rows (rows.h).
//
// It works on one's own segment and on any file: all bytes are untrusted, indices are checked, loops are bounded, lengths are clamped. A
// row that stays torn after bounded retries is left out and counted, never shown. If its writer died or was stopped in the middle of it,
// the row is shown as the writer left it, and counted as repaired. Nothing here stores to the segment.
//   snapshot.cpp  instruments, names, actors      stats.cpp    objects, totals of classes
//   events.h      the views of events             principals.cpp  threads, accounts, users, hosts and their sums
//   program.cpp   rows that the program declared  holds.cpp    how long locks were held
//   tables.cpp    tables, handles, metadata locks, setup_objects
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/number_map.h"
#include "shm/segment.h"
#include "snapshot/pool_view.h"
#include "snapshot/rows.h"
#include "snapshot/traced.h"

namespace perfschema {

struct ChunkHead;
struct EventHead;

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

  bool ok() const { return ok_; }                             // false: no segment; every list is empty
  const ShmHeader& header() const { return view_.header(); }  // REQUIRES: ok()
  uint64_t skipped() const { return skipped_; }               // rows left out because they stayed torn
  uint64_t repaired() const { return repaired_.size(); }      // rows, and parts of sums, shown as a dead or stopped writer left them
  int64_t option(OptionId id) const { return static_cast<int64_t>(header().options[static_cast<uint32_t>(id)]); }  // REQUIRES: ok()
  uint64_t loss(Loss id) const;      // REQUIRES: ok(); another process's segment: with the losses of its reader
  uint64_t repaired_so_far() const;  // counts of the readers of another process's segment, before this snapshot
  bool is_enabled(Consumer id) const { return header().consumers[static_cast<uint32_t>(id)].load(kRelaxed) != 0; }  // REQUIRES: ok()
  TimerId timer_of(TimedClass id) const;                                                                            // REQUIRES: ok()
  std::string_view status_reason() const;  // REQUIRES: ok(); empty = no problem
  std::string_view trace_status() const;   // REQUIRES: ok(); the last error of the trace
  std::string_view timer_reason() const;   // REQUIRES: ok()
  std::vector<ArrayRow> Arrays() const;

  // Instruments: families in their order, each as registered.
  std::span<const ClassRow> classes() const { return classes_; }
  std::vector<ThreadRow> Threads() const;
  bool ThreadAt(uint32_t slot, ThreadRow* row) const { return ok_ && ReadThread(slot, row); }  // false: no thread has the slot
  void ForEachActor(const std::function<void(const ActorRow&)>& use) const;
  std::vector<InstrumentRuleRow> InstrumentRules() const;  // oldest first

  void ForEachInstance(const std::function<void(const InstanceRow&)>& use) const;
  // Shows how long locks were held: of each live object, and of each instrument, those with a hold that has ended.
  void ForEachHold(const std::function<void(const HoldRow&)>& use) const;
  void ForEachHoldTotal(const std::function<void(const HoldRow&)>& use) const;
  uint64_t MostInstances() const { return instances_.used(); }
  // Files and sockets. The caller wants their numbers (kFileNumbers), their names (kFileName), or both; the rest is empty.
  static constexpr uint32_t kFileNumbers = 1, kFileName = 2;
  uint64_t MostFiles() const { return files_.used(); }
  uint64_t CountFiles(Family family) const;  // approximate
  void ForEachFile(uint32_t wanted, const std::function<void(const FileRow&)>& use) const;
  // Tables that setup_objects enables, and their handles. The caller wants numbers of rows (kTableRows), of locks (kTableLocks), or both;
  // the rest is empty.
  static constexpr uint32_t kTableRows = 1, kTableLocks = 2;
  void ForEachTable(uint32_t wanted, const std::function<void(const TableRow&)>& use) const;
  uint64_t MostTables() const { return tables_.used(); }
  uint64_t MostIndexes() const { return indexes_.used(); }
  void ForEachTableHandle(const std::function<void(const TableHandleRow&)>& use) const;
  void ForEachMetadataLock(const std::function<void(const MetadataLockRow&)>& use) const;
  void ForEachObjectRule(const std::function<void(const ObjectRuleRow&)>& use) const;
  // REQUIRES: not Level::kThread.
  void ForEachPrincipal(Level level, const std::function<void(const PrincipalRow&)>& use) const;
  // Shows every member of a level (live thread, principal, or all together) x every instrument of a kind, used or not: the counts of the
  // member, and those below it. REQUIRES: not waits of Level::kGlobal, which are ForEachClassTotal.
  void ForEachSum(Kind kind, Level level, const std::function<void(const SumRow&)>& use) const;
  // Does the same for memory. For Level::kGlobal it includes the instruments of pfs itself: the memory of its arrays.
  void ForEachMemory(Level level, const std::function<void(const MemoryRow&)>& use) const;
  // Shows every wait instrument, used or not.
  void ForEachClassTotal(const std::function<void(const ClassTotalRow&)>& use) const;

  // The views of events: kViewCurrent, kViewHistory, kViewHistoryLong. The last one says how many rows there are before it gives the
  // first.
  using Expect = std::function<void(uint64_t rows)>;
  void ForEachWait(uint32_t view, const std::function<void(const WaitRow&)>& use, const Expect& expect = {}) const;
  void ForEachStage(uint32_t view, const std::function<void(const StageRow&)>& use, const Expect& expect = {}) const;
  void ForEachStatement(uint32_t view, const std::function<void(const StatementRow&)>& use, const Expect& expect = {}) const;
  void ForEachTransaction(uint32_t view, const std::function<void(const TransactionRow&)>& use, const Expect& expect = {}) const;
  void ForEachDigest(const std::function<void(const DigestRow&)>& use) const;
  void ForEachProgram(const std::function<void(const ProgramRow&)>& use) const;
  void ForEachPrepared(const std::function<void(const PreparedRow&)>& use) const;
  Histogram StatementHistogram() const;  // of all statements that were timed
  // Shows what is new in the records of traced events since the last call with this cursor (snapshot/traced.h). The rows are of the kinds
  // above.
  void ForEachTracedWait(TraceCursor* cursor, const TraceUse& use) const;
  void ForEachTracedStage(TraceCursor* cursor, const TraceUse& use) const;
  void ForEachTracedStatement(TraceCursor* cursor, const TraceUse& use) const;
  void ForEachTracedTransaction(TraceCursor* cursor, const TraceUse& use) const;

  // Shows rows that the program declared.
  void ForEachFact(FactKind kind, const std::function<void(const FactRow&)>& use) const;
  void ForEachLogEvent(const std::function<void(const LogRow&)>& use) const;  // oldest first
  void ForEachStep(const std::function<void(const StepRow&)>& use) const;     // oldest first
  // REQUIRES: ok(), for both.
  const ShmGovernor& governor() const { return header().governor; }
  const ShmDeclared& program() const { return header().program; }

  // Copies a text, which then stays valid as long as this Snapshot.
  std::string_view Keep(std::string_view text) const;

 private:
  struct Totals;

  template <typename Copy, typename Mend>
  bool TryRead(const HalfWord& seq, Copy copy, Mend mend) const;
  template <typename Copy>
  bool TryRead(const HalfWord& seq, Copy copy) const {
    return TryRead(seq, copy, [] {});
  }
  template <typename Copy, typename Mend>
  bool ReadUnfinished(const HalfWord& seq, Copy& copy, Mend& mend) const;
  // Returns whether no thread can complete the section of `seq` any more. One's own segment: never. If the state is unknown: when
  // patience is at its end.
  bool WriterRests() const;
  // Returns whether the section of `seq`, which was `value`, is open and its writer still runs. If the writer rests, the section is noted
  // as repaired.
  bool IsUnderWay(const HalfWord& seq, uint32_t value) const;
  // Returns, after all attempts have failed, whether one more makes sense that accepts a half-written row.
  bool GiveUpWaiting() const {
    patience_ = 0;
    return WriterRests();
  }
  // Calls read() until it returns true: nothing moved meanwhile. It does so with naps, then while `quiesce` keeps writers out, then as
  // a dead writer left it. Returns whether it did.
  enum class Quiet { kMayQuiesce, kNever };
  bool ReadSettled(const std::function<bool()>& read, Quiet quiet = Quiet::kMayQuiesce) const;
  void NoteRepaired(const void* what) const { repaired_.insert(what); }
  void NoteLeftOut(const void* what) const { skipped_ += left_out_.insert(what).second ? 1 : 0; }  // once, however often it is met

  // snapshot.cpp
  void LoadClasses();
  const ClassRow* ClassAt(uint64_t index) const { return index < class_at_.size() ? class_at_[index] : nullptr; }
  template <size_t N>
  std::string_view KeepWords(const uint64_t (&words)[N]) const {  // zero padded
    const char* text = reinterpret_cast<const char*>(words);
    return Keep({text, strnlen(text, sizeof words)});
  }
  bool CopyName(uint32_t granule, uint32_t version, std::string_view* name) const;
  bool CopyNewName(uint32_t granule, uint32_t version, std::string_view* name) const;
  std::optional<Text<64>> SourceText(uint64_t index) const;

  // Returns whether there is time to read again a row that changed. Another process's segment may never be still.
  bool MayTryAgain() const;
  // Bounds how many members x instruments are read. One's own segment has no bound.
  uint64_t MostReads() const { return view_.file() == nullptr ? ~uint64_t{0} : uint64_t{1} << 24; }
  // Bounds how many rows they may have: as many as the segment has words. Of members beyond that, instruments without counts are left
  // out: all others have memory in the file, which bounds them.
  uint64_t MostSums(Kind kind) const;
  void StartWalks() const { steps_left_ = 4 * (cells_.used() + statement_cells_.used() + indexes_.used()) + 1'000'000; }

  // stats.cpp
  uint32_t Reset(ResetDomain domain) const { return header().resets[domain].load(kAcquire); }  // pairs with BumpResets
  // Returns which cells of objects count for their class.
  Generations OfClass(Family family, uint32_t now) const { return perfschema::OfClass(now, Reset(KeptSince(FactsOf(family).group))); }
  bool AddCell(const ShmCell& cell, Generations counting, Stat* sum, uint64_t* moved) const;
  bool AddLane(uint32_t first, Generations counting, Stat* sum, uint64_t* moved, uint64_t* held = nullptr) const;
  template <typename List, uint32_t kCount>
  bool AddLanes(const List (&lists)[kCount], Generations counting, LanesOf<kCount>* sum) const;
  static constexpr uint64_t kAhead = 16;  // objects whose parts are on their way while one is read
  template <size_t kCount>
  void PrefetchCells(const ShmCellList (&lists)[kCount]) const {
    for (const ShmCellList& list : lists) {
      if (const uint32_t head = HeadOf(list); head != 0) __builtin_prefetch(cells_.at(head));
    }
  }
  enum class Found { kFree, kRead, kTorn };
  Found ReadInstance(uint32_t index, uint32_t gen, InstanceRow* row, bool of_any_generation) const;
  Found ReadFileStat(uint32_t index, uint32_t wanted, FileRow* row) const;
  bool ReadFileName(uint32_t index, FileRow* row) const;
  void PrefetchFile(uint64_t index, uint32_t wanted) const;
  void AddUpClasses(Totals* totals) const;
  void AddObjects(const Totals& totals, Totals* pass) const;

  // holds.cpp
  struct Holds;
  bool ReadHold(const ShmHold& shm, Holds* holds) const;
  bool AddUpHolds(std::vector<Holds>* sums) const;
  HoldRow RowOf(const ClassRow* instrument, uint64_t identity, const Holds& holds) const;

  // tables.cpp
  Found ReadTable(uint32_t index, uint32_t wanted, TableRow* row) const;
  void PrefetchTable(uint64_t index, uint32_t wanted) const;
  Found ReadTableHandle(uint32_t index, TableHandleRow* row) const;
  Found ReadMetadataLock(uint32_t index, MetadataLockRow* row) const;
  Found ReadObjectRule(uint32_t index, ObjectRuleRow* row) const;
  template <typename T, typename Row, typename Read>
  void ForEachSlot(const ArrayView<T>& array, Read read, const std::function<void(const Row&)>& use) const;

  // principals.cpp
  bool ReadThread(uint32_t slot, ThreadRow* row) const;
  struct Principal;
  struct PrincipalSums;
  bool ReadPrincipal(Level level, uint32_t index, Principal* principal) const;
  std::vector<Principal> Principals(Level level) const;
  struct RowSums;
  void AddRow(Kind kind, Level level, uint64_t index, uint64_t readable, uint32_t since, RowSums* sums, bool* torn) const;
  void AddUpPrincipals(Kind kind, Level level, PrincipalSums* wanted) const;
  void ForEachThreadSum(Kind kind, const std::function<void(const SumRow&)>& use) const;
  uint32_t Since(Kind kind, Level level) const {
    return header().EpochsOf(kind).since[static_cast<uint32_t>(level)].load(kAcquire);
  }  // pairs with TruncateLevel

  // digests.cpp
  bool AddUpStatements(const ShmStatementObject& object, uint32_t generation, Numbers* sum) const;
  template <typename AddUp>
  Histogram ReadHistogram(const HalfWord& generation, AddUp add_up) const;
  DigestRow DescribeTokens(std::string_view tokens) const;  // digest and text only
  // `name`: granule << 32 | version of "SCHEMA\0NAME". Nothing is set if the name is gone.
  void DescribeProgram(uint64_t type, uint64_t name, std::optional<Text<64>>* shown_type, std::optional<Text<64>>* schema,
                       std::optional<Text<64>>* shown_name) const;
  void AddBlocks(const ShmDigest& digest, uint32_t generation, Histogram* sum) const;
  void CopyDigestText(uint32_t first, uint64_t bytes, std::vector<char>* to) const;
  Found ReadDigest(uint32_t index, DigestRow* row) const;
  Found ReadProgram(uint32_t index, ProgramRow* row) const;
  Found ReadPrepared(uint32_t index, PreparedRow* row) const;

  // memory.cpp
  struct MemorySums;
  void ReadMemory(Level level, MemorySums* sums) const;

  // events.cpp; the differences between the kinds: waits.cpp, stages.cpp, statements.cpp, transactions.cpp
  std::vector<ChunkHead> ScanChunks(Kind kind) const;
  // Returns the youngest event of any kind but one, by THREAD_ID; approximate.
  std::unordered_map<uint64_t, uint64_t> NewestEventIds(Kind but) const;
  void FillRow(const EventHead& head, const ClassRow& instrument, EventRow* row) const;  // REQUIRES: *row is EventRow{}
  template <typename Event>
  friend class EventReader;
  friend struct WaitEvent;
  friend struct StageEvent;
  friend struct StatementEvent;
  friend struct TransactionEvent;

  SegmentView view_;
  Quiesce quiesce_;
  bool ok_ = false;
  ArrayView<ShmThread> threads_;
  ArrayView<ShmThreadTexts> thread_texts_;
  ArrayView<ShmCell> rows_[kLevelCount];  // cells by thread, account, user, host, all; the member says what may be read
  ArrayView<ShmPrincipal> principals_[kLevelCount];
  ArrayView<ShmActor> actors_;
  ArrayView<ShmInstrumentRule> instrument_rules_;
  ArrayView<ShmInstance> instances_;
  ArrayView<ShmInstanceList> instance_lists_;
  ArrayView<ShmHold> holds_, hold_totals_;
  ArrayView<ShmFile> files_;
  ArrayView<ShmTable> tables_;
  ArrayView<ShmIndex> indexes_;
  ArrayView<ShmTableHandle> table_handles_;
  ArrayView<ShmMetadataLock> metadata_locks_;
  ArrayView<ShmObjectRule> object_rules_;
  ArrayView<ShmCell> cells_;
  ArrayView<ShmRetired> retired_;
  ArrayView<ShmNameGranule> names_;
  ArrayView<ShmSource> sources_;
  ArrayView<ShmClass> class_array_;
  PoolView pools_[kEventKinds];
  ArrayView<ShmStatementCell> statement_cells_;
  ArrayView<ShmStatementRest> statement_rests_;
  ArrayView<ShmHistogramPart> histogram_parts_;
  ArrayView<ShmHistogramBlock> histogram_blocks_;
  ArrayView<ShmDigest> digests_;
  ArrayView<ShmDigestText> digest_texts_;
  ArrayView<ShmStoredProgram> programs_;
  ArrayView<ShmPrepared> prepared_;
  ArrayView<ShmFact> facts_;
  ArrayView<ShmFactBlock> fact_blocks_;
  ArrayView<ShmLogUnit> log_units_;

  std::vector<ClassRow> classes_;
  std::vector<const ClassRow*> class_at_;  // by index of the ShmClass; nullptr = not there
  std::vector<const ClassRow*> classes_of_[kKindCount];

  // Costs and caches of reading; no part of the observable state.
  mutable uint64_t skipped_ = 0;
  mutable std::unordered_set<const void*> repaired_, left_out_;
  mutable bool rests_ = false;  // known so far
  mutable bool has_asked_ = false, is_unknown_ = false;
  mutable int patience_ = 100;       // remaining naps for cells whose writer does not go on
  mutable uint64_t steps_left_ = 0;  // of walks along lists in this pass: a damaged list may be a circle
  mutable uint64_t first_retry_ns_ = 0;
  mutable uint64_t reads_left_ = 0;  // reads of cells of rows; a damaged file may claim endless members x instruments
  mutable std::vector<char> text_buffer_;
  mutable std::vector<std::unique_ptr<char[]>> blocks_;
  mutable char* free_begin_ = nullptr;
  mutable size_t free_bytes_ = 0;
  mutable NumberMap<std::string_view> names_seen_;  // granule << 32 | version, which is even
};

}  // namespace perfschema
