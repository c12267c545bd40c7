// run/sqlite.cpp: makes statements of the program's calls of SQLite's C API: text, digest, rows, affected rows, errors.
//
// A statement begins at the first sqlite3_step() after a prepare or a reset and ends at SQLITE_DONE, an error, sqlite3_reset() or
// sqlite3_finalize(). Between two steps it is suspended: the program does other things, perhaps other statements. Text that SQLite cannot
// prepare, such as a query of a table that does not exist, is a statement of no time with its error. sqlite3_prepare16*() is not replaced.
#include <cstring>

#include "run/clients.h"

struct sqlite3;
struct sqlite3_stmt;

using namespace perfschema::run;

namespace {

constexpr int kRow = 100, kDone = 101, kOk = 0;  // SQLITE_ROW, SQLITE_DONE, SQLITE_OK

// The functions of the library that are called here.
struct Sqlite {
  static constexpr const char* kFirst = "sqlite3_step";
  static constexpr const char* kPrefix = "sqlite3_";
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
  int (*stmt_status)(sqlite3_stmt*, int, int);
  int (*stmt_readonly)(sqlite3_stmt*);
  int (*stmt_busy)(sqlite3_stmt*);

  explicit Sqlite(const ClientLibrary& from) {
    from.Find("sqlite3_prepare", &prepare);
    from.Find("sqlite3_prepare_v2", &prepare_v2);
    from.Find("sqlite3_prepare_v3", &prepare_v3);
    from.Find("sqlite3_step", &step);
    from.Find("sqlite3_reset", &reset);
    from.Find("sqlite3_finalize", &finalize);
    from.Find("sqlite3_sql", &sql);
    from.Find("sqlite3_db_handle", &db_handle);
    from.Find("sqlite3_errmsg", &errmsg);
    from.Find("sqlite3_extended_errcode", &extended_errcode);
    from.Find("sqlite3_total_changes", &total_changes);
    from.Find("sqlite3_stmt_status", &stmt_status);
    from.Find("sqlite3_stmt_readonly", &stmt_readonly);
    from.Find("sqlite3_stmt_busy", &stmt_busy);
  }
};

constexpr const char* kNames[] = {"statement"};
constinit StatementKeys keys("sqlite", kNames, "Statements of SQLite's C API: sqlite3_step().");

void EndAt(const Sqlite& sqlite, Running& running, sqlite3_stmt* handle, int rc) {
  pfs_statement_t* const statement = &running.statement;
  sqlite3* const db = sqlite.db_handle(handle);
  pfs_statement_set(statement, PFS_ROWS_SENT, running.rows);
  if (sqlite.stmt_readonly(handle) == 0)
    pfs_statement_set(statement, PFS_ROWS_AFFECTED, static_cast<uint64_t>(sqlite.total_changes(db) - static_cast<int>(running.before)));
  constexpr int kFullScanStep = 1, kSort = 2;  // SQLITE_STMTSTATUS_...
  if (sqlite.stmt_status(handle, kFullScanStep, 0) > 0) pfs_statement_set(statement, PFS_SELECT_SCAN, 1);
  if (sqlite.stmt_status(handle, kSort, 0) > 0) pfs_statement_set(statement, PFS_SORT_SCAN, 1);
  if (rc != kDone && rc != kOk && rc != kRow) pfs_statement_set_error(statement, sqlite.extended_errcode(db), "HY000", sqlite.errmsg(db));
  End(running);
}

// Ends a statement that the program leaves before its last row.
void Leave(const Sqlite& sqlite, sqlite3_stmt* handle) {
  Running* const running = FindRunning(handle);
  if (running == nullptr) return;
  Resume(*running);
  EndAt(sqlite, *running, handle, kDone);
}

// Makes a statement of text that could not be prepared. Returns `rc`. `size`: of sqlite3_prepare().
int Prepared(const Sqlite& sqlite, const Site& site, sqlite3* db, const char* text, int size, int rc) {
  if (rc == kOk || db == nullptr || text == nullptr || IsPlainClient()) return rc;
  const std::string_view shown(text, size < 0 ? std::strlen(text) : strnlen(text, static_cast<size_t>(size)));
  Suspendable failed{};
  if (!Begin(failed, keys.Of(0), {site.text, kWholePlace}, shown, "main")) return rc;
  pfs_statement_set_error(&failed.statement, sqlite.extended_errcode(db), "HY000", sqlite.errmsg(db));
  pfs_statement_end(&failed.statement);
  return rc;
}

}  // namespace

PFS_REPLACES int sqlite3_prepare(sqlite3* db, const char* text, int size, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  return Prepared(sqlite, site, db, text, size, sqlite.prepare(db, text, size, handle, rest));
}

PFS_REPLACES int sqlite3_prepare_v2(sqlite3* db, const char* text, int size, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  return Prepared(sqlite, site, db, text, size, sqlite.prepare_v2(db, text, size, handle, rest));
}

PFS_REPLACES int sqlite3_prepare_v3(sqlite3* db, const char* text, int size, unsigned flags, sqlite3_stmt** handle, const char** rest) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  return Prepared(sqlite, site, db, text, size, sqlite.prepare_v3(db, text, size, flags, handle, rest));
}

PFS_REPLACES int sqlite3_step(sqlite3_stmt* handle) {
  const Site& site = *PFS_RUN_SITE;
  const auto& sqlite = ClientOf<Sqlite>(site, PFS_CALLER);
  if (IsPlain() || handle == nullptr) return sqlite.step(handle);
  Running* running = FindRunning(handle);
  if (running != nullptr) {
    Resume(*running);
  } else if (sqlite.stmt_busy != nullptr && sqlite.stmt_busy(handle) != 0) {
    return sqlite.step(handle);  // its first step was not recorded
  } else {
    const char* const text = sqlite.sql(handle);
    running = BeginRunning(handle, keys.Of(0), site, text != nullptr ? text : "", "main");
    if (running != nullptr) running->before = static_cast<uint64_t>(sqlite.total_changes(sqlite.db_handle(handle)));
  }
  const int rc = sqlite.step(handle);
  if (running == nullptr) return rc;
  if (rc == kRow) {
    ++running->rows;
    Suspend(*running);
  } else {
    EndAt(sqlite, *running, handle, rc);
  }
  return rc;
}

PFS_REPLACES int sqlite3_reset(sqlite3_stmt* handle) {
  const auto& sqlite = ClientOf<Sqlite>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlain()) Leave(sqlite, handle);
  return sqlite.reset(handle);
}

PFS_REPLACES int sqlite3_finalize(sqlite3_stmt* handle) {
  const auto& sqlite = ClientOf<Sqlite>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlain()) Leave(sqlite, handle);
  return sqlite.finalize(handle);
}
