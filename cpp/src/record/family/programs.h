// record/family/programs.h: stored programs of the application, and prepared statements: objects that statements
// count for.
//
// Threads: any thread. Creation and removal are cold.
#pragma once

#include <string_view>

#include "record/family/statement_cells.h"

namespace perfschema {

// Finds or makes the program (type, schema, name). Returns nullptr if the segment is full (counted), or setup_objects
// excludes it. Preserves errno.
ShmStoredProgram* FindProgram(ObjectType type, std::string_view schema, std::string_view name);
void DropProgram(ObjectType type, std::string_view schema, std::string_view name);

// Counts a call of a program: COUNT_STAR and its times.
void CountCall(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const Measured& time);
// Counts a statement that ran as part of the program: COUNT_STATEMENTS, its times and its counters.
void CountInProgram(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const StatementNumbers& numbers);

// Makes a prepared statement, which lives until it is destroyed. nullptr: the segment is full; the loss is counted.
struct NewPrepared {
  uint64_t identity, statement_id;
  std::string_view name, text;
  uint64_t owner_event_id;
  uint64_t prepare_ps;
  const ShmStoredProgram* program;
};
ShmPrepared* MakePrepared(const NewPrepared& wanted);
void DestroyPrepared(ShmPrepared& prepared);
void SetPreparedText(ShmPrepared& prepared, std::string_view text);
void SetPreparedSecondary(ShmPrepared& prepared, bool is_secondary);
void CountExecution(ThreadState& thread, ShmPrepared& prepared, uint32_t version, const StatementNumbers& numbers);

// TRUNCATE of events_statements_summary_by_program and prepared_statements_instances: rows stay, their numbers are
// cleared. REQUIRES: cold lock.
void EmptyPrograms();
// Applies changed rows of setup_objects. REQUIRES: cold lock.
void ReapplyRulesToPrograms();
void EmptyPrepared();

}  // namespace perfschema
