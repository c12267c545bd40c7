// record/family/statement_cells.h: the cells of digests, programs and prepared statements, one for each thread.
//
// Threads: the calling thread's own, inside a probe.
//
// Each such object has a list of cells, one for each thread that counts for it. Cells stay in the list of their slot
// permanently. The object's `generation` (odd while the object is live, + 2 when a TRUNCATE empties it) says which
// numbers count. A thread writes with the generation that it found. If that generation has ended since, its numbers
// count nowhere. A probe finds a digest without a lock, by its key and a byte comparison; only the first statement of
// a digest takes the cold lock. A thread that acquires the word that guards a sample replaces the sample; a thread
// that does not leaves the sample as it is.
#pragma once

#include <bit>

#include "base/histogram.h"
#include "record/probe/nested.h"

namespace perfschema {

// The statistics of one execution of a statement.
struct StatementNumbers {
  Measured time;
  uint32_t bucket;                           // of the time; 0 if there is none
  uint32_t set;                              // bit i: counters[i] has a value
  const uint64_t* counters;                  // those of the statement
  uint64_t controlled_memory, total_memory;  // peaks of the memory in use
  uint64_t secondary;
};

// Counters that a cell of an object holds itself; the others are in its rest.
inline constexpr uint32_t kOwnCounters = (1u << (kOwnWords - kCounterWords)) - 1;

inline void RaiseTo(Word& word, uint64_t value) {
  if (value > word.load(kRelaxed)) word.store(value, kRelease);
}
PFS_ALWAYS_INLINE void AddCountersOf(uint32_t set, const StatementNumbers& numbers, Word* words) {
  for (; set != 0; set &= set - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(set));
    Word& word = words[i];
    if (numbers.counters[i] != 0) word.store(word.load(kRelaxed) + numbers.counters[i], kRelease);
  }
}

// Adds all but the time. REQUIRES: a CellWriter of the cell, which has at least the columns of kStatement.
inline void AddCounters(ShmCell& cell, const StatementNumbers& numbers) {
  Word* const words = CellWords(cell);
  RaiseTo(words[kControlledMemoryWord], numbers.controlled_memory);
  RaiseTo(words[kTotalMemoryWord], numbers.total_memory);
  AddCountersOf(numbers.set, numbers, words + kCounterWords);
  if (numbers.secondary != 0) words[kSecondaryWord].store(words[kSecondaryWord].load(kRelaxed) + numbers.secondary, kRelease);
}

PFS_ALWAYS_INLINE void AddStatement(ShmCell& cell, const StatementNumbers& numbers) {
  AddToStat(cell.stat, numbers.time.timed, numbers.time.wait_ps);
  AddCounters(cell, numbers);
}

// Returns the rest of a cell, or nullptr.
inline ShmStatementRest* RestOf(const ShmStatementCell& cell) {
  const uint32_t rest = cell.rest.load(kRelaxed);
  return rest == 0 ? nullptr : &g_runtime.statement_rests[rest];
}
// Returns whether a statement may have numbers for the rest of a cell, and whether they are other than 0.
inline bool MayNeedRest(const StatementNumbers& numbers) { return (numbers.set & ~kOwnCounters) != 0 || numbers.secondary != 0; }
[[gnu::cold]] bool HasNumbersForRest(const StatementNumbers& numbers);
inline bool NeedsRest(const StatementNumbers& numbers) { return __builtin_expect(MayNeedRest(numbers), 0) && HasNumbersForRest(numbers); }
// Adds to the rest of a cell, if it has one. REQUIRES: a CellWriter.
void AddToRest(const ShmStatementCell& cell, const StatementNumbers& numbers);

// Adds all but the time. REQUIRES: a CellWriter, and the cell of AddToObject() with NeedsRest().
inline void AddCounters(ShmStatementCell& cell, const StatementNumbers& numbers) {
  Word* const words = CellWords(AsCell(cell));
  RaiseTo(words[kControlledMemoryWord], numbers.controlled_memory);
  RaiseTo(words[kTotalMemoryWord], numbers.total_memory);
  AddCountersOf(numbers.set & kOwnCounters, numbers, words + kCounterWords);
  if (__builtin_expect(MayNeedRest(numbers), 0)) AddToRest(cell, numbers);
}
inline void AddStatement(ShmStatementCell& cell, const StatementNumbers& numbers) {
  AddToStat(cell.stat, numbers.time.timed, numbers.time.wait_ps);
  AddCounters(cell, numbers);
}

inline auto& StatementCellEntry(ThreadState& thread, const ShmStatementObject& object) {
  return thread.statement_cells[(reinterpret_cast<uintptr_t>(&object) / 64) % ThreadState::kStatementCellEntries];
}
// Returns the calling thread's cell of an object that its entry does not have: see FindStatementCell.
[[gnu::noinline]] ShmStatementCell* SearchStatementCell(ThreadState& thread, ShmStatementObject& object);
// Returns the calling thread's cell of an object; `object` is its address in the segment. nullptr: the segment is
// full, counted as lost. The first call is cold. Preserves errno.
inline ShmStatementCell* FindStatementCell(ThreadState& thread, ShmStatementObject& object) {
  // Cells stay in their list, and change owners only after the owner has ended. So a cached cell of this thread is
  // still this object's.
  const auto& entry = StatementCellEntry(thread, object);
  if (__builtin_expect(entry.object == &object && entry.cell->owner.load(kRelaxed) == thread.slot, 1)) return entry.cell;
  return SearchStatementCell(thread, object);
}
// Gives a cell of the calling thread a rest, unless the segment is full, which counts as lost. Preserves errno.
void MakeRest(ShmStatementCell& cell);
// Clears all numbers. REQUIRES: a CellWriter.
void ClearNumbers(ShmStatementCell& cell);

// Calls add(cell) with the thread's cell of the object. `generation` is the object's generation when it was found
// live. `needs_rest`: the cell must have a rest, if there is memory for it.
template <typename Add>
PFS_ALWAYS_INLINE void AddToObject(ThreadState& thread, ShmStatementObject& object, uint32_t generation, bool needs_rest, Add add) {
  ShmStatementCell* const cell = FindStatementCell(thread, object);
  if (cell == nullptr) return;
  if (__builtin_expect(needs_rest, 0) && cell->rest.load(kRelaxed) == 0) MakeRest(*cell);
  const CellWriter writer(cell->seq);
  StartGeneration(cell->gen, generation, [&] { ClearNumbers(*cell); });
  add(*cell);
}

// Forgets all cells of the parent in a forked child. REQUIRES: cold lock.
void ForgetStatementCells();

}  // namespace perfschema
