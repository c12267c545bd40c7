// snapshot/events.h: the events of all kinds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/families.h"
#include "base/statement_counters.h"
#include "shm/layout.h"
#include "snapshot/text.h"
#include "snapshot/traced.h"

namespace perfschema {

class Snapshot;

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

// The views of events: kViewCurrent, kViewHistory, kViewHistoryLong. The last one says how many rows there are before it gives the
// first.
using Expect = std::function<void(uint64_t rows)>;
void ForEachWait(const Snapshot& snapshot, uint32_t view, const std::function<void(const WaitRow&)>& use, const Expect& expect = {});
void ForEachStage(const Snapshot& snapshot, uint32_t view, const std::function<void(const StageRow&)>& use, const Expect& expect = {});
void ForEachStatement(const Snapshot& snapshot, uint32_t view, const std::function<void(const StatementRow&)>& use,
                      const Expect& expect = {});
void ForEachTransaction(const Snapshot& snapshot, uint32_t view, const std::function<void(const TransactionRow&)>& use,
                        const Expect& expect = {});
// Sets the schema and the name of a wait's object. `state`: the record's, which has kRecordHasName; the others: words of its details.
// Nothing is set if the name is gone.
void DescribeObject(const Snapshot& snapshot, uint64_t state, uint64_t flags_and_name, uint64_t version_and_type,
                    std::optional<Text<64>>* schema, std::optional<Text<512>>* name);
// Show what is new in the records of traced events since the last call with this cursor (snapshot/traced.h). The rows are of the kinds
// above.
void ForEachTracedWait(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use);
void ForEachTracedStage(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use);
void ForEachTracedStatement(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use);
void ForEachTracedTransaction(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use);

}  // namespace perfschema
