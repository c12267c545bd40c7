// shm/statements.h: structs that statements share: digests, stored programs, prepared statements, and the histogram
// of all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/histogram.h"
#include "shm/cell.h"

namespace perfschema {

// Holds the statistics of one object as one thread has seen it: those words of kObjectShape (shapes.h) that most statements have. The
// others are in its ShmStatementRest, if it has needed one.
// Threads: the thread in slot `owner` writes, any reads.
struct alignas(64) ShmStatementCell {
  HalfWord seq, gen;  // gen: the object's generation that the numbers belong to
  HalfWord owner;     // thread slot index
  HalfWord next;      // next cell of the same object
  ShmStat stat;
  Word more[7];  // words 4 to 10
  Word first_seen, last_seen;
  HalfWord rest;  // in kStatementRests; 0 = its words are zero. Stays for good
  HalfWord unused;
};
static_assert(sizeof(ShmStatementCell) == 128);
inline constexpr uint32_t kOwnWords = 11;  // the first word that a cell does not hold itself
// Holds words 10 to 33 of a cell, of which the first is unused. The cell's seq covers them.
inline constexpr uint32_t kRestBegin = 10;
struct alignas(64) ShmStatementRest {
  Word words[24];
};
static_assert(sizeof(ShmStatementRest) == 192);

// An object that statements count for. Its cells belong to the slot and stay in its list for good; `generation`
// says which of their numbers count. A writer stores the generation that it found. If the object has died or was
// emptied since, the numbers are of an old generation and do not count.
struct ShmStatementObject {
  HalfWord generation;  // odd = live; + 1 at birth and at death, + 2 when a TRUNCATE empties it
  HalfWord cells;       // first of its list in kStatementCells
};
constexpr bool IsLive(uint32_t generation) { return (generation & 1) != 0; }

// A word of a histogram holds a count and its generation. One store changes both, so old words need not be cleared.
inline constexpr uint32_t kBucketCountBits = 40;
constexpr uint64_t BucketTag(uint32_t generation) { return static_cast<uint64_t>(generation & 0xffffffu) << kBucketCountBits; }
constexpr uint64_t CountInBucket(uint64_t word, uint32_t generation) {
  return word >> kBucketCountBits == (generation & 0xffffffu) ? word & ((uint64_t{1} << kBucketCountBits) - 1) : 0;
}
// Threads: any thread adds (compare-exchange), any reads.
using Buckets = Word[kHistogramBuckets];

// Holds adjacent buckets of a digest's histogram, those of one group: a digest has blocks for the buckets that it uses. All blocks belong
// to the digests of one generation of their histograms, ShmHeader::digest_histogram_generation. When a TRUNCATE has begun another one, all
// are free at once, and their words, which are of an old generation, count as zero.
// Threads: group and next change under the cold lock, before the block is in a list.
inline constexpr uint32_t kBucketsInBlock = 7, kBucketGroups = (kHistogramBuckets + kBucketsInBlock - 1) / kBucketsInBlock;
constexpr uint32_t GroupOf(uint32_t bucket) { return bucket * 9363 >> 16; }  // bucket / 7, which takes the compiler ten instructions
static_assert([] {
  for (uint32_t i = 0; i < kHistogramBuckets; ++i) {
    if (GroupOf(i) != i / kBucketsInBlock) return false;
  }
  return true;
}());
struct alignas(64) ShmHistogramBlock {
  HalfWord group;  // of buckets
  HalfWord next;   // of the list
  Word counts[kBucketsInBlock];
};
static_assert(sizeof(ShmHistogramBlock) == 64);
// Lists of a digest's blocks. Groups of similar times are in different lists, so most lists have one block.
inline constexpr uint32_t kBlockLists = 8;
constexpr uint32_t BlockListOf(uint32_t group) { return group % kBlockLists; }

// A part of the histogram of all statements, which is the sum of its parts. A TRUNCATE empties all parts at once: their generation is
// ShmHeader::histogram_generation. One part is in the header, the others are elements of kHistograms. The thread slots that time
// statements take turns: only the 257th shares its part with another.
struct alignas(64) ShmHistogramPart {
  Buckets buckets;
};
inline constexpr uint32_t kHistogramParts = 256;

// A part of a digest's texts, which take as many adjacent ones as they need. Each text begins in a word of its own and is zero padded.
struct alignas(16) ShmDigestText {
  Word words[2];
};

// A digest. Element 1 collects all digests that do not fit: it has no schema and no tokens.
// Threads: `generation` and the identifying fields change under the cold lock; so do the lists of blocks, which any thread follows. The
// sample changes under sample_seq, by the thread that claims it; sample_text and sample_capacity also need the cold lock.
struct alignas(64) ShmDigest {
  ShmStatementObject object;
  HalfWord next;                       // next digest of the same bucket
  HalfWord text;                       // the first part of its schema, with its tokens behind; 0 = it has neither
  HalfWord schema_bytes, token_bytes;  // no schema = NULL
  HalfWord histogram_generation;       // that the lists belong to
  HalfWord sample_seq;                 // odd while a thread replaces the sample
  HalfWord blocks[kBlockLists];        // the first of each list in kHistogramBlocks
  Word key;                            // hash of schema and tokens
  HalfWord sample_generation;          // of the object
  HalfWord sample_bytes;
  HalfWord sample_text, sample_capacity;  // the first part of its place, and the bytes of that
  Word sample_seen;                       // microseconds since 1970
  Word sample_wait;                       // picoseconds
};
static_assert(sizeof(ShmDigest) == 128 && offsetof(ShmDigest, key) == 64);
inline constexpr uint32_t kDigestSchemaBytes = 64;

// A stored program of the user.
// Threads: changed under the cold lock.
struct alignas(64) ShmStoredProgram {
  ShmStatementObject object;
  HalfWord version;             // counts the generations of the slot
  HalfWord type;                // ObjectType
  HalfWord name, name_version;  // "SCHEMA\0NAME"
  HalfWord flags;               // kTableEnabled, kTableTimed: what setup_objects says
  HalfWord hash_next;           // next program of the same bucket; link of the free list while free
};

// A prepared statement. Its text lies behind it.
// Threads: changed under the cold lock, except reprepared (atomic add).
struct alignas(64) ShmPrepared {
  ShmStatementObject object;
  HalfWord version;  // counts the generations of the slot
  HalfWord seq;      // covers all fields below; cell.h
  Word identity;     // OBJECT_INSTANCE_BEGIN; link of the free list while free
  Word statement_id;
  Word owner_thread_id, owner_event_id;
  Word prepare_ps;
  Word reprepared;
  HalfWord text_bytes;
  HalfWord is_secondary;
  HalfWord program_type, program_name, program_name_version;  // program in which it was prepared; 0 = none
  HalfWord unused;
  Word name[8];
};

}  // namespace perfschema
