#include "record/family/elsewhere.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/secrets.h"
#include "record/context/tasks.h"
#include "record/family/diagnostics.h"
#include "record/family/statements.h"
#include "record/family/text_buffers.h"
#include "record/probe/chunk_pool.h"
#include "record/probe/nested.h"

namespace perfschema {
namespace {

bool IsKept(const Statement& statement, const ThreadState& thread) {
  return std::any_of(thread.statements, thread.statements + thread.statement_depth,
                     [&](const OpenStatement& open) { return open.serial == statement.serial && open.place == &statement; });
}

// The `buffer` of a statement whose texts ResumeOfAnother() has put into the buffer of statements without a place.
constexpr uint32_t kBufferOfAnother = ~0u;

// Tells the owner of an event whose row could not be ended. REQUIRES: cold lock.
void NoteEnded(ThreadState& owner, uint64_t serial) { owner.ended[owner.ended_used++ % ThreadState::kEnded].store(serial, kRelaxed); }

// Completes the row of a statement of another thread. REQUIRES: cold lock.
void EndRow(const Statement& statement, const StatementRest& rest, uint64_t end_ticks) {
  ShmStatementRecord* const record = RowOfAnother(statement);
  if (record == nullptr) return NoteEnded(*statement.thread, statement.serial);
  {
    const CellWriter writer(record->seq);
    uint64_t bits = record->bits.load(kRelaxed);
    for (uint32_t at = 0; at < kStatementCounters; ++at) {
      if ((statement.set >> at & 1) == 0) continue;
      record->counters[at].store(statement.counters[at], kRelease);
      bits |= CounterBit(at);
    }
    if (rest.error != 0) {
      StoreDiagnostics(*record, statement.has_secret || HasSecret(rest.text), rest.error, rest.sqlstate, rest.message);
      bits |= kStatementHasDiagnostics;
    }
    record->bits.store(bits, kRelease);
  }
  (void)EndRecordOf(*statement.thread, record, statement.begun_state, end_ticks);
}

// Hides the row of a suspended statement whose chunk the owner does not hold: nobody may complete it.
void HideRow(const OpenStatement& open) {
  uint64_t expected = open.begun_state;
  if (open.record != nullptr) open.record->state.compare_exchange_strong(expected, open.begun_state & ~kRecordOpen, kRelease, kRelaxed);
}

// Copies the texts of a statement from its row into the buffer of this thread for statements without a place. REQUIRES: cold lock; inside a
// probe of `here`.
bool CopyTexts(const Statement& statement, ThreadState& here) {
  const ShmStatementRecord* const record = RowOfAnother(statement);
  if (record == nullptr || record->sql_bytes.load(kRelaxed) != statement.sql_bytes ||
      record->digest_bytes.load(kRelaxed) != statement.digest_bytes) {
    return false;
  }
  const char* place = reinterpret_cast<const char*>(record + 1);
  if (HasLongTexts(statement.sql_bytes, statement.digest_bytes, g_runtime.pool(Kind::kStatement).record_bytes))
    place = LongTextsOf(*record);
  if (place == nullptr) return false;
  CopyFromShared(SqlBuffer(here, g_runtime.statement_stack), place, statement.sql_bytes);
  CopyFromShared(reinterpret_cast<char*>(TokenBuffer(here, g_runtime.statement_stack)), place + TextCapacity(statement.sql_bytes),
                 statement.digest_bytes);
  return true;
}

// Takes a statement out of the stack of a suspended task. REQUIRES: cold lock, and the GIL.
bool TakeFromTask(const Statement& statement) {
  return AnyAside(*statement.thread, [&](Task& task) {
    OpenStatement* const end = task.statements + task.statement_depth;
    OpenStatement* const open = std::find_if(task.statements, end, [&](const OpenStatement& at) { return at.serial == statement.serial; });
    if (open == end) return false;
    std::copy(open + 1, end, open);
    --task.statement_depth;
    return true;
  });
}

// Makes a statement whose row has ended one of the calling thread, without a place.
void TakeStatement(Statement& statement, ThreadState& here) {
  statement.thread = &here;
  statement.serial = ++here.serials;
  statement.buffer = g_runtime.statement_stack;
  statement.entry = nullptr;
}

void CountTaken(Statement& statement, const Measured& measured) {
  if (statement.flags != 0) {
    CountStatement(statement, {measured, measured.timed ? BucketOf(measured.wait_ps) : 0, statement.set, statement.counters, 0, 0,
                               statement.is_secondary ? 1u : 0u});
  }
  statement.thread = nullptr;
}

}  // namespace

void EndOfAnother(Statement& statement) {
  ThreadState* const here = CurrentThread();
  const bool may_end = here != nullptr && !IsInterrupted(*here);
  if (!may_end) {
    statement.thread = nullptr;
    return CountLoss(Loss::kLockers);
  }
  const Measured measured = MeasuredUntil(statement.flags, statement.start_ticks, TicksOf(statement.flags));
  const NestedProbe probe(*here);
  const uint32_t shared_buffer = g_runtime.statement_stack;
  bool has_texts = statement.buffer == kBufferOfAnother && BufferOwner(*here, shared_buffer) == statement.entry_version;
  const int error = errno;
  if (const ColdLock lock; lock) {
    if (!has_texts && statement.digest_bytes != 0) has_texts = CopyTexts(statement, *here);
    EndRow(statement, {}, measured.end_ticks);
  }
  errno = error;
  TakeStatement(statement, *here);
  if (has_texts) {
    BufferOwner(*here, shared_buffer) = statement.serial;
  } else if (statement.digest_bytes != 0) {
    statement.digest_bytes = 0;
    CountLoss(Loss::kDigests);
  }
  CountTaken(statement, measured);
}

void SetDiagnosticsOfAnother(const Statement& statement, uint32_t number, std::string_view sqlstate, std::string_view message) {
  const int error = errno;
  if (const ColdLock lock; lock) {
    if (ShmStatementRecord* const record = RowOfAnother(statement); record != nullptr) {
      const CellWriter writer(record->seq);
      StoreDiagnostics(*record, statement.has_secret, number, sqlstate, message);
      record->bits.store(record->bits.load(kRelaxed) | kStatementHasDiagnostics, kRelease);
    }
  }
  errno = error;
}

void HoldSuspended(Statement& statement) {
  ThreadState& thread = *statement.thread;
  if (!StillHas(statement.record, statement.begun_state)) return;
  uint32_t at = 0;
  while (at < thread.suspended_used && StillHas(thread.suspended[at].record, thread.suspended[at].begun_state)) ++at;
  if (at == ThreadState::kMostSuspended) {
    statement.record = nullptr;
  } else {
    thread.suspended[at] = {statement.record, statement.begun_state};
    thread.suspended_used = std::max(thread.suspended_used, at + 1);
  }
}

void ResumeOfAnother(Statement& statement, const char* saved) {
  ThreadState* const here = CurrentThread();
  if (here == nullptr) return;
  const NestedProbe probe(*here);
  if (!probe) return;
  OpenStatement open;
  std::memcpy(&open, saved, sizeof open);
  if (statement.record == nullptr) HideRow(open);
  statement.buffer = kBufferOfAnother;
  statement.entry = nullptr;
  statement.entry_version = BufferOwner(*here, kBufferOfAnother) = ++here->serials;
  std::memcpy(SqlBuffer(*here, kBufferOfAnother), saved + sizeof open, statement.sql_bytes);
  std::memcpy(TokenBuffer(*here, kBufferOfAnother), saved + sizeof open + statement.sql_bytes, statement.digest_bytes);
}

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
  if (const ColdLock lock; lock) {
    if (rest.suspended != nullptr && statement.record == nullptr) {
      OpenStatement open;
      std::memcpy(&open, rest.suspended, sizeof open);
      HideRow(open);
    } else {
      EndRow(statement, rest, measured.end_ticks);
    }
    if (rest.suspended == nullptr && !TakeFromTask(statement)) number = statement.serial;
  }
  errno = error;
  TakeStatement(statement, *here);
  statement.sql_bytes = statement.digest_bytes = 0;
  if (!rest.text.empty() && statement.flags != 0) SetStatementText(statement, rest.text);
  if (const NestedProbe probe(*here); probe) CountTaken(statement, measured);
  return number;
}

void ForgetEnded(uint64_t number) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || number == 0) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  for (uint32_t i = thread->statement_depth; i-- > 0;) {
    if (thread->statements[i].serial != number) continue;
    if (thread->statements[i].record != nullptr) KeepChunkOf(*thread, Kind::kStatement, thread->statements[i].record);
    OpenStatement* const end = thread->statements + thread->statement_depth--;
    for (OpenStatement* open = thread->statements + i + 1; open != end; ++open) {  // those that began inside it go on
      open->is_overtaken = true;
      open[-1] = *open;
    }
    break;
  }
  if (thread->transaction.serial == number) {
    if (thread->transaction.record != nullptr) KeepChunkOf(*thread, Kind::kTransaction, thread->transaction.record);
    thread->transaction = {};
  }
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
        OpenWait* const end = task.open_waits + task.wait_depth;
        OpenWait* const open = std::find(task.open_waits, end, record);
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
  OpenWait* const end = thread->open_waits + thread->wait_depth();
  if (std::find(thread->open_waits, end, record) == end) return;
  const uint64_t depth = NestingWithout(*thread, record);
  KeepChunkOf(*thread, Kind::kWait, record);
  thread->nesting = depth;
  if (depth == 0) thread->EndFastAgain();
}

ThreadState* EventOwner() { return t_locals.state; }

}  // namespace perfschema
