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

// Adds all but the time. REQUIRES: a CellWriter of the cell, which has at least the columns of kStatement.
inline void AddCounters(ShmCell& cell, const StatementNumbers& numbers) {
  Word* const words = CellWords(cell);
  const auto raise = [](Word& word, uint64_t value) {
    if (value > word.load(kRelaxed)) word.store(value, kRelease);
  };
  raise(words[kControlledMemoryWord], numbers.controlled_memory);
  raise(words[kTotalMemoryWord], numbers.total_memory);
  for (uint32_t set = numbers.set; set != 0; set &= set - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(set));
    Word& word = words[kCounterWords + i];
    if (numbers.counters[i] != 0) word.store(word.load(kRelaxed) + numbers.counters[i], kRelease);
  }
  if (numbers.secondary != 0) words[kSecondaryWord].store(words[kSecondaryWord].load(kRelaxed) + numbers.secondary, kRelease);
}

inline void AddStatement(ShmCell& cell, const StatementNumbers& numbers) {
  AddToStat(cell.stat, numbers.time.timed, numbers.time.wait_ps);
  AddCounters(cell, numbers);
}

// Returns the calling thread's cell of an object; `object` is its address in the segment. nullptr: the segment is
// full, counted as lost. The first call is cold. Preserves errno.
ShmStatementCell* FindStatementCell(ThreadState& thread, ShmStatementObject& object);

// Clears all numbers. REQUIRES: a CellWriter.
[[gnu::noinline]] inline void ClearObject(ShmStatementCell& cell) { StoreNumbers(kObjectShape, {}, AsCell(cell)); }

// Calls add(cell) with the thread's cell of the object. `generation` is the object's generation when it was found
// live.
template <typename Add>
PFS_ALWAYS_INLINE void AddToObject(ThreadState& thread, ShmStatementObject& object, uint32_t generation, Add add) {
  ShmStatementCell* const cell = FindStatementCell(thread, object);
  if (cell == nullptr) return;
  const CellWriter writer(cell->seq);
  if (StartsGeneration(cell->gen, generation)) ClearObject(*cell);
  add(AsCell(*cell));
}

// Forgets all cells of the parent in a forked child. REQUIRES: cold lock.
void ForgetStatementCells();

}  // namespace perfschema
