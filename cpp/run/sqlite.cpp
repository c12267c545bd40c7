// run/sqlite.cpp: makes statements of the program's calls of SQLite's C API: text, digest, rows, affected rows, errors.
//
// A statement begins at the first sqlite3_step() after a prepare or a reset and ends at SQLITE_DONE, an error, sqlite3_reset() or
// sqlite3_finalize(). Between two steps it is suspended: the program does other things, perhaps other statements. Works for every library
// that the dynamic linker finds by name, also for one that was dlopened locally.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "run/real.h"
#include "run/sites.h"
#include "run/small_lock.h"

struct sqlite3;
struct sqlite3_stmt;

using namespace perfschema::run;

namespace {

constexpr int kRow = 100, kDone = 101, kOk = 0;  // SQLITE_ROW, SQLITE_DONE, SQLITE_OK

// The functions of the library that are called here.
struct Sqlite {
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
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

const Sqlite& Library() {
  static Sqlite found;
  static std::atomic<bool> is_found{false};
  static SmallLock lock;
  if (is_found.load(std::memory_order_acquire)) return found;
  Sqlite library;
  void* from = RTLD_NEXT;
  if (dlsym(from, "sqlite3_step") == nullptr) from = dlopen("libsqlite3.so.0", RTLD_NOLOAD | RTLD_LAZY);
  Find(from, "sqlite3_step", &library.step);
  Find(from, "sqlite3_reset", &library.reset);
  Find(from, "sqlite3_finalize", &library.finalize);
  Find(from, "sqlite3_sql", &library.sql);
  Find(from, "sqlite3_db_handle", &library.db_handle);
  Find(from, "sqlite3_errmsg", &library.errmsg);
  Find(from, "sqlite3_extended_errcode", &library.extended_errcode);
  Find(from, "sqlite3_total_changes", &library.total_changes);
  Find(from, "sqlite3_stmt_status", &library.stmt_status);
  Find(from, "sqlite3_stmt_readonly", &library.stmt_readonly);
  const SmallLock::Guard guard(lock);
  found = library;
  is_found.store(true, std::memory_order_release);  // pairs with the load above
  return found;
}

// A statement that runs. Threads: a connection's statements are the program's to serialize, as SQLite demands.
struct Running {
  std::atomic<sqlite3_stmt*> handle;  // nullptr = free
  pfs_statement_t statement;
  uint64_t kept[64];  // its state while it is suspended
  size_t kept_bytes;
  uint64_t rows;
  int changes;  // of the connection before
};
constexpr size_t kMost = 1024;  // statements at a time; others are not recorded
std::atomic<Running*> table{nullptr};

Running* Table() {
  Running* entries = table.load(std::memory_order_acquire);
  if (entries != nullptr) return entries;
  auto* const fresh = static_cast<Running*>(std::calloc(kMost, sizeof(Running)));
  if (fresh == nullptr) return nullptr;
  if (table.compare_exchange_strong(entries, fresh)) return fresh;
  std::free(fresh);
  return entries;
}

Running* Find(sqlite3_stmt* handle, bool must_add) {
  Running* const entries = Table();
  if (entries == nullptr || handle == nullptr) return nullptr;
  size_t at = (reinterpret_cast<uintptr_t>(handle) * 0x9e3779b97f4a7c15u) >> (64 - 10);
  Running* free = nullptr;
  for (size_t i = 0; i < 16; ++i, at = (at + 1) % kMost) {
    sqlite3_stmt* const there = entries[at].handle.load(std::memory_order_acquire);
    if (there == handle) return &entries[at];
    if (there == nullptr && free == nullptr) free = &entries[at];
  }
  sqlite3_stmt* none = nullptr;
  if (!must_add || free == nullptr || !free->handle.compare_exchange_strong(none, handle)) return nullptr;
  new (&free->statement) pfs_statement_t{};
  free->kept_bytes = 0;
  free->rows = 0;
  return free;
}

pfs_key_t StatementKey() {
  static std::atomic<pfs_key_t> key{0};
  pfs_key_t known = key.load(std::memory_order_relaxed);
  if (known != 0) return known;
  pfs_instrument_info info = {&known, "statement", 0, "Statements of SQLite's C API: sqlite3_step()."};
  (void)pfs_register_statement("sqlite", &info, 1);
  key.store(known, std::memory_order_relaxed);
  return known;
}

void End(const Sqlite& sqlite, Running& running, sqlite3_stmt* handle, int rc) {
  pfs_statement_t* const statement = &running.statement;
  sqlite3* const db = sqlite.db_handle(handle);
  pfs_statement_set(statement, PFS_ROWS_SENT, running.rows);
  if (sqlite.stmt_readonly(handle) == 0)
    pfs_statement_set(statement, PFS_ROWS_AFFECTED, static_cast<uint64_t>(sqlite.total_changes(db) - running.changes));
  constexpr int kFullScanStep = 1, kSort = 2;  // SQLITE_STMTSTATUS_...
  if (sqlite.stmt_status(handle, kFullScanStep, 0) > 0) pfs_statement_set(statement, PFS_SELECT_SCAN, 1);
  if (sqlite.stmt_status(handle, kSort, 0) > 0) pfs_statement_set(statement, PFS_SORT_SCAN, 1);
  if (rc != kDone && rc != kOk && rc != kRow) pfs_statement_set_error(statement, sqlite.extended_errcode(db), "HY000", sqlite.errmsg(db));
  pfs_statement_end(statement);
  running.handle.store(nullptr, std::memory_order_release);
}

// Ends a statement that the program leaves before its last row.
void Leave(const Sqlite& sqlite, sqlite3_stmt* handle) {
  Running* const running = Find(handle, false);
  if (running == nullptr) return;
  if (running->kept_bytes != 0) pfs_statement_resume(&running->statement, running->kept);
  End(sqlite, *running, handle, kDone);
}

}  // namespace

PFS_REPLACES int sqlite3_step(sqlite3_stmt* handle) {
  const Sqlite& sqlite = Library();
  if (IsPlain() || handle == nullptr) return sqlite.step(handle);
  Running* running = Find(handle, false);
  if (running != nullptr) {
    if (running->kept_bytes != 0) pfs_statement_resume(&running->statement, running->kept);
  } else if (running = Find(handle, true); running != nullptr) {
    if (pfs_statement_begin_at(&running->statement, StatementKey(), nullptr, PFS_RUN_SITE->text, kNoLine) == 0) {
      running->handle.store(nullptr, std::memory_order_release);
      running = nullptr;
    } else {
      const char* const text = sqlite.sql(handle);
      if (text != nullptr) pfs_statement_set_text(&running->statement, text, std::strlen(text));
      pfs_statement_set_schema(&running->statement, "main");
      running->changes = sqlite.total_changes(sqlite.db_handle(handle));
    }
  }
  const int rc = sqlite.step(handle);
  if (running == nullptr) return rc;
  if (rc == kRow) {
    ++running->rows;
    running->kept_bytes = pfs_statement_suspend(&running->statement, running->kept, sizeof running->kept);
    if (running->kept_bytes > sizeof running->kept) running->kept_bytes = 0;
  } else {
    End(sqlite, *running, handle, rc);
  }
  return rc;
}

PFS_REPLACES int sqlite3_reset(sqlite3_stmt* handle) {
  const Sqlite& sqlite = Library();
  if (!IsPlain()) Leave(sqlite, handle);
  return sqlite.reset(handle);
}

PFS_REPLACES int sqlite3_finalize(sqlite3_stmt* handle) {
  const Sqlite& sqlite = Library();
  if (!IsPlain()) Leave(sqlite, handle);
  return sqlite.finalize(handle);
}
