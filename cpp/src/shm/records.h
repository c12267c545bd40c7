// shm/records.h: records of events, and the chunks that hold them.
//
//   free ---> lap odd, changing hands ---> being written by a thread ---> held for its history ---> in a queue of the pool
//              ^                                                                                       |
//              +---------------------------- taken by that thread, or by another one ------------------+
//
// A wait on a lock takes one place of a chunk. A wait with details (bytes, a name, flags) takes the next place too,
// whose first word says that no record begins there. A thread owns the chunk that it writes and the few that its
// history may reach back into. A chunk that holds an open event, or an event younger than a history, is not given
// away.
//
// A reader loads lap (even) and thread_id; for each record state (acquire), the words, state again; at the end lap
// again. A record is open or closed, and the words of its end are ignored while it is open. A reader scans the chunks
// twice and leaves out events that are younger than each thread's youngest chunk of the first scan: a single scan
// could miss a chunk that is taken meanwhile. Chunks of a thread are ordered by `sequence`; a missing number is a
// chunk that another thread took. TRUNCATE of a view stores, for each chunk, hidden[view] = lap and a bit for each
// record that exists. Records hold raw ticks and the timer; readers convert them.
//
// The array of records is made of spaces for PerChunk() records each. A space belongs to one chunk. For waits and
// statements it may belong to several small chunks instead, so that they share pages: a thread takes a small chunk
// first, and most threads of a crowd, and most short threads, need no other.
//
//   a space of statements:  records, each with its texts if they are short | places for long texts, one a record | an unused page
//
// The places for long texts get memory when a record of the space has such a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/families.h"
#include "base/rounding.h"
#include "base/statement_counters.h"
#include "shm/cell.h"
#include "shm/flags.h"
#include "shm/options.h"

namespace perfschema {

// ---- Event records -------------------------------------------------------------------------------------------------------------
//
//   pool of chunks of records           who may store
//   free, or in a queue of the pool     no thread
//   owned by a thread                   that thread, without asking
//
// Each kind of event has its own pool, because its records have their own size and its history has its own length. A
// chunk gets a new lap each time it is taken. A record belongs to its chunk's present owner only if it carries the
// chunk's lap, so old records need not be cleared. A record is written once, in place, and is current, history and
// history_long at the same time.

inline constexpr uint32_t kMostPerChunk = 64;      // one bit each in ShmHidden
inline constexpr uint32_t kPlacesWithDetails = 2;  // taken by a wait's record that holds more than a lock's
inline constexpr uint32_t kMaxNestedWaits = 5;     // semantics.md D7
inline constexpr uint32_t kMaxStatementStack = 256;

// Lists the differences between the pools. Records with texts are large, so fewer of them make a chunk: a thread
// holds whole chunks.
struct PoolTraits {
  uint32_t per_chunk;    // places for records
  uint32_t most_places;  // that one record takes
  uint32_t small_chunk;  // places of a small chunk; 0 = there are none
  OptionId history_size, history_long_size;
};
inline constexpr PoolTraits kPools[kEventKinds] = {
    {64, kPlacesWithDetails, 16, OptionId::events_waits_history_size, OptionId::events_waits_history_long_size},
    {32, 1, 0, OptionId::events_stages_history_size, OptionId::events_stages_history_long_size},
    {8, 1, 1, OptionId::events_statements_history_size, OptionId::events_statements_history_long_size},
    {8, 1, 0, OptionId::events_transactions_history_size, OptionId::events_transactions_history_long_size},
};
constexpr uint32_t PerChunk(Kind kind) { return kPools[static_cast<uint32_t>(kind)].per_chunk; }
constexpr uint32_t SmallChunk(Kind kind) { return kPools[static_cast<uint32_t>(kind)].small_chunk; }
// Returns whether history_long has as many rows of short threads as of others: their chunks have no place that is not needed. Chunks for
// several events would take memory for all of them.
constexpr bool KeepsShortThreads(Kind kind) { return SmallChunk(kind) == 1; }
constexpr uint32_t SmallPerSpace(Kind kind) { return SmallChunk(kind) == 0 ? 0 : PerChunk(kind) / SmallChunk(kind); }
constexpr uint64_t ChunksFor(uint64_t events, uint64_t per_chunk) { return (events + per_chunk - 1) / per_chunk; }
// Assumes that each event takes most places, and so is alone in its chunk.
constexpr uint64_t MostChunksFor(Kind kind, uint64_t events) {
  return ChunksFor(events, PerChunk(kind) / kPools[static_cast<uint32_t>(kind)].most_places);
}

// Returns how many chunks the tail of a thread's history may lie in, besides the one being written. It is at least
// one: events_*_current shows the last finished event.
constexpr uint64_t ChunksHeldByThread(Kind kind, uint64_t history_size) {
  return history_size == 0 ? 1 : MostChunksFor(kind, history_size);
}
// Adds two per thread: the chunk being written, and one of slack, because a thread prefers to recycle its own chunk
// over the globally oldest.
constexpr uint64_t ChunksOfThread(uint64_t chunks_held) { return chunks_held + 2; }
// Returns how many chunks finished events pass through before the chunks are written again. `chunks_of_rows` hold the
// rows of history_long; a quarter more is slack, because the pool prefers a thread's own chunks.
constexpr uint64_t ChunksInPool(uint64_t chunks_of_rows) { return chunks_of_rows * 5 / 4 + 1; }
// Returns how many events of a thread may run at the same time, and keep their chunks.
constexpr uint64_t MostOpen(Kind kind, uint64_t statement_stack) {
  return kind == Kind::kWait ? kMaxNestedWaits : kind == Kind::kStatement ? statement_stack : 1;
}

// Holds which records a TRUNCATE of a view hides. A mask of a past lap hides none.
// Threads: one truncater writes, any reads.
struct ShmHidden {
  Word masks[kMostPerChunk / 32];  // lap << 32 | one bit for each of 32 records
  void Hide(uint32_t lap, uint64_t bits) {
    for (uint32_t i = 0; i < kMostPerChunk / 32; ++i) masks[i].store(uint64_t{lap} << 32 | static_cast<uint32_t>(bits >> i * 32), kRelease);
  }
  uint64_t Of(uint32_t lap) const {  // pairs with Hide
    uint64_t bits = 0;
    for (uint32_t i = 0; i < kMostPerChunk / 32; ++i) {
      const uint64_t mask = masks[i].load(kAcquire);
      if (mask >> 32 == lap) bits |= uint64_t{static_cast<uint32_t>(mask)} << i * 32;
    }
    return bits;
  }
};

struct alignas(128) ShmChunk {  // 128: its neighbor may be another core's, and lines are fetched in pairs
  HalfWord lap;                 // odd while changing hands; even = the lap of valid records
  HalfWord thread;              // slot of the owner, kept after its end
  Word thread_id;
  Word taken;           // cycle counter when it was taken: orders events that are not timed
  Word sequence;        // how many chunks of the pool the thread has taken, with this one: consecutive numbers mean that none is missing
  Word traced;          // traced events of the thread in its earlier chunks: tells how many a missing chunk had
  ShmHidden hidden[3];  // by view
  Word begin;           // bytes from the begin of the array of records to the chunk's first one; stored once, before the first lap
  HalfWord ready;       // number of its places; stored once, before the first lap
  // Returns how many records may be read. Loads before the records' states; pairs with MakeChunk.
  uint32_t Ready(uint32_t per_chunk) const {
    const uint32_t records = ready.load(kAcquire);
    return records < per_chunk ? records : per_chunk;
  }
};
static_assert(sizeof(ShmChunk) == 128);
inline constexpr uint32_t kViewCurrent = 0, kViewHistory = 1, kViewHistoryLong = 2;

// The bits below are the low half of ShmRecord::state; the high half is the lap. Some bits come from the flag word
// that the event began with, among them the timer (kFlagTimerMask).
inline constexpr uint64_t kRecordOpen = 1;  // the event is running: words of its end are not valid yet
inline constexpr uint64_t kRecordTimed = kFlagTimed;
inline constexpr uint64_t kRecordClosed = 4;
inline constexpr uint64_t kRecordHistory = kFlagHistory;
inline constexpr uint64_t kRecordHistoryLong = kFlagHistoryLong;
inline constexpr uint64_t kRecordTraced = kFlagTrace;
inline constexpr uint64_t kRecordTraceOnly = kFlagTraceOnly;  // events_*_current does not show it
inline constexpr uint64_t kRecordHasBytes = 1 << 12;          // NUMBER_OF_BYTES is not NULL
inline constexpr uint64_t kRecordHasFlags = 1 << 13;          // FLAGS is not NULL
inline constexpr uint64_t kRecordHasName = 1 << 14;           // OBJECT_NAME is not NULL
inline constexpr uint64_t kRecordHasSpins = 1 << 15;          // SPINS is not NULL
inline constexpr uint64_t kRecordHasSchema = 1 << 17;         // the name is "SCHEMA\0NAME"
inline constexpr uint64_t kRecordHasIndex = 1 << 18;          // INDEX_NAME is not NULL
inline constexpr uint64_t kRecordHasProgress = 1 << 12;       // of a stage: WORK_COMPLETED and WORK_ESTIMATED are not NULL

// The first line of every event's record.
// Threads: owner thread writes, any reads: state (acquire), words, state again and the chunk's lap last.
struct alignas(64) ShmRecord {
  Word state;  // release store: publishes all words before it
  Word event_id;
  Word start_ticks;  // of the timer that the event began with; TIMER_START = scale.Picos(start)
  Word end_ticks;    // TIMER_WAIT = scale.Duration(end - start), TIMER_END = TIMER_START + TIMER_WAIT
  Word object;       // OBJECT_INSTANCE_BEGIN
  Word what;         // class | operation << 16 (of a statement: its level) | nesting type << 24 | source << 32
  Word nesting_event_id;
  Word end_info;  // END_EVENT_ID - EVENT_ID; kRecordHasSpins: EndInfoWithSpins()
};

// Returns whether `bytes` of records that begin there lie in an array of which so much is mapped. Another process's words may be damaged.
constexpr bool IsPlaceOfRecords(uint64_t begin, uint64_t bytes, uint64_t mapped) {
  return begin % alignof(ShmRecord) == 0 && begin <= mapped && bytes <= mapped - begin;
}

// Only waits for locks count spins, and hardly any event happens inside one. More than 2^32 - 1 events inside are
// shown as that many.
inline constexpr uint64_t kMostEventsBesideSpins = 0xffffffffu;
constexpr uint64_t EndInfoWithSpins(uint64_t events_inside, uint32_t spins) {
  return (events_inside < kMostEventsBesideSpins ? events_inside : kMostEventsBesideSpins) | uint64_t{spins} << 32;
}
constexpr uint64_t EventsInside(uint64_t state, uint64_t end_info) {
  return (state & kRecordHasSpins) != 0 ? end_info & kMostEventsBesideSpins : end_info;
}

// Extends a wait's record. A wait on a lock takes one place in its chunk; a wait with details (kRecordHasBytes ...
// kRecordHasIndex) takes the next place, too.
struct ShmWaitDetails {
  Word state;  // the chunk's lap alone: no record
  Word bytes;
  Word flags_and_name;    // FLAGS | name granule << 32
  Word version_and_type;  // version of the name | ObjectType << 32, which wins over the family's OBJECT_TYPE
  Word index_name;        // granule << 32 | its version
  Word unused[3];
};
struct ShmWaitRecord : ShmRecord {
  // REQUIRES: one of the bits above.
  ShmWaitDetails& details() { return *reinterpret_cast<ShmWaitDetails*>(this + 1); }
  const ShmWaitDetails& details() const { return *reinterpret_cast<const ShmWaitDetails*>(this + 1); }
};
static_assert(sizeof(ShmWaitRecord) == 64 && sizeof(ShmWaitDetails) == 64);

// Returns how many rows of events_waits_history_long -1 stands for, beside a second-level cache of that size; 0 = unknown. Whatever
// places they take, their chunks are no more than a quarter of it: a pool that leaves the cache costs a miss an event.
inline int64_t WaitRowsFor(uint64_t cache_bytes) {
  const int64_t most = kOptions[static_cast<uint32_t>(kPools[0].history_long_size)].autosize;
  const uint64_t row_bytes = kPlacesWithDetails * sizeof(ShmWaitRecord) * 5 / 4;  // as ChunksInPool
  return cache_bytes == 0 ? most : std::clamp<int64_t>(static_cast<int64_t>(cache_bytes / 4 / row_bytes), 1000, most);
}

struct ShmStageRecord : ShmRecord {
  Word work_completed, work_estimated;  // kRecordHasProgress
  Word unused[6];
};
static_assert(sizeof(ShmStageRecord) == 128);

// The record of a statement. Numbers and texts may change while it runs: each number by itself, the rest under
// `seq`. The texts are SQL_TEXT and the digest's tokens, in this order, both in whole words. They lie behind the record
// if they fit there, else in its place for long texts (HasLongTexts). A statement stores to the first two lines and to
// what it has besides: a pool of records is larger than any cache.
struct ShmStatementRecord : ShmRecord {
  HalfWord seq;                          // covers all fields of this line but the last three words, and all texts; cell.h
  HalfWord error;                        // MYSQL_ERRNO
  HalfWord sql_bytes;                    // kStatementHasText
  HalfWord digest_bytes;                 // 0 = no digest
  Word bits;                             // kStatementHasText ...
  Word program;                          // granule of its name "SCHEMA\0NAME" << 32 | its version
  HalfWord program_type;                 // ObjectType
  HalfWord trace_flags;                  // kStatementHasTrace, like `trace`
  Word controlled_memory, total_memory;  // maximum while the statement ran
  Word statement_id;                     // 0 = NULL
  Word counters[kStatementCounters];     // those of CounterBit()
  Word sqlstate;                         // zero padded; kStatementHasDiagnostics
  Word trace[3];                         // Traceparent::ids
  Word schema[8];                        // kStatementHasSchema
  Word message[16];                      // kStatementHasDiagnostics
};
static_assert(sizeof(ShmStatementRecord) == 512);
inline constexpr uint64_t kStatementHasText = 1, kStatementIsSecondary = 2, kStatementHasDiagnostics = 4, kStatementHasTrace = 8,
                          kStatementHasSchema = 16, kStatementHidesMessage = 32;  // a message may quote a secret
// The bit of a counter that has been stored; it is 0 otherwise. Stored before the bit, and after it without `seq`.
constexpr uint64_t CounterBit(uint32_t counter) { return uint64_t{1} << (32 + counter); }
static_assert(kStatementCounters <= 32);
constexpr uint64_t TextCapacity(uint64_t limit) { return RoundUp(limit, 8); }

struct ShmTransactionRecord : ShmRecord {
  Word bits;  // TransactionBits
  Word savepoints, rollbacks_to_savepoint, releases_of_savepoint;
  Word trx_id;   // 0 = NULL
  HalfWord seq;  // covers all fields below; cell.h
  HalfWord xid_format;
  Word gtid[12];
  Word xid_gtrid[17], xid_bqual[17];
  Word unused[4];
};
static_assert(sizeof(ShmTransactionRecord) == 512);

inline constexpr uint32_t kGtidBytes = 90, kXidBytes = 130;
inline constexpr uint32_t kTransactionActive = 0, kTransactionCommitted = 1, kTransactionRolledBack = 2;

// Packs the small values of a transaction into one word.
struct TransactionBits {
  uint32_t state;
  uint32_t isolation;  // enum pfs_isolation; 0 = NULL
  bool is_read_only, autocommit;
  static constexpr uint64_t kStateMask = 3, kReadOnly = 4, kAutocommit = 8, kHasXid = 16;
  static constexpr uint32_t kIsolationShift = 8, kXaShift = 12;  // state of XA + 1; 0 = NULL
  static constexpr uint64_t kXaMask = 15 << kXaShift;
  constexpr uint64_t word() const {
    return state | (is_read_only ? kReadOnly : 0) | (autocommit ? kAutocommit : 0) | uint64_t{isolation} << kIsolationShift;
  }
};
inline constexpr std::string_view kIsolationNames[] = {"", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
inline constexpr std::string_view kXaStateNames[] = {"NOTR", "ACTIVE", "IDLE", "PREPARED", "ROLLBACK ONLY"};

// The bytes behind a statement's record. Most texts fit there: four records then share a page, where two would not fit with space for
// the longest texts.
inline constexpr uint64_t kShortTexts = 512;
constexpr uint64_t MostTextBytes(uint64_t sql_text_limit, uint64_t digest_limit) {
  return RoundUp(TextCapacity(sql_text_limit) + TextCapacity(digest_limit), 64);
}
// Returns the bytes of a place for long texts. 0: there are none, as the limits are so low that all texts are short.
constexpr uint64_t LongTextBytes(uint64_t sql_text_limit, uint64_t digest_limit) {
  const uint64_t most = MostTextBytes(sql_text_limit, digest_limit);
  return most <= kShortTexts ? 0 : most;
}
constexpr bool HasLongTexts(uint64_t sql_bytes, uint64_t digest_bytes, uint64_t record_bytes) {
  return sizeof(ShmStatementRecord) + TextCapacity(sql_bytes) + digest_bytes > record_bytes;
}

// Returns the bytes from one record to the next.
constexpr uint64_t RecordBytes(Kind kind, uint64_t sql_text_limit, uint64_t digest_limit) {
  switch (kind) {
    case Kind::kStatement: {
      const uint64_t most = MostTextBytes(sql_text_limit, digest_limit);
      return sizeof(ShmStatementRecord) + (most < kShortTexts ? most : kShortTexts);
    }
    case Kind::kTransaction:
      return sizeof(ShmTransactionRecord);
    case Kind::kStage:
      return sizeof(ShmStageRecord);
    default:
      return sizeof(ShmWaitRecord);
  }
}
// Returns where the places for long texts begin in a space.
constexpr uint64_t BytesOfRecords(Kind kind, uint64_t record_bytes) { return RoundToPages(PerChunk(kind) * record_bytes); }
// Returns the bytes of a space. An unused page, never given memory, lies at its end. Without it the processor's prefetcher runs over the
// end of the page and takes the next chunk's first lines out of another core's cache. Two threads then are slower than one (measured: 1.1
// of one thread's rate against 1.9).
constexpr uint64_t SpaceBytes(Kind kind, uint64_t record_bytes, uint64_t long_text_bytes) {
  return BytesOfRecords(kind, record_bytes) + RoundToPages(PerChunk(kind) * long_text_bytes) + kPageBytes;
}
// Returns where the place for long texts is of the record that lies at `record`. Both count from the begin of the array of records.
constexpr uint64_t PlaceOfLongTexts(uint64_t record, uint64_t space_bytes, uint64_t record_bytes, uint64_t long_text_bytes) {
  const uint64_t in_space = record % space_bytes;
  return record - in_space + BytesOfRecords(Kind::kStatement, record_bytes) + in_space / record_bytes * long_text_bytes;
}

inline constexpr uint32_t kNestingTransaction = 1, kNestingStatement = 2, kNestingStage = 3, kNestingWait = 4;

}  // namespace perfschema
