// record/family/statements.h: statements: what somebody asked the program to do, with its text, what it counted and what became of it.
//
// Threads: any thread, for itself. A Statement belongs to the thread that began it.
//
// The probe keeps the text and takes its tokens when the program gives it: in a buffer of the thread (one for each level) and in the
// record. Readers make SHA-256 and DIGEST_TEXT from the tokens. The end counts everywhere at once: in the thread's row, the histogram of
// all, the digest, the stored program and the prepared statement.
#pragma once

#include <string_view>

#include "record/family/memory.h"
#include "record/family/statement_cells.h"

namespace perfschema {

// In the caller's memory while the statement runs.
struct Statement {
  ThreadState* thread;  // nullptr = not looked at
  uint64_t serial;
  uint64_t start_ticks;
  uint64_t cpu_start;   // nanoseconds; kFlagCpu
  uint64_t digest_key;
  uint32_t flags;       // 0: refined to a class that is disabled; nothing is counted
  uint32_t class_index;
  uint32_t room;        // of its texts (record/family/text_buffers.h)
  uint32_t digest_bytes;
  uint32_t sql_bytes;
  uint32_t has_error;
  uint64_t secondary;
  MemoryPeaks outer_peaks;   // of the statement around it
  MemoryPeaks memory_before; // what the session used when it began
  ShmStoredProgram* program;       // that it is part of; nullptr = none
  uint32_t program_version;
  uint32_t prepared_version;
  ShmPrepared* prepared;     // that it executes
  uint64_t counters[kStatementCounters];
  char schema[64];           // zero padded
};

// A statement of the thread that is nested in the ones that run. `program`: the stored program that it is part of, or nullptr.
void BeginStatement(Statement& statement, uint32_t class_index, ShmStoredProgram* program, const char* file, uint32_t line);
// It has ended. What began inside it and runs still, goes on; what a longjmp or an exception has left inside it is dropped and counted.
void EndStatement(Statement& statement);

// It turns out to be of another instrument (SEMANTICS A12, A13).
void RefineStatement(Statement& statement, uint32_t class_index);
void SetStatementSchema(Statement& statement, std::string_view schema);
// SQL_TEXT, and what the digest is made of.
void SetStatementText(Statement& statement, std::string_view text);
void SetStatementCounter(Statement& statement, StatementCounter counter, uint64_t value);
void SetStatementId(Statement& statement, uint64_t statement_id);
void SetStatementSecondary(Statement& statement, bool is_secondary);
// MYSQL_ERRNO, RETURNED_SQLSTATE, MESSAGE_TEXT. `number` 0: it went well.
void SetStatementDiagnostics(Statement& statement, uint32_t number, std::string_view sqlstate, std::string_view message);

// Takes the innermost statement that runs out of the thread's stack without ending it, with what it needs to go on; it may be ended or go on later, in
// this thread. Returns how many bytes of `room` that takes: nothing has happened if there are fewer, or at 0.
size_t SuspendStatement(Statement& statement, char* room, size_t bytes);
void ResumeStatement(Statement& statement, const char* room);

// Flags of a call of a stored program, which has no instrument: it is timed as statements are (setup_timers). 0: nobody looks at it.
uint32_t TimingOfPrograms(const ThreadState& thread);

// What a prepared statement knows of the one that prepares it: its EVENT_ID, its time so far, its program.
struct PreparedFacts;
void DescribePreparer(const Statement& statement, PreparedFacts* facts);

// TRUNCATE of events_statements_histogram_global. REQUIRES: cold lock.
void EmptyHistogram();

}  // namespace perfschema
