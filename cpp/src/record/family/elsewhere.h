// record/family/elsewhere.h: ends events in another thread than the one that they began in, as for a generator that a pool of threads
// advances.
//
// The row stays in the owner, the thread in which the event began: THREAD_ID, EVENT_ID and what is nested in it do not change. The event
// counts for the thread that ends it, because a cell has one writer. An owner that has ended has no row any more; the event still counts.
// The owner's stack loses the event at once if it is in a suspended task. Otherwise the owner takes it out by ForgetEnded().
//
// Threads: any thread. REQUIRES: the owner begins, ends and switches no such event meanwhile: Python's GIL sees to it.
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

// Each returns the number of the event for the ForgetEnded... of its kind; 0: the owner need not forget it.
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
