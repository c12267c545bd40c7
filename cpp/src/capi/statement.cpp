#include <iterator>
#include <new>
#include <string_view>

#include "base/traceparent.h"
#include "capi/guarded.h"
#include "capi/texts.h"
#include "perfschema/server.h"
#include "record/engine/classes.h"
#include "record/family/programs.h"
#include "record/family/statements.h"

using perfschema::ShmPrepared;
using perfschema::ShmStoredProgram;
using perfschema::Statement;
using perfschema::StatementCounter;
using perfschema::capi::TextOf;

namespace {

static_assert(sizeof(Statement) <= sizeof(pfs_statement_t::opaque));
static_assert(PFS_DIALECT_PYTHON == static_cast<uint32_t>(perfschema::Dialect::kPython) << PFS_DIALECT_SHIFT);
#define PFS_SAME_(counter, name) static_assert(static_cast<int>(StatementCounter::counter) == name)
PFS_SAME_(kLockTime, PFS_LOCK_TIME);
PFS_SAME_(kErrors, PFS_ERRORS);
PFS_SAME_(kRowsExamined, PFS_ROWS_EXAMINED);
PFS_SAME_(kMergePasses, PFS_SORT_MERGE_PASSES);
PFS_SAME_(kNoGoodIndex, PFS_NO_GOOD_INDEX_USED);
#undef PFS_SAME_
constexpr uint32_t kSettable = PFS_NO_GOOD_INDEX_USED + 1;  // all further counters are measured

// Maps NULL to a statement that is not instrumented: nothing is stored to it.
Statement& In(pfs_statement_t* statement) {
  static constinit Statement ignored{};
  return statement == nullptr ? ignored : *std::launder(reinterpret_cast<Statement*>(statement->opaque));
}
uint64_t CounterOf(const Statement& statement, uint32_t counter) {
  return (statement.set >> counter & 1) != 0 ? statement.counters[counter] : 0;
}
ShmStoredProgram* AsProgram(pfs_program_t* program) { return reinterpret_cast<ShmStoredProgram*>(program); }
ShmPrepared* AsPrepared(pfs_prepared_t* prepared) { return reinterpret_cast<ShmPrepared*>(prepared); }
std::string_view TextOf(const char* text, size_t bytes) { return text != nullptr ? std::string_view(text, bytes) : ""; }

// A call of a stored program in progress.
struct Call {
  perfschema::ThreadState* thread;
  ShmStoredProgram* program;
  uint64_t start_ticks;
  uint32_t flags;
  uint32_t version;
};
static_assert(sizeof(Call) <= sizeof(pfs_program_call_t::opaque));

}  // namespace

extern "C" {

int pfs_register_statement(const char* component, pfs_statement_info_t* info, int count) {
  return perfschema::capi::RegisterFamily(perfschema::Family::kStatement, component, info, count);
}

int pfs_statement_begin_at(pfs_statement_t* statement, pfs_key_t key, pfs_program_t* program, PFS_SITE_) {
  if (statement == nullptr) return 0;
  auto& begun = *new (statement->opaque) Statement;
  perfschema::BeginStatement(begun, perfschema::ClassOfKey(perfschema::Family::kStatement, key), AsProgram(program), file, line);
  return begun.thread != nullptr ? 1 : 0;
}

void pfs_statement_end(pfs_statement_t* statement) { perfschema::EndStatement(In(statement)); }

size_t pfs_statement_suspend(pfs_statement_t* statement, void* buffer, size_t bytes) {
  return perfschema::SuspendStatement(In(statement), static_cast<char*>(buffer), bytes);
}
void pfs_statement_resume(pfs_statement_t* statement, const void* buffer) {
  perfschema::ResumeStatement(In(statement), static_cast<const char*>(buffer));
}

void pfs_statement_refine(pfs_statement_t* statement, pfs_key_t key) {
  perfschema::RefineStatement(In(statement), perfschema::ClassOfKey(perfschema::Family::kStatement, key));
}

void pfs_statement_set_schema(pfs_statement_t* statement, const char* schema) {
  perfschema::SetStatementSchema(In(statement), TextOf(schema));
}

void pfs_statement_set_dialect(pfs_statement_t* statement, uint32_t dialect) {
  perfschema::SetStatementDialect(In(statement), static_cast<perfschema::Dialect>(dialect >> PFS_DIALECT_SHIFT & 15));
}

void pfs_statement_set_text(pfs_statement_t* statement, const char* text, size_t bytes) {
  perfschema::SetStatementText(In(statement), TextOf(text, bytes));
}

void pfs_statement_set(pfs_statement_t* statement, enum pfs_statement_counter counter, uint64_t value) {
  if (static_cast<uint32_t>(counter) < kSettable)
    perfschema::SetStatementCounter(In(statement), static_cast<StatementCounter>(counter), value);
}

void pfs_statement_add(pfs_statement_t* statement, enum pfs_statement_counter counter, uint64_t more) {
  if (static_cast<uint32_t>(counter) >= kSettable || In(statement).thread == nullptr) return;
  perfschema::SetStatementCounter(In(statement), static_cast<StatementCounter>(counter), CounterOf(In(statement), counter) + more);
}

void pfs_statement_set_error(pfs_statement_t* statement, int number, const char* sqlstate, const char* message) {
  const std::string_view state = sqlstate != nullptr ? sqlstate : number == 0 ? "00000" : "HY000";
  perfschema::SetStatementDiagnostics(In(statement), static_cast<uint32_t>(number), state, TextOf(message));
}

int pfs_statement_set_traceparent(pfs_statement_t* statement, const char* text, size_t bytes) {
  const std::string_view given = TextOf(text, bytes);
  const std::optional<perfschema::Traceparent> parent = perfschema::ParseTraceparent(given);
  if (!given.empty() && !parent) return -1;
  perfschema::SetStatementTraceparent(In(statement), parent ? &*parent : nullptr);
  return 0;
}

void pfs_statement_set_id(pfs_statement_t* statement, uint64_t statement_id) { perfschema::SetStatementId(In(statement), statement_id); }
void pfs_statement_set_secondary(pfs_statement_t* statement, int is_secondary) {
  perfschema::SetStatementSecondary(In(statement), is_secondary != 0);
}

pfs_program_t* pfs_program(enum pfs_object_type type, const char* schema, const char* name) {
  const auto object = static_cast<perfschema::ObjectType>(type);
  if (object < perfschema::ObjectType::kEvent || object > perfschema::ObjectType::kTrigger) return nullptr;
  return reinterpret_cast<pfs_program_t*>(perfschema::FindProgram(object, TextOf(schema), TextOf(name)));
}

void pfs_program_drop(enum pfs_object_type type, const char* schema, const char* name) {
  perfschema::DropProgram(static_cast<perfschema::ObjectType>(type), TextOf(schema), TextOf(name));
}

void pfs_program_begin(pfs_program_call_t* call, pfs_program_t* program) {
  if (call == nullptr) return;
  auto& begun = *new (call->opaque) Call{};
  perfschema::ThreadState* const thread = program == nullptr ? nullptr : perfschema::CurrentThread();
  const uint32_t flags = thread == nullptr ? 0 : perfschema::TimingOfPrograms(*thread);
  if (flags == 0) return;
  begun = {thread, AsProgram(program), perfschema::TicksOf(flags), flags, AsProgram(program)->version.load(perfschema::kRelaxed)};
}

void pfs_program_end(pfs_program_call_t* call) {
  if (call == nullptr) return;
  Call& begun = *std::launder(reinterpret_cast<Call*>(call->opaque));
  perfschema::ThreadState* const thread = begun.thread;
  begun.thread = nullptr;
  if (thread == nullptr || thread != perfschema::t_locals.state) return;
  const perfschema::Measured time = perfschema::MeasuredUntil(begun.flags, begun.start_ticks, perfschema::TicksOf(begun.flags));
  if (const perfschema::NestedProbe probe(*thread); probe) perfschema::CountCall(*thread, *begun.program, begun.version, time);
}

pfs_prepared_t* pfs_prepared_create(const void* identity, uint64_t statement_id, pfs_statement_t* statement, const char* name,
                                    const char* text, size_t bytes) {
  if (!perfschema::EnsureStarted()) return nullptr;
  perfschema::NewPrepared prepared{reinterpret_cast<uintptr_t>(identity), statement_id, TextOf(name), TextOf(text, bytes), 0, 0, nullptr};
  if (statement != nullptr) perfschema::DescribePreparer(In(statement), &prepared);
  return reinterpret_cast<pfs_prepared_t*>(perfschema::MakePrepared(prepared));
}

void pfs_prepared_destroy(pfs_prepared_t* prepared) {
  if (prepared != nullptr) perfschema::DestroyPrepared(*AsPrepared(prepared));
}

void pfs_prepared_reprepare(pfs_prepared_t* prepared) {
  if (prepared != nullptr) AsPrepared(prepared)->reprepared.fetch_add(1, perfschema::kRelease);
}

void pfs_prepared_set_text(pfs_prepared_t* prepared, const char* text, size_t bytes) {
  if (prepared != nullptr) perfschema::SetPreparedText(*AsPrepared(prepared), TextOf(text, bytes));
}

void pfs_prepared_set_secondary(pfs_prepared_t* prepared, int is_secondary) {
  if (prepared != nullptr) perfschema::SetPreparedSecondary(*AsPrepared(prepared), is_secondary != 0);
}

void pfs_statement_executes(pfs_statement_t* statement, pfs_prepared_t* prepared) {
  if (prepared == nullptr || In(statement).thread == nullptr) return;
  In(statement).prepared = AsPrepared(prepared);
  In(statement).prepared_version = AsPrepared(prepared)->version.load(perfschema::kRelaxed);
}

}  // extern "C"
