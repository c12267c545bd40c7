// run/protocols/mysql.cpp: makes statements of the program's calls of libmariadb or libmysqlclient: text, digest, rows, affected rows,
// errors.
//
// A statement begins at mysql_real_query() or mysql_query(). One without rows ends there; one with rows is suspended until
// mysql_store_result() or mysql_use_result(), whose rows are not counted because they are still to come. A prepared statement with rows
// ends at mysql_stmt_store_result(), or at the last mysql_stmt_fetch().
#include <cstring>

#include "run/protocols/clients.h"
#include "run/protocols/prepared_texts.h"

struct MYSQL;
struct MYSQL_RES;
struct MYSQL_STMT;

using namespace perfschema::run;

namespace {

constexpr int kNoData = 100;           // MYSQL_NO_DATA
constexpr int kConnectionSchema = 15;  // MARIADB_CONNECTION_SCHEMA

struct Client : ClientFunctions {
  static constexpr const char* kFirst = "mysql_real_query";
  static constexpr const char* kPrefix = kOfMysql;
  int (*query)(MYSQL*, const char*);
  int (*real_query)(MYSQL*, const char*, unsigned long);
  MYSQL_RES* (*store_result)(MYSQL*);
  MYSQL_RES* (*use_result)(MYSQL*);
  void (*close)(MYSQL*);
  unsigned (*field_count)(MYSQL*);
  unsigned long long (*affected_rows)(MYSQL*);
  unsigned long long (*num_rows)(MYSQL_RES*);
  unsigned (*warning_count)(MYSQL*);
  unsigned (*error_number)(MYSQL*);
  const char* (*sqlstate)(MYSQL*);
  const char* (*error)(MYSQL*);
  int (*get_infov)(MYSQL*, int, void*, ...);  // libmariadb only
  int (*stmt_prepare)(MYSQL_STMT*, const char*, unsigned long);
  int (*stmt_execute)(MYSQL_STMT*);
  int (*stmt_store_result)(MYSQL_STMT*);
  int (*stmt_fetch)(MYSQL_STMT*);
  char (*stmt_free_result)(MYSQL_STMT*);
  char (*stmt_close)(MYSQL_STMT*);
  unsigned (*stmt_field_count)(MYSQL_STMT*);
  unsigned long long (*stmt_affected_rows)(MYSQL_STMT*);
  unsigned long long (*stmt_num_rows)(MYSQL_STMT*);
  unsigned (*stmt_errno)(MYSQL_STMT*);
  const char* (*stmt_sqlstate)(MYSQL_STMT*);
  const char* (*stmt_error)(MYSQL_STMT*);

  explicit Client(const ClientLibrary& from) {
    from.FindReplaced<1>("mysql_query", &query);
    from.FindReplaced<1>("mysql_real_query", &real_query);
    from.FindReplaced<1>("mysql_store_result", &store_result);
    from.FindReplaced<1>("mysql_use_result", &use_result);
    from.FindReplaced<1>("mysql_close", &close);
    from.Find("mysql_field_count", &field_count);
    from.Find("mysql_affected_rows", &affected_rows);
    from.Find("mysql_num_rows", &num_rows);
    from.Find("mysql_warning_count", &warning_count);
    from.Find("mysql_errno", &error_number);
    from.Find("mysql_sqlstate", &sqlstate);
    from.Find("mysql_error", &error);
    from.Find("mariadb_get_infov", &get_infov);
    from.FindReplaced<1>("mysql_stmt_prepare", &stmt_prepare);
    from.FindReplaced<1>("mysql_stmt_execute", &stmt_execute);
    from.FindReplaced<1>("mysql_stmt_store_result", &stmt_store_result);
    from.FindReplaced<1>("mysql_stmt_fetch", &stmt_fetch);
    from.FindReplaced<1>("mysql_stmt_free_result", &stmt_free_result);
    from.FindReplaced<1>("mysql_stmt_close", &stmt_close);
    from.Find("mysql_stmt_field_count", &stmt_field_count);
    from.Find("mysql_stmt_affected_rows", &stmt_affected_rows);
    from.Find("mysql_stmt_num_rows", &stmt_num_rows);
    from.Find("mysql_stmt_errno", &stmt_errno);
    from.Find("mysql_stmt_sqlstate", &stmt_sqlstate);
    from.Find("mysql_stmt_error", &stmt_error);
  }
};

enum Kind { kQuery, kPrepare, kExecute };
constexpr const char* kNames[] = {"query", "prepare", "execute"};
constinit StatementKeys keys("mysql", kNames, PFS_DIALECT_MYSQL, "Statements of libmariadb or libmysqlclient.");
constinit PreparedTexts prepared;
constexpr const char* kOnly = "";  // a prepared statement has a handle of its own, and no name

void EndOf(Running& running) {
  pfs_statement_set(&running.statement, PFS_ROWS_SENT, running.rows);
  End(running);
}

// Ends a statement whose rows the program leaves.
void Leave(const void* handle) {
  Running* const running = FindRunning(handle);
  if (running == nullptr) return;
  Resume(*running);
  EndOf(*running);
}

Running* Begin(const Client& client, MYSQL* connection, const Site& site, std::string_view text) {
  if (connection == nullptr) return nullptr;
  Leave(connection);
  const char* schema = nullptr;
  if (client.get_infov != nullptr) (void)client.get_infov(connection, kConnectionSchema, &schema);
  return BeginRunning(connection, keys.Of(kQuery), site, text, schema);
}

// Ends or suspends a statement of a connection after its call.
void Note(const Client& client, MYSQL* connection, Running& running, bool is_ok) {
  pfs_statement_t* const statement = &running.statement;
  if (!is_ok) {
    pfs_statement_set_error(statement, static_cast<int>(client.error_number(connection)), client.sqlstate(connection),
                            client.error(connection));
    return EndOf(running);
  }
  if (client.field_count(connection) != 0) return Suspend(running);
  pfs_statement_set(statement, PFS_ROWS_AFFECTED, client.affected_rows(connection));
  pfs_statement_set(statement, PFS_WARNINGS, client.warning_count(connection));
  EndOf(running);
}

void NoteError(const Client& client, MYSQL_STMT* handle, Running& running) {
  pfs_statement_set_error(&running.statement, static_cast<int>(client.stmt_errno(handle)), client.stmt_sqlstate(handle),
                          client.stmt_error(handle));
}

}  // namespace

PFS_REPLACES int mysql_real_query(MYSQL* connection, const char* text, unsigned long bytes) {
  const Site& site = *PFS_RUN_SITE;
  const auto& client = ClientOf<Client>(site, PFS_CALLER);
  if (IsPlainClient(client) || text == nullptr) return client.real_query(connection, text, bytes);
  Running* const running = Begin(client, connection, site, {text, bytes});
  const int rc = InsideOf([&] { return client.real_query(connection, text, bytes); });
  if (running != nullptr) Note(client, connection, *running, rc == 0);
  return rc;
}

PFS_REPLACES int mysql_query(MYSQL* connection, const char* text) {
  const Site& site = *PFS_RUN_SITE;
  const auto& client = ClientOf<Client>(site, PFS_CALLER);
  if (IsPlainClient(client) || text == nullptr) return client.query(connection, text);
  Running* const running = Begin(client, connection, site, text);
  const int rc = InsideOf([&] { return client.query(connection, text); });
  if (running != nullptr) Note(client, connection, *running, rc == 0);
  return rc;
}

PFS_REPLACES MYSQL_RES* mysql_store_result(MYSQL* connection) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  Running* const running = IsPlainClient(client) ? nullptr : FindRunning(connection);
  if (running == nullptr) return client.store_result(connection);
  Resume(*running);
  MYSQL_RES* const result = InsideOf([&] { return client.store_result(connection); });
  if (result != nullptr) {
    running->rows = client.num_rows(result);
    pfs_statement_set(&running->statement, PFS_WARNINGS, client.warning_count(connection));
  } else {
    pfs_statement_set_error(&running->statement, static_cast<int>(client.error_number(connection)), client.sqlstate(connection),
                            client.error(connection));
  }
  EndOf(*running);
  return result;
}

PFS_REPLACES MYSQL_RES* mysql_use_result(MYSQL* connection) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(client)) Leave(connection);
  return InsideOf([&] { return client.use_result(connection); });
}

PFS_REPLACES void mysql_close(MYSQL* connection) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(client)) Leave(connection);
  const InClient in_client;
  client.close(connection);
}

PFS_REPLACES int mysql_stmt_prepare(MYSQL_STMT* handle, const char* text, unsigned long bytes) {
  const Site& site = *PFS_RUN_SITE;
  const auto& client = ClientOf<Client>(site, PFS_CALLER);
  if (IsPlainClient(client) || handle == nullptr || text == nullptr) return client.stmt_prepare(handle, text, bytes);
  Leave(handle);
  const std::string_view whole(text, bytes == ~0ul ? std::strlen(text) : bytes);
  prepared.Keep(handle, kOnly, whole.data(), whole.size());
  Running* const running = BeginRunning(handle, keys.Of(kPrepare), site, whole, nullptr);
  const int rc = InsideOf([&] { return client.stmt_prepare(handle, text, bytes); });
  if (running == nullptr) return rc;
  if (rc != 0) NoteError(client, handle, *running);
  EndOf(*running);
  return rc;
}

PFS_REPLACES int mysql_stmt_execute(MYSQL_STMT* handle) {
  const Site& site = *PFS_RUN_SITE;
  const auto& client = ClientOf<Client>(site, PFS_CALLER);
  if (IsPlainClient(client) || handle == nullptr) return client.stmt_execute(handle);
  Leave(handle);
  Running* const running = BeginRunning(handle, keys.Of(kExecute), site, {}, nullptr);
  if (running != nullptr) prepared.SetTextOf(&running->statement, handle, kOnly);
  const int rc = InsideOf([&] { return client.stmt_execute(handle); });
  if (running == nullptr) return rc;
  if (rc == 0 && client.stmt_field_count(handle) != 0) {
    Suspend(*running);
    return rc;
  }
  if (rc != 0) {
    NoteError(client, handle, *running);
  } else {
    pfs_statement_set(&running->statement, PFS_ROWS_AFFECTED, client.stmt_affected_rows(handle));
  }
  EndOf(*running);
  return rc;
}

PFS_REPLACES int mysql_stmt_store_result(MYSQL_STMT* handle) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  Running* const running = IsPlainClient(client) ? nullptr : FindRunning(handle);
  if (running == nullptr) return client.stmt_store_result(handle);
  Resume(*running);
  const int rc = InsideOf([&] { return client.stmt_store_result(handle); });
  if (rc != 0) {
    NoteError(client, handle, *running);
  } else {
    running->rows = client.stmt_num_rows(handle);
  }
  EndOf(*running);
  return rc;
}

PFS_REPLACES int mysql_stmt_fetch(MYSQL_STMT* handle) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  Running* const running = IsPlainClient(client) ? nullptr : FindRunning(handle);
  if (running == nullptr) return client.stmt_fetch(handle);
  Resume(*running);
  const int rc = InsideOf([&] { return client.stmt_fetch(handle); });
  if (rc == 1) NoteError(client, handle, *running);
  if (rc == 1 || rc == kNoData) {
    EndOf(*running);
  } else {
    ++running->rows;
    Suspend(*running);
  }
  return rc;
}

PFS_REPLACES char mysql_stmt_free_result(MYSQL_STMT* handle) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(client)) Leave(handle);
  return InsideOf([&] { return client.stmt_free_result(handle); });
}

PFS_REPLACES char mysql_stmt_close(MYSQL_STMT* handle) {
  const auto& client = ClientOf<Client>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(client)) {
    Leave(handle);
    prepared.Forget(handle);
  }
  return InsideOf([&] { return client.stmt_close(handle); });
}
