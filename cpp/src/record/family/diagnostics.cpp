#include "record/family/diagnostics.h"

#include <span>

#include "record/context/threads.h"
#include "record/family/statements.h"
#include "record/probe/nested.h"

namespace perfschema {

[[gnu::cold]] void HideMessages(ThreadState& thread) {
  for (const OpenStatement& open : std::span(thread.statements, thread.statement_depth)) {
    if (!StillHas(open.record, open.begun_state)) continue;
    ShmStatementRecord& record = *open.record;
    const CellWriter writer(record.seq);
    const uint64_t bits = record.bits.load(kRelaxed);
    if ((bits & kStatementHasDiagnostics) != 0 && record.message[0].load(kRelaxed) != 0) {
      ClearShared<16>(record.message);
      StoreText(record.message, kSecretMask);
    }
    record.bits.store(bits | kStatementHidesMessage, kRelease);
  }
}

[[gnu::cold]] void NoteSecret(Statement& statement) {
  statement.has_secret = true;
  constexpr auto kAt = static_cast<uint32_t>(StatementCounter::kErrors);
  if ((statement.set >> kAt & 1) != 0) HideMessages(*statement.thread);
}

}  // namespace perfschema
