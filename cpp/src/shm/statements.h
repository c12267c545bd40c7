// shm/statements.h: structs that statements share: digests, stored programs, prepared statements, and the histogram
// of all.
#pragma once

#include <cstdint>

#include "base/histogram.h"
#include "shm/cell.h"

namespace perfschema {

// Holds the statistics of one object as one thread has seen it. Words behind the head: kObjectShape of shapes.h.
// Threads: the thread in slot `owner` writes, any reads.
struct alignas(64) ShmStatementCell {
  HalfWord seq, gen;  // gen: the object's generation that the numbers belong to
  HalfWord owner;     // thread slot index
  HalfWord next;      // next cell of the same object
  ShmStat stat;
  Word more[34];
};
static_assert(sizeof(ShmStatementCell) == 320);

// Is an object that statements count for. Its cells belong to the slot and stay in its list for good; `generation`
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

// Is the histogram of a digest.
struct alignas(64) ShmHistogram {
  HalfWord generation;
  Buckets buckets;
};

// Is a part of the histogram of all statements, which is the sum of its parts. A TRUNCATE empties all parts at once: their generation is
// ShmHeader::histogram_generation. One part is in the header, the others are elements of kHistograms. The thread slots that time
// statements take turns: only the 257th shares its part with another.
struct alignas(64) ShmHistogramPart {
  Buckets buckets;
};
inline constexpr uint32_t kHistogramParts = 256;

// Is a digest. Its tokens lie behind it, and then the text of the sample, each with the capacity that the options
// give it. Element 1 collects all digests that do not fit: it has no schema and no tokens.
// Threads: `generation` and the identifying fields change under the cold lock; the sample changes under sample_seq, by the thread that
// claims it.
struct alignas(64) ShmDigest {
  ShmStatementObject object;
  HalfWord next;  // next digest of the same bucket
  HalfWord token_bytes;
  Word key;                    // hash of schema and tokens
  Word schema[8];              // zero padded; empty = NULL
  HalfWord sample_seq;         // odd while a thread replaces the sample
  HalfWord sample_generation;  // of the object
  HalfWord sample_bytes;
  HalfWord unused;
  Word sample_seen;  // microseconds since 1970
  Word sample_wait;  // picoseconds
  ShmHistogram histogram;
};

// Is a stored program of the user.
// Threads: changed under the cold lock.
struct alignas(64) ShmStoredProgram {
  ShmStatementObject object;
  HalfWord version;             // counts the generations of the slot
  HalfWord type;                // ObjectType
  HalfWord name, name_version;  // "SCHEMA\0NAME"
  HalfWord flags;               // kTableEnabled, kTableTimed: what setup_objects says
  HalfWord hash_next;           // next program of the same bucket; link of the free list while free
};

// Is a prepared statement. Its text lies behind it.
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
