#include "record/family/digest_histograms.h"

#include <cerrno>

namespace perfschema {
namespace {

// Blocks [1, next_block) belong to digests of this generation. Guarded by the cold lock.
uint32_t next_block = 1, blocks_generation = 0;

// Returns the index of a block that no digest of this generation has; 0: the segment is full. REQUIRES: cold lock.
uint32_t TakeBlock(uint32_t generation) {
  if (blocks_generation != generation) {
    blocks_generation = generation;
    next_block = 1;
  }
  if (next_block < g_runtime.segment.array(ArrayId::kHistogramBlocks).used.load(kRelaxed)) return next_block++;
  if (g_runtime.segment.AllocateFresh(ArrayId::kHistogramBlocks) < 0) return 0;
  return next_block++;
}

// REQUIRES: cold lock.
Word* MakeBucketLocked(ShmDigest& digest, uint32_t generation, uint32_t bucket) {
  if (g_runtime.header->digest_histogram_generation.load(kRelaxed) != generation) return nullptr;
  if (digest.histogram_generation.load(kRelaxed) != generation) {
    for (HalfWord& list : digest.blocks) list.store(0, kRelaxed);
    digest.histogram_generation.store(generation, kRelease);  // pairs with FindBucket and Snapshot
  }
  if (Word* const found = FindBucket(digest, generation, bucket); found != nullptr) return found;
  const uint32_t index = TakeBlock(generation);
  if (index == 0) {
    CountLoss(Loss::kStatistics);
    return nullptr;
  }
  const uint32_t group = GroupOf(bucket);
  ShmHistogramBlock& block = g_runtime.histogram_blocks[index];
  HalfWord& list = digest.blocks[BlockListOf(group)];
  block.group.store(group, kRelaxed);
  block.next.store(list.load(kRelaxed), kRelaxed);
  list.store(index, kRelease);  // pairs with FindBucket and Snapshot
  return &block.counts[bucket - group * kBucketsInBlock];
}

}  // namespace

Word* MakeBucket(ShmDigest& digest, uint32_t generation, uint32_t bucket) {
  const int error = errno;
  Word* made = nullptr;
  if (const ColdLock lock; lock) {
    made = MakeBucketLocked(digest, generation, bucket);
  } else {
    CountLoss(Loss::kStatistics);
  }
  errno = error;
  return made;
}

void EmptyDigestHistograms() { g_runtime.header->digest_histogram_generation.fetch_add(1); }  // pairs with CountDigest and Snapshot

void ForgetDigestHistogramsInChild() {
  next_block = 1;
  blocks_generation = 0;
}

}  // namespace perfschema
