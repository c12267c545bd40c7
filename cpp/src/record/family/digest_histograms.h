// record/family/digest_histograms.h: counts the times of a digest's statements, in memory for the buckets that they use.
//
// A histogram has 450 buckets, and most statements always need about the same time. So a digest has blocks of seven buckets each
// (ShmHistogramBlock), made by the first statement that needs one, under the cold lock. Every other statement finds its block through one
// word of the digest, without a lock, and adds by compare-exchange, as to the histogram of all statements (histograms.h).
//
// All histograms of digests have one generation. A TRUNCATE of digests, or of their histograms, bumps it, and no more: from then on
// every list of blocks, every block and every count is of an old one, and all blocks may be given out again. A digest whose
// histogram_generation is old has no blocks. A statement that began before the TRUNCATE may follow a list while it changes, and add to a
// block that another digest has got: its count has the old generation, so nobody reads it, and it replaces no newer one.
//
// Threads: the calling thread's own, inside a probe.
#pragma once

#include "record/family/histograms.h"

namespace perfschema {

// Returns the bucket of a digest, or nullptr if it has no block for it in this generation.
inline Word* FindBucket(const ShmDigest& digest, [[maybe_unused]] uint32_t generation, uint32_t bucket) {
  const uint32_t group = GroupOf(bucket);
#if !defined(PFS_BREAK_BLOCKS)  // negative control of the stress test: follows lists of blocks that other digests may have
  if (__builtin_expect(digest.histogram_generation.load(kAcquire) != generation, 0)) return nullptr;  // pairs with MakeBucket
#endif
  for (uint32_t at = digest.blocks[BlockListOf(group)].load(kAcquire); at != 0;) {  // pairs with MakeBucket
    ShmHistogramBlock& block = g_runtime.histogram_blocks[at];
    if (__builtin_expect(block.group.load(kRelaxed) == group, 1)) return &block.counts[bucket - group * kBucketsInBlock];
    at = block.next.load(kAcquire);
  }
  return nullptr;
}

// Returns the bucket, in a new block if there is none. nullptr: the histogram was emptied since `generation`, or the segment is full,
// which counts as lost. Preserves errno.
[[gnu::noinline]] Word* MakeBucket(ShmDigest& digest, uint32_t generation, uint32_t bucket);

// Adds one duration. Adds nothing if the histograms were emptied since `generation`. Any thread.
inline void CountInDigestHistogram(ShmDigest& digest, uint32_t generation, uint32_t bucket) {
  Word* found = FindBucket(digest, generation, bucket);
  if (__builtin_expect(found == nullptr, 0)) found = MakeBucket(digest, generation, bucket);
  if (__builtin_expect(found != nullptr, 1)) AddToBucket(*found, generation);
}

// TRUNCATE of the histograms of all digests. REQUIRES: cold lock.
void EmptyDigestHistograms();
// Forgets all blocks of the parent in a forked child. REQUIRES: cold lock.
void ForgetDigestHistogramsInChild();

}  // namespace perfschema
