#include "snapshot/event_reader.h"

namespace perfschema {

struct TransactionEvent {
  static constexpr Kind kKind = Kind::kTransaction;
  using Row = TransactionRow;
  struct Extra {
    uint64_t bits, savepoints, rollbacks, releases, trx_id;
    uint32_t xid_format;
    uint64_t gtid[12], gtrid[17], bqual[17];
  };

  static bool Load(const Snapshot& snapshot, const ShmRecord& record, uint64_t, uint64_t, Extra* extra) {
    const auto& from = static_cast<const ShmTransactionRecord&>(record);
    extra->bits = from.bits.load(kAcquire);
    extra->savepoints = from.savepoints.load(kAcquire);
    extra->rollbacks = from.rollbacks_to_savepoint.load(kAcquire);
    extra->releases = from.releases_of_savepoint.load(kAcquire);
    extra->trx_id = from.trx_id.load(kAcquire);
    return snapshot.TryRead(from.seq, [&] {
      extra->xid_format = from.xid_format.load(kAcquire);
      LoadWords(from.gtid, extra->gtid);
      LoadWords(from.xid_gtrid, extra->gtrid);
      LoadWords(from.xid_bqual, extra->bqual);
    });
  }

  static bool IsNested(const EventHead&) { return false; }

  static void Emit(const Snapshot& snapshot, const EventHead& head, const Extra& extra, const std::function<void(const Row&)>& use) {
    const ClassRow* instrument = snapshot.ClassAt(head.class_index());
    if (instrument == nullptr) return;  // younger than this snapshot, or damaged
    using Bits = TransactionBits;
    TransactionRow row{};
    FillRow(snapshot, head, *instrument, &row.event);
    if (const uint64_t state = extra.bits & Bits::kStateMask; state <= kTransactionRolledBack)
      row.state = static_cast<TransactionState>(state);
    if (extra.trx_id != 0) row.trx_id = extra.trx_id;
    if (const auto gtid = snapshot.KeepWords(extra.gtid); !gtid.empty()) row.gtid = gtid;
    if ((extra.bits & Bits::kHasXid) != 0) {
      row.xid_format = static_cast<int32_t>(extra.xid_format);
      row.xid_gtrid = snapshot.KeepWords(extra.gtrid);
      row.xid_bqual = snapshot.KeepWords(extra.bqual);
    }
    const uint64_t xa_state = (extra.bits & Bits::kXaMask) >> Bits::kXaShift;
    if (xa_state >= 1 && xa_state <= std::size(kXaStateNames)) row.xa_state = kXaStateNames[xa_state - 1];
    row.access_mode = (extra.bits & Bits::kReadOnly) != 0 ? AccessMode::kReadOnly : AccessMode::kReadWrite;
    const uint64_t isolation = extra.bits >> Bits::kIsolationShift & 15;
    if (isolation >= 1 && isolation < std::size(kIsolationNames)) row.isolation_level = kIsolationNames[isolation];
    row.autocommit = (extra.bits & Bits::kAutocommit) != 0;
    row.savepoints = extra.savepoints;
    row.rollbacks_to_savepoint = extra.rollbacks;
    row.releases_of_savepoint = extra.releases;
    use(row);
  }
};

void ForEachTransaction(const Snapshot& snapshot, uint32_t view, const std::function<void(const TransactionRow&)>& use,
                        const Expect& expect) {
  EventReader<TransactionEvent>(snapshot).ForEach(view, use, expect);
}

void ForEachTracedTransaction(const Snapshot& snapshot, TraceCursor* cursor, const TraceUse& use) {
  EventReader<TransactionEvent>(snapshot).ForEachTraced(cursor, use);
}

}  // namespace perfschema
