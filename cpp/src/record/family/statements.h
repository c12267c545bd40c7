// record/family/statements.h: statements: requests that the program executes, with text, counters and result.
//
// Threads: any thread, for itself. A Statement belongs to the thread that began it.
//
// The probe copies the text and computes its tokens when the program supplies it: into a buffer of the thread (one
// for each level) and into the record. Readers make SHA-256 and DIGEST_TEXT from the tokens. The end counts in the
// thread's row, the global histogram, the digest, the stored program and the prepared statement.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/sql_dialect.h"
#include "base/text.h"
#include "record/engine/texts.h"
#include "record/family/memory.h"
#include "record/family/statement_cells.h"
#include "record/family/token_cache.h"

namespace perfschema {

// Lives in the caller's memory while the statement runs.
struct Statement {
  ThreadState* thread;  // nullptr = not instrumented
  uint64_t serial;
  ShmStatementRecord* record;  // for another thread that ends it; nullptr = it has none, or the owner does not hold its chunk
  uint64_t begun_state;
  uint64_t start_ticks;
  uint64_t cpu_start;  // nanoseconds; kFlagCpu
  uint64_t digest_key;
  uint32_t flags;  // 0: refined to a class that is disabled; nothing is counted
  uint32_t class_index;
  uint32_t buffer;  // index of its text buffer (record/family/text_buffers.h)
  uint32_t digest_bytes;
  uint32_t sql_bytes;
  uint32_t set;  // bit i: counters[i] has a value
  uint16_t schema_bytes;
  bool has_secret;  // its text was masked
  bool is_secondary;
  TokenCache::Entry* entry;  // with its tokens, if its version is still entry_version; nullptr = none
  uint64_t entry_version;
  MemoryPeaks outer_peaks;    // peaks of the enclosing statement
  MemoryPeaks memory_before;  // memory use of the session when the statement began
  ShmStoredProgram* program;  // the program that it is part of; nullptr = none
  uint32_t program_version;
  uint32_t prepared_version;
  ShmPrepared* prepared;                  // the prepared statement that it executes
  uint64_t counters[kStatementCounters];  // of `set`
  char schema[64];                        // zero padded, if schema_bytes is not 0
};

// Begins a statement of the thread, nested in the running ones. `program`: the stored program that it is part of, or
// nullptr.
void BeginStatement(Statement& statement, uint32_t class_index, ShmStoredProgram* program, const char* file, uint32_t line);
// Ends the statement. Events that began inside it and still run, go on. Events that a longjmp or an exception left
// inside it are dropped and counted.
void EndStatement(Statement& statement);

// Changes the instrument of the statement (semantics.md A12, A13).
void RefineStatement(Statement& statement, uint32_t class_index);
void SetStatementSchema(Statement& statement, std::string_view schema);
// Sets the language of later texts.
void SetStatementDialect(Statement& statement, Dialect dialect);
// Sets SQL_TEXT and computes the digest.
void SetStatementText(Statement& statement, std::string_view text);
void SetStatementCounter(Statement& statement, StatementCounter counter, uint64_t value);
void SetStatementId(Statement& statement, uint64_t statement_id);
void SetStatementSecondary(Statement& statement, bool is_secondary);
// Sets TRACEPARENT; nullptr: it has none.
struct Traceparent;
void SetStatementTraceparent(Statement& statement, const Traceparent* parent);
// Sets MYSQL_ERRNO, RETURNED_SQLSTATE, MESSAGE_TEXT. `number` 0: success.
void SetStatementDiagnostics(Statement& statement, uint32_t number, std::string_view sqlstate, std::string_view message);

// Counts a statement of the calling thread that has ended, as EndStatement() does.
[[gnu::noinline]] void CountStatement(Statement& statement, const StatementNumbers& numbers);

// Takes the innermost running statement off the thread's stack without ending it, and saves its state in `saved`. This
// thread may end or resume it later. Returns the number of bytes that the state needs. If `bytes` is smaller, or on
// failure (0), nothing changes.
size_t SuspendStatement(Statement& statement, char* saved, size_t bytes);
void ResumeStatement(Statement& statement, const char* saved);

// Returns the flags of a call of a stored program. It has no instrument: it is timed as statements are
// (setup_timers). 0: it is not instrumented.
uint32_t TimingOfPrograms(const ThreadState& thread);

// Fills in the data of the preparing statement: its EVENT_ID, its time so far, its program.
struct NewPrepared;
void DescribePreparer(const Statement& statement, NewPrepared* prepared);

}  // namespace perfschema
