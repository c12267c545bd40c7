// events_transactions_*, and the summaries of transactions.
#include "snapshot/events.h"
#include "tables/event_tables.h"
#include "tables/sums.h"

namespace perfschema {

template <>
struct StatsColumns<Sums<Kind::kTransaction>> {
  template <auto... Path>
  static constexpr auto Get() {
    using Of = Sums<Kind::kTransaction>;
    return columns(timer_stats<Path..., &Of::both<kReadWriteWord, kReadOnlyWord>>("WAIT", "transactions"),
                   timer_stats<Path..., &Of::stat<kReadWriteWord>>("READ_WRITE", "transactions that may write"),
                   timer_stats<Path..., &Of::stat<kReadOnlyWord>>("READ_ONLY", "transactions that only read"));
  }
};

namespace {

constexpr auto kTransactionColumns =
    columns(event_columns<&TransactionRow::event>(),
            col<&TransactionRow::state>("STATE", Unit::kNone, "ACTIVE while it runs, then COMMITTED or ROLLED BACK."),
            col<&TransactionRow::trx_id>("TRX_ID", Unit::kNone, "Number that the program's engine assigned; NULL if none."),
            col<&TransactionRow::gtid>("GTID", Unit::kNone, "Global identifier of the transaction; NULL if none was given."),
            col<&TransactionRow::xid_format>("XID_FORMAT_ID", Unit::kNone, "Format of its XA identifier; NULL if it is no XA transaction."),
            col<&TransactionRow::xid_gtrid>("XID_GTRID", Unit::kNone, "Global part of its XA identifier."),
            col<&TransactionRow::xid_bqual>("XID_BQUAL", Unit::kNone, "Branch part of its XA identifier."),
            col<&TransactionRow::xa_state>("XA_STATE", Unit::kNone,
                                           "NOTR, ACTIVE, IDLE, PREPARED or ROLLBACK ONLY; NULL if it is no XA transaction."),
            time_columns<&TransactionRow::event>(), col<&TransactionRow::access_mode>("ACCESS_MODE", Unit::kNone, "Whether it may write."),
            col<&TransactionRow::isolation_level>("ISOLATION_LEVEL", Unit::kNone, "Isolation level at its start; NULL if none was given."),
            col<&TransactionRow::autocommit, &YesIf>("AUTOCOMMIT", Unit::kNone, "Whether each statement commits."),
            col<&TransactionRow::savepoints>("NUMBER_OF_SAVEPOINTS", Unit::kCount, "Savepoints that were set."),
            col<&TransactionRow::rollbacks_to_savepoint>("NUMBER_OF_ROLLBACK_TO_SAVEPOINT", Unit::kCount, "Rollbacks to a savepoint."),
            col<&TransactionRow::releases_of_savepoint>("NUMBER_OF_RELEASE_SAVEPOINT", Unit::kCount, "Savepoints that were released."),
            col<&TransactionRow::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Always NULL: a transaction is no object."),
            nesting_columns<&TransactionRow::event>());

template <uint32_t kView>
constexpr TableDef TransactionTable(std::string_view doc) {
  return EventTable<TransactionRow, ForEachTransaction, Kind::kTransaction, kView>(doc, columns_of<kTransactionColumns>);
}

}  // namespace

PFS_EVENT_TABLES_(transactions, TransactionTable, "The active transaction of each live thread, or else its last transaction.");

void tables::AppendRowOfTransactions(const void* row, SqlText& out) { AppendRow<kTransactionColumns>(row, out); }

PFS_SUM_TABLES_(transactions, Kind::kTransaction, "Transactions");

}  // namespace perfschema
