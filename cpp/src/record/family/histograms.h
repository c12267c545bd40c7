// record/family/histograms.h: counts the times of statements in histograms.
//
// Threads: the calling thread's own, inside a probe.
//
// A word of a histogram holds generation and count, so a TRUNCATE, which changes the generation, need not clear it. Any
// thread changes it by compare-exchange. If two threads change words of one line in turns, the line goes back and forth
// between their processors, which can take longer than the rest of a statement (lab/pages/scaling.md). So the histogram of
// all statements is a sum of 256 parts. A thread slot chooses the next part when it times its first statement, and the
// slot's later threads go on with it. The first part lies in the header; another one gets memory when a slot chooses
// it. Without memory, or without the cold lock, a statement counts in the header's part: none is lost.
//
// A statement loads the generation once and counts for it: in the epoch of the last TRUNCATE that took effect before
// the load, whichever part it is in. If that epoch has ended when the count is stored, nobody reads the count, and it
// does not replace a word of a later epoch.
#pragma once

#include "base/histogram.h"
#include "record/context/threads.h"

namespace perfschema {

// Adds one duration to its bucket. Adds nothing if the histogram was emptied since `generation`. Any thread.
inline void AddToBucket(Word& bucket, uint32_t generation) {
  uint64_t word = bucket.load(kRelaxed);
#if defined(PFS_BREAK_HISTOGRAMS)  // negative control of the stress test: no other thread's count between load and store is noticed
  for (int i = 0; i < 100; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);  // the time between them
  return bucket.store(BucketTag(generation) | (CountInBucket(word, generation) + 1), kRelease);
#endif
  const uint64_t tag = BucketTag(generation);
  uint64_t next;
  do {
    next = word + 1;
    const uint64_t ahead = word - tag;  // generations in its upper bits
    if (__builtin_expect(ahead >> kBucketCountBits == 0, 1)) continue;
    if (static_cast<int64_t>(ahead) > 0) return;  // the word is of a later generation: our statement ended before that TRUNCATE
    next = tag + 1;
  } while (!bucket.compare_exchange_weak(word, next, kRelease, kRelaxed));
}

// Returns the part that the thread's statements count in from now on, or one for this time. Preserves errno.
[[gnu::noinline]] Buckets& ChooseHistogramPart(ThreadState& thread);

// Adds one duration to the histogram of all statements.
inline void CountInHistogram(ThreadState& thread, uint32_t its_bucket) {
  const uint32_t generation = g_runtime.header->histogram_generation.load(kAcquire);  // pairs with EmptyHistogram
  Buckets& part = __builtin_expect(thread.histogram != nullptr, 1) ? *thread.histogram : ChooseHistogramPart(thread);
  AddToBucket(part[its_bucket], generation);
}

// TRUNCATE of events_statements_histogram_global. REQUIRES: cold lock.
void EmptyHistogram();
// Forgets all parts of the parent in a forked child. REQUIRES: cold lock.
void ForgetHistogramsInChild();

}  // namespace perfschema
