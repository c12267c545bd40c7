// record/family/transactions.h: transactions: the work of a thread between a begin and a commit or rollback.
//
// Threads: any thread, for itself. A Transaction belongs to the thread that began it.
#pragma once

#include <string_view>

#include "record/probe/nested.h"

namespace perfschema {

// Lives in the caller's memory while the transaction is active.
struct Transaction {
  ThreadState* thread;  // nullptr = not instrumented
  uint64_t serial;
  ShmTransactionRecord* record;  // for another thread that ends it; nullptr = none
  uint64_t begun_state;
  uint64_t start_ticks;
  uint32_t flags;
  uint32_t class_index;
  uint32_t is_read_only;
};

// Begins a transaction. If the thread has an active one already, that one is no longer shown but still counts.
// Preserves errno.
void BeginTransaction(Transaction& transaction, uint32_t isolation, bool is_read_only, bool autocommit, const char* file, uint32_t line);
void EndTransaction(Transaction& transaction, bool is_committed);

// These functions add details to a running transaction. They do nothing if it is not recorded, or no longer shown.
struct Xid {
  uint32_t format;
  std::string_view gtrid, bqual;
};
void SetTransactionXid(const Transaction& transaction, const Xid& xid);
void SetTransactionXaState(const Transaction& transaction, uint32_t xa_state);
void SetTransactionGtid(const Transaction& transaction, std::string_view gtid);
void SetTransactionNumber(const Transaction& transaction, uint64_t trx_id);  // only the first call has an effect
void AddToTransaction(const Transaction& transaction, Word ShmTransactionRecord::*counter, uint64_t more);

}  // namespace perfschema
