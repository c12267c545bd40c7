// record/family/statement_cells.h: where statements count: the cells of digests, programs and prepared statements, one for each thread, and histograms.
//
// Threads: the calling thread's own, inside a probe.
//
// Each such object has a list of cells, one for each thread that counts for it. Cells stay in the list of their slot for good. The
// object's `life` (odd while it lives, + 2 when a TRUNCATE empties it) says which numbers count: a thread writes with the life that it
// found the object in, and if that has ended since, its numbers count nowhere. A probe finds a digest without a lock, by its key and
// then byte for byte; only the first statement of a kind takes the cold lock. A word of a histogram is life and count in one, changed by
// compare-exchange, so nothing has to be cleared. A thread that acquires the word that guards a sample replaces the sample; a thread
// that does not keeps its own.
#pragma once

#include "base/histogram.h"
#include "record/probe/nested.h"

namespace perfschema {

// What one execution of a statement adds.
struct StatementNumbers {
  Measured time;
  uint64_t counters[kStatementCounters];
  uint64_t controlled_memory, total_memory;  // the most that was in use
  uint64_t secondary;
};

// All but its time. REQUIRES: a CellWriter of the cell, which has at least the columns of kStatement.
inline void AddCounters(ShmCell& cell, const StatementNumbers& numbers) {
  Word* const words = CellWords(cell);
  const auto raise = [](Word& word, uint64_t value) {
    if (value > word.load(kRelaxed)) word.store(value, kRelease);
  };
  raise(words[kControlledMemoryWord], numbers.controlled_memory);
  raise(words[kTotalMemoryWord], numbers.total_memory);
  for (uint32_t i = 0; i < kStatementCounters; ++i) {
    Word& word = words[kCounterWords + i];
    if (numbers.counters[i] != 0) word.store(word.load(kRelaxed) + numbers.counters[i], kRelease);
  }
  if (numbers.secondary != 0) words[kSecondaryWord].store(words[kSecondaryWord].load(kRelaxed) + numbers.secondary, kRelease);
}

inline void AddStatement(ShmCell& cell, const StatementNumbers& numbers) {
  AddToStat(cell.stat, numbers.time.timed, numbers.time.wait_ps);
  AddCounters(cell, numbers);
}

// The calling thread's cell of an object; `object` is its place in the segment. nullptr: no room, counted as lost. Cold the first time; preserves errno.
ShmStatementCell* FindStatementCell(ThreadState& thread, ShmStatementObject& object);

// add(cell) counts in the thread's cell of the object, as of a life of it that was found live.
template <typename Add>
inline void AddToObject(ThreadState& thread, ShmStatementObject& object, uint32_t generation, Add add) {
  ShmStatementCell* const cell = FindStatementCell(thread, object);
  if (cell == nullptr) return;
  const CellWriter writer(cell->seq);
  if (StartsGeneration(cell->gen, generation)) StoreNumbers(kObjectShape, {}, AsCell(*cell));
  add(AsCell(*cell));
}

// One duration. If the histogram was emptied since its life was `life`, nothing is added. Any thread.
inline void AddToHistogram(ShmHistogram& histogram, uint32_t generation, uint64_t wait_ps) {
  Word& bucket = histogram.buckets[BucketOf(wait_ps)];
  uint64_t word = bucket.load(kRelaxed);
  do {
    // A word of a later life than ours: our statement ended before that TRUNCATE.
    const auto ahead = static_cast<int32_t>((static_cast<uint32_t>(word >> kBucketCountBits) - generation) << 8);
    if (ahead > 0) return;
  } while (!bucket.compare_exchange_weak(word, BucketTag(generation) | (CountInBucket(word, generation) + 1), kRelease, kRelaxed));
}

// In a forked child: no cell of the parent is left. REQUIRES: cold lock.
void ForgetStatementCells();

}  // namespace perfschema
