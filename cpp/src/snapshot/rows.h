// snapshot/rows.h: plain copies of a segment's contents. They refer to no shared memory, except texts that never change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/families.h"
#include "base/histogram.h"
#include "shm/shapes.h"
#include "snapshot/text.h"

namespace perfschema {

// Holds the statistics of an object, lane by lane (kReadLane ... in base/families.h): only its own lanes, since there may be a great many
// objects. Functions for columns are inlined into the columns' loops, which then do not load words that a column does not show.
template <uint32_t kCount>
struct LanesOf {
  Stat stats[kCount];
  uint64_t amounts[kCount] = {};

  // Merges as many lanes, or fewer.
  template <uint32_t kOthers>
  void Merge(const LanesOf<kOthers>& other) {
    static_assert(kOthers <= kCount);
    for (uint32_t i = 0; i < kOthers; ++i) {
      stats[i].Merge(other.stats[i]);
      amounts[i] += other.amounts[i];
    }
  }
  template <uint32_t kFirst>
  LanesOf<kFirst> first() const {
    static_assert(kFirst <= kCount);
    LanesOf<kFirst> some;
    std::copy_n(stats, kFirst, some.stats);
    std::copy_n(amounts, kFirst, some.amounts);
    return some;
  }
  PFS_ALWAYS_INLINE Stat total() const { return sum<0, kCount - 1>(); }
  // Serves columns of tables: one lane, the sum of adjacent lanes, the bytes transferred through a lane.
  template <uint8_t kFirst, uint8_t kLast = kFirst>
  PFS_ALWAYS_INLINE Stat sum() const {
    Stat all = stats[kFirst];
    for (uint32_t i = kFirst + 1; i <= kLast; ++i) all.Merge(stats[i]);
    return all;
  }
  template <uint8_t kLane, typename Number>
  PFS_ALWAYS_INLINE Number amount() const {
    return static_cast<Number>(amounts[kLane]);
  }
};
using Lanes = LanesOf<kMostLanes>;  // of a class: the family says how many it uses

// An instrument, or a registered error or status variable.
struct ClassRow {
  uint32_t index;  // of its ShmClass
  Family family;
  uint32_t key;
  Text<128> name;
  bool enabled;
  Timing timed;
  Step step;
  bool trace_enabled;
  uint32_t properties;
  uint32_t volatility;
  std::optional<LongText> documentation;
  int32_t error_number;  // of a registered error
  Text<5> sqlstate;
  bool controlled;
  Kind kind() const { return FactsOf(family).kind; }
  bool is_wait() const { return kind() == Kind::kWait; }
};

// A change that the ceiling made to an instrument.
struct StepRow {
  uint64_t number, micros;
  const ClassRow* instrument;
  Step from, to;
  uint64_t overhead_ppm, class_ppm, limit_ppm, events_per_second;
};

struct ThreadRow {
  uint32_t slot;
  uint64_t thread_id;
  uint32_t flags;  // kThreadInstrumented ...
  uint32_t cells;  // columns of its row of kThreadCells that may be read
  Text<128> name;
  std::optional<uint64_t> os_id, parent_thread_id;
  std::optional<uint64_t> processlist_id;  // of foreground threads
  std::optional<Text<32>> user;
  std::optional<Text<255>> host;
  uint32_t peer_port;  // 0 = none
  std::optional<Text<64>> db;
  std::optional<Text<16>> command;
  std::optional<int64_t> seconds;  // since its start time
  std::optional<Text<64>> state;
  std::optional<LongText> info;
  std::optional<Text<16>> connection_type;
  std::optional<Text<64>> resource_group;
  uint64_t controlled_memory, max_controlled_memory, total_memory, max_total_memory;
  bool is_foreground() const { return (flags & kThreadForeground) != 0; }
};

// A row of setup_actors.
struct ActorRow {
  Text<255> host;
  Text<32> user, role;
  bool enabled, history, traced;
};

// A row of setup_instrument_rules.
struct InstrumentRuleRow {
  uint64_t ordinal;
  Text<kRulePatternBytes> pattern;
  RuleSettings settings;
};

// A mutex, an rwlock of any kind, or a condition.
struct InstanceRow {
  const ClassRow* instrument;
  uint64_t identity;
  std::optional<uint64_t> owner_thread_id;
  uint32_t shared_count;  // read locks held now
  Stat wait;
};

// Says how long a lock was held, or all locks of an instrument.
struct HoldRow {
  const ClassRow* instrument;
  uint64_t identity;  // 0: an instrument's
  Stat held;
  std::optional<Text<64>> longest_source;  // where the longest hold began
  std::optional<uint64_t> longest_thread_id;
};

// A file or a socket.
struct FileRow {
  const ClassRow* instrument;
  uint64_t identity;  // OBJECT_INSTANCE_BEGIN: the place of its ShmFile in the segment
  Text<512> name;
  uint32_t open_count;
  uint32_t state;       // kSocketIdle ...
  uint32_t descriptor;  // of a socket
  std::optional<uint64_t> thread_id;
  LanesOf<kFileLanes> io;
};

// Counts rows of a table that the program reached through one index, or through none.
struct IndexRow {
  std::optional<Text<64>> name;  // NULL = none
  LanesOf<kTableIoLanes> io;
};

// A table that setup_objects enables.
struct TableRow {
  ObjectType type;
  Text<64> schema, name;
  LanesOf<kTableIoLanes> io;  // of all indexes
  std::vector<IndexRow> indexes;
  std::optional<LanesOf<kTableLockLanes>> locks;  // NULL = there was no space for them
};

struct TableHandleRow {
  ObjectType type;
  Text<64> schema, name;
  uint64_t identity;
  std::optional<uint64_t> owner_thread_id, owner_event_id;
  std::optional<uint8_t> internal_lock, external_lock;  // lanes
};

struct MetadataLockRow {
  ObjectType type;
  std::optional<Text<64>> schema, name, column;
  uint64_t identity;
  uint8_t lock_type, duration, status;  // enum pfs_metadata_... of metadata.h
  std::optional<Text<64>> source;
  std::optional<uint64_t> owner_thread_id, owner_event_id;
};

struct ObjectRuleRow {
  ObjectType type;  // kEvent ... kTrigger
  Text<64> schema, name;
  bool enabled, timed;
};

// An account, a user or a host.
struct PrincipalRow {
  std::optional<Text<32>> user;
  std::optional<Text<255>> host;
  int64_t current_connections, total_connections;
  uint64_t max_controlled_memory, max_total_memory;  // maximum of one of its sessions
};

// Holds the counts of one instrument for one member of a level; the shape is that of the instrument's kind (shm/shapes.h).
struct SumRow {
  const ClassRow* instrument;
  uint64_t thread_id;             // of Level::kThread
  const PrincipalRow* principal;  // of accounts, users and hosts
  uint64_t member;                // its row of cells; 0 for Level::kGlobal
  const Numbers& numbers;
};

// Holds the memory that one instrument counted for one member of a level.
struct MemoryRow {
  const ClassRow* instrument;
  uint64_t thread_id;  // as in SumRow
  const PrincipalRow* principal;
  struct Side {  // blocks, or bytes
    uint64_t alloc, free;
    int64_t low, current, high;
  };
  Side blocks, bytes;
};

// Holds all counts of one instrument since the last TRUNCATE.
struct ClassTotalRow {
  const ClassRow* instrument;
  Lanes lanes;
};

enum class NestingType : uint8_t { kTransaction = 0, kStatement, kStage, kWait };

// Holds the part that the rows of events of all kinds share.
struct EventRow {
  uint64_t thread_id;
  uint64_t event_id;
  std::optional<uint64_t> end_event_id;
  Text<128> event_name;
  std::optional<Text<64>> source;
  std::optional<uint64_t> timer_start, timer_end, timer_wait;
  std::optional<uint64_t> nesting_event_id;
  std::optional<NestingType> nesting_type;
};

// A row of events_waits_*.
struct WaitRow {
  EventRow event;
  std::optional<uint32_t> spins;
  std::optional<Text<64>> object_schema;
  std::optional<Text<512>> object_name;
  std::optional<Text<64>> index_name;
  std::optional<Text<64>> object_type;
  uint64_t object;
  Text<32> operation;
  std::optional<int64_t> number_of_bytes;
  std::optional<uint32_t> flags;
};

// A row of events_stages_*.
struct StageRow {
  EventRow event;
  std::optional<uint64_t> work_completed, work_estimated;
};

enum class Engine : uint8_t { kPrimary = 0, kSecondary };

// A row of events_statements_*.
struct StatementRow {
  EventRow event;
  uint64_t counters[kStatementCounters];
  template <StatementCounter kCounter>
  uint64_t counter() const {
    return counters[static_cast<uint32_t>(kCounter)];
  }
  std::optional<LongText> sql_text;
  std::optional<Text<64>> digest;
  std::optional<LongText> digest_text;
  std::optional<Text<64>> schema;
  std::optional<Text<64>> object_type, object_schema, object_name;
  std::optional<uint64_t> object;
  std::optional<int32_t> error;
  std::optional<Text<5>> sqlstate;
  std::optional<Text<128>> message;
  std::optional<int32_t> level;
  std::optional<uint64_t> statement_id;
  uint64_t controlled_memory, total_memory;
  std::optional<Engine> engine;
  std::optional<Text<55>> traceparent;
};

// A histogram of statements (base/histogram.h).
struct Histogram {
  uint64_t counts[kHistogramBuckets];
  uint64_t total;
  // Returns the upper bound of the bucket in which `per_mille` of the statements are reached; 0 if there are none (semantics.md I9).
  uint64_t Quantile(uint64_t per_mille) const {
    const uint64_t wanted = (total * per_mille + 999) / 1000;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < kHistogramBuckets && total != 0; ++i) {
      seen += counts[i];
      if (seen >= wanted) return BucketHigh(i);
    }
    return 0;
  }
};

// Holds statements of one digest in one schema. Numbers: kObjectShape.
struct DigestRow {
  std::optional<Text<64>> schema, digest;
  std::optional<LongText> text;
  Numbers numbers;
  Histogram histogram;
  std::optional<LongText> sample;
  uint64_t sample_seen;  // microseconds since 1970
  uint64_t sample_wait;
};

struct ProgramRow {
  ObjectType type;
  Text<64> schema, name;
  Numbers numbers;
};

struct PreparedRow {
  uint64_t identity, statement_id;
  std::optional<Text<64>> name;
  LongText text;
  uint64_t owner_thread_id, owner_event_id;
  std::optional<ObjectType> owner_type;
  std::optional<Text<64>> owner_schema, owner_name;
  Engine engine;
  uint64_t prepare, reprepared;
  Numbers numbers;
};

enum class TransactionState : uint8_t { kActive = 0, kCommitted, kRolledBack };
enum class AccessMode : uint8_t { kReadOnly = 0, kReadWrite };

// A row of events_transactions_*.
struct TransactionRow {
  EventRow event;
  std::optional<TransactionState> state;
  std::optional<uint64_t> trx_id;
  std::optional<Text<90>> gtid;
  std::optional<int32_t> xid_format;
  std::optional<Text<130>> xid_gtrid, xid_bqual;
  std::optional<Text<64>> xa_state;
  std::optional<AccessMode> access_mode;
  std::optional<Text<64>> isolation_level;
  bool autocommit;
  std::optional<uint64_t> savepoints, rollbacks_to_savepoint, releases_of_savepoint;
  std::optional<uint64_t> object;
};

// A row that the program declared. record/declared/program.h and variables.h say what its numbers and texts are.
struct FactRow {
  uint64_t owner;  // THREAD_ID; 0 = the process
  uint64_t setting;
  std::vector<uint64_t> numbers;
  std::vector<std::optional<LongText>> texts;

  uint64_t number(size_t i) const { return i < numbers.size() ? numbers[i] : 0; }
  std::string_view text(size_t i) const { return i < texts.size() && texts[i] ? texts[i]->view() : std::string_view(); }
  template <typename T>
  std::optional<T> optional(size_t i) const {
    return i < texts.size() && texts[i] ? std::optional<T>(texts[i]->view()) : std::optional<T>();
  }
};

// An event of the error log.
struct LogRow {
  uint64_t logged;  // microseconds since 1970
  std::optional<uint64_t> thread_id;
  uint32_t priority;  // LogPriority
  std::optional<Text<10>> code;
  std::optional<Text<7>> subsystem;
  LongText data;
};

struct ArrayRow {
  Text<64> name;
  uint64_t used, capacity, reserved_bytes;
};

}  // namespace perfschema
