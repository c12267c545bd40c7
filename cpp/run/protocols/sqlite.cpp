// run/protocols/sqlite.cpp: makes statements of the program's calls of SQLite's C API: text, digest, rows, affected rows, errors.
//
// A statement begins at the first sqlite3_step() after a prepare or a reset and ends at SQLITE_DONE, an error, sqlite3_reset() or
// sqlite3_finalize(). Between two steps it is suspended: the program does other things, perhaps other statements. To prepare it is an event
// without a text, so that digests count executions only. Text that SQLite cannot prepare, such as a query of a table that does not exist,
// is a statement of no time with its error. sqlite3_prepare16*() is not replaced.
// Affected rows are what sqlite3_changes() says when the statement's program ends.
#include <algorithm>
#include <cstring>

#include "run/protocols/clients.h"

struct sqlite3;
struct sqlite3_mutex;
struct sqlite3_stmt;

using namespace perfschema::run;

namespace {

constexpr int kRow = 100, kDone = 101, kOk = 0;  // SQLITE_ROW, SQLITE_DONE, SQLITE_OK

// The functions of the library that are called here.
struct Sqlite : ClientFunctions {
  static constexpr const char* kFirst = "sqlite3_step";
  static constexpr const char* kPrefix = kOfSqlite;
  int (*prepare)(sqlite3*, const char*, int, sqlite3_stmt**, const char**);
  int (*prepare_v2)(sqlite3*, const char*, int, sqlite3_stmt**, const char**);
  int (*prepare_v3)(sqlite3*, const char*, int, unsigned, sqlite3_stmt**, const char**);
  int (*step)(sqlite3_stmt*);
  int (*reset)(sqlite3_stmt*);
  int (*finalize)(sqlite3_stmt*);
  const char* (*sql)(sqlite3_stmt*);
  sqlite3* (*db_handle)(sqlite3_stmt*);
  const char* (*errmsg)(sqlite3*);
  int (*extended_errcode)(sqlite3*);
  int (*total_changes)(sqlite3*);
  int (*changes)(sqlite3*);
  long long (*changes64)(sqlite3*);  // nullptr before SQLite 3.37
  sqlite3_mutex* (*db_mutex)(sqlite3*);
  void (*mutex_enter)(sqlite3_mutex*);
  void (*mutex_leave)(sqlite3_mutex*);
  int (*stmt_status)(sqlite3_stmt*, int, int);
  int (*stmt_readonly)(sqlite3_stmt*);
  int (*stmt_busy)(sqlite3_stmt*);

  explicit Sqlite(const ClientLibrary& from) {
    from.FindReplaced<1>("sqlite3_prepare", &prepare);
    from.FindReplaced<1>("sqlite3_prepare_v2", &prepare_v2);
    from.FindReplaced<1>("sqlite3_prepare_v3", &prepare_v3);
    from.FindReplaced<1>("sqlite3_step", &step);
    from.FindReplaced<1>("sqlite3_reset", &reset);
    from.FindReplaced<1>("sqlite3_finalize", &finalize);
    from.Find("sqlite3_sql", &sql);
    from.Find("sqlite3_db_handle", &db_handle);
    from.Find("sqlite3_errmsg", &errmsg);
    from.Find("sqlite3_extended_errcode", &extended_errcode);
    from.Find("sqlite3_total_changes", &total_changes);
    from.Find("sqlite3_changes", &changes);
    from.Find("sqlite3_changes64", &changes64);
    from.Find("sqlite3_db_mutex", &db_mutex);
    from.Find("sqlite3_mutex_enter", &mutex_enter);
    from.Find("sqlite3_mutex_leave", &mutex_leave);
    from.Find("sqlite3_stmt_status", &stmt_status);
    from.Find("sqlite3_stmt_readonly", &stmt_readonly);
    from.Find("sqlite3_stmt_busy", &stmt_busy);
  }
};

enum Kind { kStatement, kPrepare };
constexpr const char* kNames[] = {"statement", "prepare"};
constinit StatementKeys keys("sqlite", kNames, PFS_DIALECT_SQLITE, "Statements of SQLite's C API: sqlite3_step(), sqlite3_prepare().");

// Returns whether a statement changes rows itself. Others may do so by statements inside: CREATE VIRTUAL TABLE, ANALYZE.
bool ChangesRows(std::string_view text) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\f;"), text.size()));
    const bool is_line = text.starts_with("--");
    if (!is_line && !text.starts_with("/*")) break;
    const size_t end = text.find(is_line ? "\n" : "*/", 2);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + (is_line ? 1 : 2));
  }
  for (const std::string_view word : {"INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"}) {
    const std::string_view first = text.substr(0, word.size());
    if (std::equal(first.begin(), first.end(), word.begin(), word.end(), [](char a, char b) { return (a & 0xdf) == b; })) return true;
  }
  return false;
}

// Calls a function that may end the program of a statement: SQLite then sets the number of rows that the statement itself has changed,
// without those of triggers, cascades and virtual tables. The mutex of the connection, which the function takes, too, keeps others from
// changing the number until it has been read.
template <typename Call>
int Counted(const Sqlite& sqlite, Running& running, sqlite3_stmt* handle, Call call) {
  if (!running.is_change) return InsideOf(call);
  sqlite3* const db = sqlite.db_handle(handle);
  sqlite3_mutex* const mutex = sqlite.db_mutex(db);  // nullptr: the program sees to it
  sqlite.mutex_enter(mutex);
  const int before = sqlite.total_changes(db);
  const int rc = InsideOf(call);
  if (sqlite.total_changes(db) != before) {
    running.affected = static_cast<uint64_t>(sqlite.changes64 != nullptr ? sqlite.changes64(db) : sqlite.changes(db));
  }
  sqlite.mutex_leave(mutex);
  return rc;
}

// Sets what the statement says of its rows and its plan. REQUIRES: the handle still is.
void Describe(const Sqlite& sqlite, Running& running, sqlite3_stmt* handle) {
  pfs_statement_t* const statement = &running.statement;
  pfs_statement_set(statement, PFS_ROWS_SENT, running.rows);
  constexpr int kFullScanStep = 1, kSort = 2;  // SQLITE_STMTSTATUS_...
  if (sqlite.stmt_status(handle, kFullScanStep, 0) > 0) pfs_statement_set(statement, PFS_SELECT_SCAN, 1);
  if (sqlite.stmt_status(handle, kSort, 0) > 0) pfs_statement_set(statement, PFS_SORT_SCAN, 1);
}

void EndOf(Running& running) {
  if (running.affected != 0) pfs_statement_set(&running.statement, PFS_ROWS_AFFECTED, running.affected);
  End(running);
}

// Calls a function of a statement that ends it before its last row, or after it.
template <typename Call>
int Leave(const Sqlite& sqlite, sqlite3_stmt* handle, Call call) {
  Running* const running = FindRunning(handle);
  if (running == nullptr) return InsideOf(call);
  Resume(*running);
  Describe(sqlite, *running, handle);
  const int rc = Counted(sqlite, *running, handle, call);
  EndOf(*running);
  return rc;
}

// Prepares a statement, which has an event of its own. Text that could not be prepared makes a statement. `size`: of sqlite3_prepare().
template <typename Call>
int Prepare(const Sqlite& sqlite, const Site& site, sqlite3* db, const char* text, int size, Call call) {
  const SourceLine at{site.text, kWholePlace};
  Suspendable event{};
  const bool is_recorded = Begin(event, keys.Of(kPrepare), at, {}, "main");
  const int rc = InsideOf(call);
  if (is_recorded) pfs_statement_end(&event.statement);
  if (rc == kOk || db == nullptr || text == nullptr) return rc;
  const std::string_view shown(text, size < 0 ? std::strlen(text) : strnlen(text, static_cast<size_t>(size)));
  if (!Begin(event, keys.Of(kStatement), at, shown, "main")) return rc;
  pfs_statement_set_error(&event.statement, sqlite.extended_errcode(db), "HY000", sqlite.errmsg(db));
  pfs_statement_end(&event.statement);
  return rc;
}

}  // namespace

PFS_REPLACES int sqlite3_prepare(sqlite3* db, const char* text, int size, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  if (IsPlainClient(sqlite)) return sqlite.prepare(db, text, size, handle, rest);
  return Prepare(sqlite, site, db, text, size, [&] { return sqlite.prepare(db, text, size, handle, rest); });
}

PFS_REPLACES int sqlite3_prepare_v2(sqlite3* db, const char* text, int size, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  if (IsPlainClient(sqlite)) return sqlite.prepare_v2(db, text, size, handle, rest);
  return Prepare(sqlite, site, db, text, size, [&] { return sqlite.prepare_v2(db, text, size, handle, rest); });
}

PFS_REPLACES int sqlite3_prepare_v3(sqlite3* db, const char* text, int size, unsigned flags, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  if (IsPlainClient(sqlite)) return sqlite.prepare_v3(db, text, size, flags, handle, rest);
  return Prepare(sqlite, site, db, text, size, [&] { return sqlite.prepare_v3(db, text, size, flags, handle, rest); });
}

PFS_REPLACES int sqlite3_step(sqlite3_stmt* handle) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  if (IsPlainClient(sqlite) || handle == nullptr) return sqlite.step(handle);
  const auto step = [&] { return sqlite.step(handle); };
  Running* running = FindRunning(handle);
  if (running != nullptr) {
    Resume(*running);
  } else if (sqlite.stmt_busy != nullptr && sqlite.stmt_busy(handle) != 0) {
    return InsideOf(step);  // its first step was not recorded
  } else {
    const char* const text = sqlite.sql(handle);
    running = BeginRunning(handle, keys.Of(kStatement), site, text != nullptr ? text : "", "main");
    if (running != nullptr) running->is_change = text != nullptr && sqlite.stmt_readonly(handle) == 0 && ChangesRows(text);
  }
  if (running == nullptr) return InsideOf(step);
  const int rc = Counted(sqlite, *running, handle, step);
  if (rc == kRow) {
    ++running->rows;
    Suspend(*running);
    return rc;
  }
  Describe(sqlite, *running, handle);
  if (rc != kDone && rc != kOk) {
    sqlite3* const db = sqlite.db_handle(handle);
    pfs_statement_set_error(&running->statement, sqlite.extended_errcode(db), "HY000", sqlite.errmsg(db));
  }
  EndOf(*running);
  return rc;
}

PFS_REPLACES int sqlite3_reset(sqlite3_stmt* handle) {
  const auto& sqlite = ClientOf<Sqlite>(*PFS_RUN_SITE, PFS_CALLER);
  if (IsPlainClient(sqlite)) return sqlite.reset(handle);
  return Leave(sqlite, handle, [&] { return sqlite.reset(handle); });
}

PFS_REPLACES int sqlite3_finalize(sqlite3_stmt* handle) {
  const auto& sqlite = ClientOf<Sqlite>(*PFS_RUN_SITE, PFS_CALLER);
  if (IsPlainClient(sqlite)) return sqlite.finalize(handle);
  return Leave(sqlite, handle, [&] { return sqlite.finalize(handle); });
}
