#include "record/family/elsewhere.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "record/context/tasks.h"
#include "record/family/statements.h"
#include "record/probe/nested.h"

namespace perfschema {
namespace {

bool IsKept(const Statement& statement, const ThreadState& thread) {
  return std::any_of(thread.statements, thread.statements + thread.statement_depth,
                     [&](const OpenStatement& open) { return open.serial == statement.serial && open.place == &statement; });
}

// Ends the row of a statement of another thread. Returns its number if the owner must forget it. REQUIRES: cold lock.
uint64_t EndRowElsewhere(const Statement& statement, const StatementRest& rest, uint64_t end_ticks) {
  ThreadState& owner = *statement.thread;
  // The address tells it from statements of a later owner of the slot: this one's memory is still in use.
  const auto is_it = [&](const OpenStatement& open) { return open.serial == statement.serial && open.place == &statement; };
  const auto end_row = [&](const OpenStatement& open) {
    if (StillHas(open.record, open.begun_state)) {
      ShmStatementRecord& record = *open.record;
      const CellWriter writer(record.seq);
      uint64_t bits = record.bits.load(kRelaxed);
      for (uint32_t at = 0; at < kStatementCounters; ++at) {
        if ((statement.set >> at & 1) == 0) continue;
        record.counters[at].store(statement.counters[at], kRelease);
        bits |= CounterBit(at);
      }
      if (rest.error != 0) {
        StoreDiagnostics(record, rest.error, rest.sqlstate, rest.message);
        bits |= kStatementHasDiagnostics;
      }
      record.bits.store(bits, kRelease);
    }
    (void)EndRecordOf(owner, open.record, open.begun_state, end_ticks);
  };
  if (rest.suspended != nullptr) {  // the owner does not keep its record, so there is no row to end
    OpenStatement open;
    std::memcpy(&open, rest.suspended, sizeof open);
    uint64_t expected = open.begun_state;
    if (open.record != nullptr) open.record->state.compare_exchange_strong(expected, open.begun_state & ~kRecordOpen, kRelease, kRelaxed);
    return 0;
  }
  const bool is_aside = AnyAside(owner, [&](Task& task) {
    OpenStatement* const end = task.statements + task.statement_depth;
    OpenStatement* const open = std::find_if(task.statements, end, is_it);
    if (open == end) return false;
    end_row(*open);
    std::copy(open + 1, end, open);
    --task.statement_depth;
    return true;
  });
  if (is_aside) return 0;
  const OpenStatement* const end = owner.statements + g_runtime.statement_stack;
  const OpenStatement* const open = std::find_if(static_cast<const OpenStatement*>(owner.statements), end, is_it);
  if (open == end) return 0;
  end_row(*open);
  return statement.serial;
}

}  // namespace

uint64_t EndStatementElsewhere(Statement& statement, const StatementRest& rest) {
  if (statement.thread == nullptr) return 0;
  // A thread of the pool has a session attached. Or it has the slot of the owner, which has ended.
  if (statement.thread == t_locals.state && IsKept(statement, *statement.thread)) return EndStatement(statement), 0;
  ThreadState* const here = CurrentThread();
  if (here == nullptr || IsInterrupted(*here)) return CountLoss(Loss::kLockers), 0;
  const Measured measured = MeasuredUntil(statement.flags, statement.start_ticks, TicksOf(statement.flags));
  for (uint32_t at = 0; at < rest.counters.size(); ++at) {
    if (rest.counters[at] == 0) continue;
    statement.counters[at] = rest.counters[at];
    statement.set |= 1u << at;
  }
  const int error = errno;
  uint64_t number = 0;
  if (const ColdLock lock; lock) number = EndRowElsewhere(statement, rest, measured.end_ticks);
  errno = error;
  statement.thread = statement.flags == 0 ? nullptr : here;
  if (statement.thread == nullptr) return number;
  statement.serial = ++here->serials;
  statement.buffer = g_runtime.statement_stack;  // that of statements without a place
  statement.sql_bytes = statement.digest_bytes = 0;
  statement.entry = nullptr;
  if (!rest.text.empty()) SetStatementText(statement, rest.text);
  if (const NestedProbe probe(*here); probe) {
    CountStatement(statement, {measured, measured.timed ? BucketOf(measured.wait_ps) : 0, statement.set, statement.counters, 0, 0,
                               statement.is_secondary ? 1u : 0u});
  }
  statement.thread = nullptr;
  return number;
}

void ForgetEnded(uint64_t number) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || number == 0) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  for (uint32_t i = thread->statement_depth; i-- > 0;) {
    if (thread->statements[i].serial != number) continue;
    OpenStatement* const end = thread->statements + thread->statement_depth--;
    for (OpenStatement* open = thread->statements + i + 1; open != end; ++open) {  // those that began inside it go on
      open->is_overtaken = true;
      open[-1] = *open;
    }
    break;
  }
  if (thread->transaction.serial == number) thread->transaction = {};
  SetParentOfWaits(*thread);
}

uint64_t TakeWait(Wait& wait, bool has_owner) {
  ThreadState* const here = CurrentThread();
  ThreadState* const owner = wait.thread;
  ShmWaitRecord* const record = wait.record;
  if (here == nullptr || IsInterrupted(*here)) return 0;  // the end counts the loss
  uint64_t number = 0;
  if (has_owner && record != nullptr) {
    const uint64_t end_ticks = (wait.flags & kFlagTimed) != 0 ? EndedAt(wait, NowTicks(wait.flags)).end_ticks : 0;
    const int error = errno;
    if (const ColdLock lock; lock) {
      const bool is_ended = EndRecordOf(*owner, record, wait.begun_state, end_ticks);
      const bool is_aside = AnyAside(*owner, [record](Task& task) {
        ShmWaitRecord** const end = task.open_waits + task.wait_depth;
        ShmWaitRecord** const open = std::find(task.open_waits, end, record);
        if (open == end) return false;
        std::copy(open + 1, end, open);
        --task.wait_depth;
        return true;
      });
      if (is_ended && !is_aside) number = reinterpret_cast<uintptr_t>(record);
    }
    errno = error;
  }
  wait.thread = here;
  wait.record = nullptr;
  wait.begun_state = 0;
  wait.flags &= ~kFlagCurrent;
  return number;
}

void ForgetEndedWait(uint64_t number) {
  ThreadState* const thread = t_locals.state;
  const auto* const record = reinterpret_cast<const ShmWaitRecord*>(number);
  if (thread == nullptr || IsInterrupted(*thread)) return;
  ShmWaitRecord** const end = thread->open_waits + thread->wait_depth();
  if (std::find(thread->open_waits, end, record) == end) return;
  const uint64_t depth = NestingWithout(*thread, record);
  KeepChunkOf(*thread, Kind::kWait, record);
  thread->nesting = depth;
  if (depth == 0) thread->EndFastAgain();
}

ThreadState* EventOwner() { return t_locals.state; }

}  // namespace perfschema
