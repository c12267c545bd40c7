// record/family/diagnostics.h: errors of statements, whose messages must not quote a secret.
//
// A message may quote the text of its statement whole, in part, or as another text: `near 'x'`. So a statement whose text has a secret has
// no message but that it is hidden. An error also leaves the statements around it, as an exception with the same message.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/secrets.h"
#include "base/text.h"
#include "record/engine/texts.h"
#include "shm/records.h"

namespace perfschema {

struct Statement;
struct ThreadState;

// Stores MYSQL_ERRNO, RETURNED_SQLSTATE, MESSAGE_TEXT. `has_secret`: the text of the statement has one. REQUIRES: the record's seq is odd.
inline void StoreDiagnostics(ShmStatementRecord& record, bool has_secret, uint32_t number, std::string_view sqlstate,
                             std::string_view message) {
  has_secret |= (record.bits.load(kRelaxed) & kStatementHidesMessage) != 0;
  if (has_secret && !message.empty()) message = kSecretMask;
  record.error.store(number, kRelease);
  uint64_t state = 0;
  std::memcpy(&state, sqlstate.data(), std::min<size_t>(sqlstate.size(), 5));
  record.sqlstate.store(state, kRelease);
  StoreText(record.message, CutText(message, 128));
}

// Hides the messages of the thread's running statements, those that they have and those that they get. For a statement that has a secret
// and an error.
void HideMessages(ThreadState& thread);
// Notes that the text of a statement has a secret. The error may have come first.
void NoteSecret(Statement& statement);

}  // namespace perfschema
