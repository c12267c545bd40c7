// record/family/programs.h: stored programs of the user's, and prepared statements: objects that statements count for.
//
// Threads: any thread; making and unmaking one is cold.
#pragma once

#include <string_view>

#include "record/family/statement_cells.h"

namespace perfschema {

// Finds or makes the program (type, schema, name). nullptr: there is no room (counted), or setup_objects does not let it through. Preserves errno.
ShmStoredProgram* FindProgram(ObjectType type, std::string_view schema, std::string_view name);
void DropProgram(ObjectType type, std::string_view schema, std::string_view name);

// A call of a program: COUNT_STAR and its times.
void CountCall(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const Measured& time);
// A statement that ran as part of it: COUNT_STATEMENTS and its times, and all that the statement counted.
void CountInProgram(ThreadState& thread, ShmStoredProgram& program, uint32_t version, const StatementNumbers& numbers);

// A prepared statement that lives until it is destroyed. nullptr: no room, counted.
struct PreparedFacts {
  uint64_t identity, statement_id;
  std::string_view name, text;
  uint64_t owner_event_id;
  uint64_t prepare_ps;
  const ShmStoredProgram* program;
};
ShmPrepared* MakePrepared(const PreparedFacts& facts);
void DestroyPrepared(ShmPrepared& prepared);
void SetPreparedText(ShmPrepared& prepared, std::string_view text);
void SetPreparedSecondary(ShmPrepared& prepared, bool is_secondary);
void CountExecution(ThreadState& thread, ShmPrepared& prepared, uint32_t version, const StatementNumbers& numbers);

// TRUNCATE of events_statements_summary_by_program and prepared_statements_instances: rows stay, their numbers go. REQUIRES: cold lock.
void EmptyPrograms();
// What setup_objects says has changed. REQUIRES: cold lock.
void ReapplyRulesToPrograms();
void EmptyPrepared();

}  // namespace perfschema
