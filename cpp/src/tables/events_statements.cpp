// events_statements_*, and the summaries of statements by thread, account, user and host, and the global one.
#include "aggregate/statements.h"
#include "snapshot/events.h"
#include "tables/event_tables.h"
#include "tables/statement_columns.h"

namespace perfschema {
namespace {

constexpr auto kLast = static_cast<uint32_t>(StatementCounter::kCpuTime);
static_assert(kLast == kStatementCounters - 1, "CPU_TIME stands behind the others");

constexpr auto kStatementColumns = columns(
    event_columns<&StatementRow::event>(), time_columns<&StatementRow::event>(),
    internal::Counters<0>(std::make_integer_sequence<uint32_t, 1>()),  // LOCK_TIME
    col<&StatementRow::sql_text>("SQL_TEXT", Unit::kNone,
                                 "Text of the statement; a text that is too long ends in three dots; NULL if it has none.")
        .literals(),
    col<&StatementRow::digest>("DIGEST", Unit::kNone, "SHA-256 of the statement without its literals; NULL if none was computed."),
    col<&StatementRow::digest_text>("DIGEST_TEXT", Unit::kNone, "The statement without its literals, blanks and comments."),
    col<&StatementRow::schema>("CURRENT_SCHEMA", Unit::kNone, "Schema that it runs in; NULL if none was given."),
    col<&StatementRow::object_type>("OBJECT_TYPE", Unit::kNone, "Kind of the stored program that it is part of; NULL for others."),
    col<&StatementRow::object_schema>("OBJECT_SCHEMA", Unit::kNone, "Schema of that program."),
    col<&StatementRow::object_name>("OBJECT_NAME", Unit::kNone, "Name of that program."),
    col<&StatementRow::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Always NULL: a statement is no object."),
    col<&StatementRow::error>("MYSQL_ERRNO", Unit::kNone, "Number of the error that it ended with; 0 if it succeeded, NULL while it runs."),
    col<&StatementRow::sqlstate>("RETURNED_SQLSTATE", Unit::kNone, "SQLSTATE that it ended with; 00000 if it succeeded."),
    col<&StatementRow::message>("MESSAGE_TEXT", Unit::kNone, "Message that it ended with.").literals(),
    internal::Counters<1>(std::make_integer_sequence<uint32_t, kLast - 1>()),  // ERRORS ... NO_GOOD_INDEX_USED
    nesting_columns<&StatementRow::event>(),
    col<&StatementRow::level>("NESTING_EVENT_LEVEL", Unit::kNone, "Number of enclosing statements of the thread."),
    col<&StatementRow::statement_id>("STATEMENT_ID", Unit::kNone, "Number that the program assigned; NULL if none."),
    internal::Counters<kLast>(std::make_integer_sequence<uint32_t, 1>()),  // CPU_TIME
    col<&StatementRow::controlled_memory>("MAX_CONTROLLED_MEMORY", Unit::kBytes, "Peak of controlled memory that it used."),
    col<&StatementRow::total_memory>("MAX_TOTAL_MEMORY", Unit::kBytes, "Peak of memory that it used."),
    col<&StatementRow::engine>("EXECUTION_ENGINE", Unit::kNone, "Engine that executes it."),
    col<&StatementRow::traceparent>("TRACEPARENT", Unit::kNone,
                                    "The span that called it, in W3C's form: 00-TRACE_ID-SPAN_ID-FLAGS; NULL if the program set none."));

template <uint32_t kView>
constexpr TableDef StatementTable(std::string_view doc) {
  return EventTable<StatementRow, ForEachStatement, Kind::kStatement, kView>(doc, columns_of<kStatementColumns>);
}

}  // namespace

PFS_EVENT_TABLES_(statements, StatementTable,
                  "The running statements of each live thread, nested ones included, or else its last statement.");

void tables::AppendRowOfStatements(const void* row, SqlText& out) { AppendRow<kStatementColumns>(row, out); }

PFS_SUM_TABLES_(statements, Kind::kStatement, "Statements");

}  // namespace perfschema
