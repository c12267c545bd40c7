#include "record/family/transactions.h"

#include <cerrno>

#include "record/context/tasks.h"
#include "record/engine/classes.h"
#include "record/engine/texts.h"
#include "record/family/elsewhere.h"

namespace perfschema {
namespace {

// Returns the record if it still belongs to this transaction.
ShmTransactionRecord* RecordOf(const Transaction& transaction) {
  const ThreadState* const thread = transaction.thread;
  if (thread == nullptr || thread != t_locals.state || thread->transaction.serial != transaction.serial) return nullptr;
  return StillHas(thread->transaction.record, thread->transaction.begun_state) ? thread->transaction.record : nullptr;
}

void ChangeBits(ShmTransactionRecord& record, uint64_t mask, uint64_t bits) {
  record.bits.store((record.bits.load(kRelaxed) & ~mask) | bits, kRelease);
}

// Forgets a transaction that was never ended, or that another thread has ended. The cold lock lets such a thread finish.
[[gnu::noinline, gnu::cold]] void ForgetTransaction(ThreadState& thread) {
  const OpenTransaction open = thread.transaction;
  const int error = errno;
  {
    const ColdLock lock;
    DropRecord(open.record, open.begun_state);
  }
  errno = error;
  if (WasEnded(open.record, open.begun_state)) KeepChunkOf(thread, Kind::kTransaction, open.record);
}

void CountTransaction(ThreadState& thread, const Transaction& transaction, const Measured& measured) {
  AddToSums<Kind::kTransaction>(thread, transaction.class_index, transaction.flags, [&](ShmCell& cell) {
    AddToStat(StatAt(cell, transaction.is_read_only != 0 ? kReadOnlyWord : kReadWriteWord), measured.timed, measured.wait_ps);
  });
}

// Completes the row of a transaction of another thread. REQUIRES: cold lock.
void EndTransactionRow(const Transaction& transaction, bool is_committed, uint64_t end_ticks) {
  ShmTransactionRecord* const record = RowOfAnother(transaction);
  if (record == nullptr) return;
  ChangeBits(*record, TransactionBits::kStateMask, is_committed ? kTransactionCommitted : kTransactionRolledBack);
  (void)EndRecordOf(*transaction.thread, record, transaction.begun_state, end_ticks);
}

}  // namespace

void BeginTransaction(Transaction& transaction, uint32_t isolation, bool is_read_only, bool autocommit, const char* file, uint32_t line) {
  transaction.thread = nullptr;
  ThreadState* const thread = CurrentThread();
  const uint32_t class_index = ClassOfKey(Family::kTransaction, 1);
  const uint32_t flags = thread == nullptr ? 0 : FlagsInThread(*thread, class_index);
  if (flags == 0) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  const BegunRecord begun =
      BeginRecord<Kind::kTransaction>(*thread, class_index, flags, RunningStatement(*thread), thread->sources.Find(file, line));
  auto* const record = static_cast<ShmTransactionRecord*>(begun.record);
  if (record != nullptr) {
    record->bits.store(TransactionBits{kTransactionActive, isolation, is_read_only, autocommit}.word(), kRelease);
    for (Word* word : {&record->savepoints, &record->rollbacks_to_savepoint, &record->releases_of_savepoint, &record->trx_id})
      word->store(0, kRelease);
    const CellWriter writer(record->seq);
    record->gtid[0].store(0, kRelease);  // the texts end here
    record->xid_gtrid[0].store(0, kRelease);
    record->xid_bqual[0].store(0, kRelease);
  }
  if (thread->transaction.record != nullptr) [[unlikely]]
    ForgetTransaction(*thread);
  const uint64_t serial = ++thread->serials, start = TicksOf(flags);
  ShowRecord(begun, start);
  thread->transaction = {record, begun.begun_state, begun.event_id, serial};
  transaction = {thread, serial, record, begun.begun_state, start, flags, class_index, is_read_only};
}

void EndTransaction(Transaction& transaction, bool is_committed) {
  ThreadState* const thread = transaction.thread;
  if (thread == nullptr) return;
  if (thread != t_locals.state) return EndOfAnother(transaction, is_committed);
  transaction.thread = nullptr;
  const Measured measured = MeasuredUntil(transaction.flags, transaction.start_ticks, TicksOf(transaction.flags));
  const NestedProbe probe(*thread);
  if (!probe) return;
  if (thread->transaction.serial == transaction.serial) {
    const OpenTransaction open = thread->transaction;
    thread->transaction = {};
    if (StillHas(open.record, open.begun_state)) {
      ChangeBits(*open.record, TransactionBits::kStateMask, is_committed ? kTransactionCommitted : kTransactionRolledBack);
      EndRecord<Kind::kTransaction>(*thread, open.record, open.begun_state, measured.end_ticks);
    }
  }
  CountTransaction(*thread, transaction, measured);
}

void EndOfAnother(Transaction& transaction, bool is_committed) {
  ThreadState* const here = CurrentThread();
  const bool may_end = here != nullptr && !IsInterrupted(*here);
  if (may_end) {
    const Measured measured = MeasuredUntil(transaction.flags, transaction.start_ticks, TicksOf(transaction.flags));
    const NestedProbe probe(*here);
    const int error = errno;
    if (const ColdLock lock; lock) EndTransactionRow(transaction, is_committed, measured.end_ticks);
    errno = error;
    CountTransaction(*here, transaction, measured);
  } else {
    CountLoss(Loss::kLockers);
  }
  transaction.thread = nullptr;
}

uint64_t EndTransactionElsewhere(Transaction& transaction, bool is_committed) {
  ThreadState* const owner = transaction.thread;
  const uint64_t number = transaction.serial;
  EndTransaction(transaction, is_committed);
  if (owner == nullptr || owner == t_locals.state) return 0;
  const int error = errno;
  bool is_aside = false;
  if (const ColdLock lock; lock) {
    is_aside = AnyAside(*owner, [number](Task& task) {
      if (task.transaction.serial != number) return false;
      task.transaction = {};
      return true;
    });
  }
  errno = error;
  return is_aside ? 0 : number;
}

void SetTransactionXid(const Transaction& transaction, const Xid& xid) {
  ShmTransactionRecord* const record = RecordOf(transaction);
  if (record == nullptr) return;
  const CellWriter writer(record->seq);
  record->xid_format.store(xid.format, kRelease);
  StoreText(record->xid_gtrid, CutText(xid.gtrid, kXidBytes));
  StoreText(record->xid_bqual, CutText(xid.bqual, kXidBytes));
  ChangeBits(*record, 0, TransactionBits::kHasXid);
}

void SetTransactionXaState(const Transaction& transaction, uint32_t xa_state) {
  if (ShmTransactionRecord* const record = RecordOf(transaction); record != nullptr) {
    ChangeBits(*record, TransactionBits::kXaMask, uint64_t{xa_state + 1} << TransactionBits::kXaShift);
  }
}

void SetTransactionGtid(const Transaction& transaction, std::string_view gtid) {
  ShmTransactionRecord* const record = RecordOf(transaction);
  if (record == nullptr) return;
  const CellWriter writer(record->seq);
  StoreText(record->gtid, CutText(gtid, kGtidBytes));
}

void SetTransactionNumber(const Transaction& transaction, uint64_t trx_id) {
  ShmTransactionRecord* const record = RecordOf(transaction);
  if (record != nullptr && record->trx_id.load(kRelaxed) == 0) record->trx_id.store(trx_id, kRelease);
}

void AddToTransaction(const Transaction& transaction, Word ShmTransactionRecord::*counter, uint64_t more) {
  if (ShmTransactionRecord* const record = RecordOf(transaction); record != nullptr) {
    (record->*counter).store((record->*counter).load(kRelaxed) + more, kRelease);
  }
}

}  // namespace perfschema
