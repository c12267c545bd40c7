#include <iterator>
#include <new>
#include <string_view>

#include "capi/texts.h"
#include "perfschema/server.h"
#include "record/family/transactions.h"

using perfschema::ShmTransactionRecord;
using perfschema::Transaction;
using perfschema::capi::TextOf;

namespace {

static_assert(sizeof(Transaction) <= sizeof(pfs_transaction_t::opaque));

// Maps NULL to a transaction that is not instrumented: nothing is stored to it.
Transaction& In(pfs_transaction_t* transaction) {
  static constinit Transaction ignored{};
  return transaction == nullptr ? ignored : *std::launder(reinterpret_cast<Transaction*>(transaction->opaque));
}

}  // namespace

extern "C" {

int pfs_transaction_begin_at(pfs_transaction_t* transaction, enum pfs_isolation isolation, int read_only, int autocommit, PFS_SITE_) {
  if (transaction == nullptr) return 0;
  const auto level = static_cast<uint32_t>(isolation);
  auto& begun = *new (transaction->opaque) Transaction;
  perfschema::BeginTransaction(begun, level < std::size(perfschema::kIsolationNames) ? level : 0, read_only != 0, autocommit != 0, file,
                               line);
  return begun.thread != nullptr ? 1 : 0;
}

void pfs_transaction_end(pfs_transaction_t* transaction, int committed) {
  if (transaction != nullptr) perfschema::EndTransaction(In(transaction), committed != 0);
}

void pfs_transaction_set_xid(pfs_transaction_t* transaction, int32_t format, const char* gtrid, const char* bqual,
                             enum pfs_xa_state state) {
  perfschema::SetTransactionXid(In(transaction), {static_cast<uint32_t>(format), TextOf(gtrid), TextOf(bqual)});
  pfs_transaction_set_xa_state(transaction, state);
}

void pfs_transaction_set_xa_state(pfs_transaction_t* transaction, enum pfs_xa_state state) {
  if (static_cast<size_t>(state) < std::size(perfschema::kXaStateNames)) perfschema::SetTransactionXaState(In(transaction), state);
}

void pfs_transaction_set_gtid(pfs_transaction_t* transaction, const char* gtid) {
  perfschema::SetTransactionGtid(In(transaction), TextOf(gtid));
}
void pfs_transaction_set_trx_id(pfs_transaction_t* transaction, uint64_t trx_id) {
  perfschema::SetTransactionNumber(In(transaction), trx_id);
}

void pfs_transaction_add_savepoints(pfs_transaction_t* transaction, uint64_t more) {
  perfschema::AddToTransaction(In(transaction), &ShmTransactionRecord::savepoints, more);
}
void pfs_transaction_add_rollbacks(pfs_transaction_t* transaction, uint64_t more) {
  perfschema::AddToTransaction(In(transaction), &ShmTransactionRecord::rollbacks_to_savepoint, more);
}
void pfs_transaction_add_releases(pfs_transaction_t* transaction, uint64_t more) {
  perfschema::AddToTransaction(In(transaction), &ShmTransactionRecord::releases_of_savepoint, more);
}

}  // extern "C"
