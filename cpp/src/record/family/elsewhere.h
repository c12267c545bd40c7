// record/family/elsewhere.h: ends events in another thread than the one that they began in, as for a generator that a pool of threads
// advances.
//
// The row stays in the owner, the thread in which the event began: THREAD_ID, EVENT_ID and what is nested in it do not change. The event
// counts for the thread that ends it, because a cell has one writer. An owner that has ended has no row any more; the event still counts.
//
// The program hands the memory of a pfs_statement_t or pfs_transaction_t over, and so orders what the owner did to the event before. The
// owner goes on meanwhile. These rules make the end safe:
//
//   1. The memory says where the record is. The ending thread reads no private memory of the owner but `first_serial`, `event_id` and
//      `ended`.
//   2. It takes the cold lock, and writes the record only if the owner lives (`first_serial`) and the record still is the event's (state).
//   3. The owner holds the chunk of each open record in its stack or in `suspended`. It gives up such a record under the cold lock: when
//      the thread ends, when it drops an abandoned event, and when it has too many chunks. Then the state is no longer that of the event.
//   4. So the record is the event's from the check to the end of the lock.
//   5. The owner's stack keeps the event until the owner finds it closed: at its next statement inside another one, or transaction. Until
//      then, what begins in the owner is nested in the event that has ended.
//
// An event without a record has its serial in `ended` instead.
//
// The functions for Python have more of the owner's memory, and so a harder rule. REQUIRES: the owner begins, ends and switches no such
// event meanwhile: the GIL sees to it. They take the event out of the stack of a suspended task at once. Otherwise the owner does so by
// ForgetEnded(), before its next event.
//
// Threads: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "perfschema/abi.h"

namespace perfschema {

struct Statement;
struct Task;
struct ThreadState;
struct Transaction;
struct Wait;

// What a statement has that its owner's memory holds.
struct StatementRest {
  std::string_view text;
  std::span<const uint64_t> counters;  // the first ones; 0 = not set
  uint32_t error;                      // 0: none
  std::string_view sqlstate, message;
  const void* suspended;  // what SuspendStatement() has saved; nullptr: the statement runs
};

// Ends a statement whose memory the program has handed over. Its text must have been set by its owner.
void EndOfAnother(Statement& statement);
void EndOfAnother(Transaction& transaction, bool is_committed);
void SetDiagnosticsOfAnother(const Statement& statement, uint32_t number, std::string_view sqlstate, std::string_view message);
// Holds the chunk of a statement that its owner suspends, for another thread that ends it. Without a free place for that, only the owner
// can end its row.
void HoldSuspended(Statement& statement);
// Takes the texts of a suspended statement. REQUIRES: the end follows before another statement's text is set.
void ResumeOfAnother(Statement& statement, const char* saved);

// For Python. Each returns the number of the event for the ForgetEnded... of its kind; 0: the owner need not forget it.
PFS_API uint64_t EndStatementElsewhere(Statement& statement, const StatementRest& rest);
PFS_API uint64_t EndTransactionElsewhere(Transaction& transaction, bool is_committed);
// Ends the stage of a task; `task` nullptr: of the owner's own work.
PFS_API uint64_t EndStageElsewhere(ThreadState* owner, Task* task);
// Ends the row of a wait, which becomes one of the calling thread without a row: its usual end counts it next. `has_owner`: the thread that
// began it has not ended.
PFS_API uint64_t TakeWait(Wait& wait, bool has_owner);

// Takes an event that ended elsewhere out of the calling thread's stack: a statement or transaction; a stage; a wait.
PFS_API void ForgetEnded(uint64_t number);
PFS_API void ForgetEndedStage(uint64_t number);
PFS_API void ForgetEndedWait(uint64_t number);
// Returns what the events of the calling thread belong to; nullptr: nothing yet.
PFS_API ThreadState* EventOwner();

}  // namespace perfschema
