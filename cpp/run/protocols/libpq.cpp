// run/protocols/libpq.cpp: makes statements of the program's calls of libpq, PostgreSQL's client: text, digest, rows, affected rows,
// errors.
//
// PQexec() and the like are one call and one statement. PQsendQuery() and the like begin a statement that PQgetResult() ends when there are
// no more results; in between it is suspended. An execution has the text that was prepared under its name.
#include <cstdlib>
#include <cstring>

#include "run/protocols/clients.h"
#include "run/protocols/prepared_texts.h"

struct PGconn;
struct PGresult;
using Oid = unsigned int;

using namespace perfschema::run;

namespace {

constexpr int kTuples = 2, kNonfatal = 6, kFatal = 7, kBad = 5, kSingleTuple = 9;  // PGRES_...
constexpr int kState = 'C', kMessage = 'M';                                        // PG_DIAG_...

struct Libpq : ClientFunctions {
  static constexpr const char* kFirst = "PQexec";
  static constexpr const char* kPrefix = kOfLibpq;
  PGresult* (*exec)(PGconn*, const char*);
  PGresult* (*exec_params)(PGconn*, const char*, int, const Oid*, const char* const*, const int*, const int*, int);
  PGresult* (*prepare)(PGconn*, const char*, const char*, int, const Oid*);
  PGresult* (*exec_prepared)(PGconn*, const char*, int, const char* const*, const int*, const int*, int);
  int (*send_query)(PGconn*, const char*);
  int (*send_query_params)(PGconn*, const char*, int, const Oid*, const char* const*, const int*, const int*, int);
  int (*send_prepare)(PGconn*, const char*, const char*, int, const Oid*);
  int (*send_query_prepared)(PGconn*, const char*, int, const char* const*, const int*, const int*, int);
  PGresult* (*get_result)(PGconn*);
  void (*finish)(PGconn*);
  void (*reset)(PGconn*);
  const char* (*db)(const PGconn*);
  const char* (*error_message)(const PGconn*);
  int (*pipeline_status)(const PGconn*);  // nullptr before PostgreSQL 14
  int (*result_status)(const PGresult*);
  const char* (*result_error_field)(const PGresult*, int);
  int (*ntuples)(const PGresult*);
  const char* (*cmd_status)(PGresult*);

  explicit Libpq(const ClientLibrary& from) {
    from.FindReplaced<0>("PQexec", &exec);
    from.FindReplaced<0>("PQexecParams", &exec_params);
    from.FindReplaced<0>("PQprepare", &prepare);
    from.FindReplaced<0>("PQexecPrepared", &exec_prepared);
    from.FindReplaced<0>("PQsendQuery", &send_query);
    from.FindReplaced<0>("PQsendQueryParams", &send_query_params);
    from.FindReplaced<0>("PQsendPrepare", &send_prepare);
    from.FindReplaced<0>("PQsendQueryPrepared", &send_query_prepared);
    from.FindReplaced<0>("PQgetResult", &get_result);
    from.FindReplaced<0>("PQfinish", &finish);
    from.FindReplaced<0>("PQreset", &reset);
    from.Find("PQdb", &db);
    from.Find("PQerrorMessage", &error_message);
    from.Find("PQpipelineStatus", &pipeline_status);
    from.Find("PQresultStatus", &result_status);
    from.Find("PQresultErrorField", &result_error_field);
    from.Find("PQntuples", &ntuples);
    from.Find("PQcmdStatus", &cmd_status);
  }
};

enum Kind { kQuery, kPrepare, kExecute };
constexpr const char* kNames[] = {"query", "prepare", "execute"};
constinit StatementKeys keys("libpq", kNames, PFS_DIALECT_POSTGRESQL, "Statements of libpq, PostgreSQL's client.");
constinit PreparedTexts prepared;

// PostgreSQL's errors have no number. The row shows that there is one, and its SQLSTATE.
constexpr int kSomeError = 1;

void SetError(pfs_statement_t* statement, const char* state, const char* message) {
  pfs_statement_set_error(statement, kSomeError, state != nullptr && std::strlen(state) == 5 ? state : "HY000",
                          message != nullptr ? message : "");
}

// Returns the number that ends a tag such as "INSERT 0 9". PQcmdTuples() would tell the program of a tag that it cannot read.
uint64_t RowsOf(const char* tag) {
  const char* const last = tag != nullptr ? std::strrchr(tag, ' ') : nullptr;
  return last != nullptr && last[1] >= '0' && last[1] <= '9' ? std::strtoull(last + 1, nullptr, 10) : 0;
}

// Adds what a result says.
void Note(const Libpq& libpq, Running& running, PGresult* result) {
  const int status = libpq.result_status(result);
  if (status == kTuples || status == kSingleTuple) {
    running.rows += static_cast<uint64_t>(libpq.ntuples(result));
  } else if (status == kBad || status == kNonfatal || status == kFatal) {
    SetError(&running.statement, libpq.result_error_field(result, kState), libpq.result_error_field(result, kMessage));
  } else {
    running.affected += RowsOf(libpq.cmd_status(result));
  }
}

void EndOf(Running& running) {
  pfs_statement_set(&running.statement, PFS_ROWS_SENT, running.rows);
  pfs_statement_set(&running.statement, PFS_ROWS_AFFECTED, running.affected);
  End(running);
}

// Ends a statement whose results the program leaves.
void Leave(const void* connection) {
  Running* const running = FindRunning(connection);
  if (running == nullptr) return;
  Resume(*running);
  EndOf(*running);
}

// Begins the statement of a connection. `text`, or for an execution the name that it was prepared under.
Running* Begin(const Libpq& libpq, PGconn* connection, Kind kind, const Site& site, const char* text) {
  if (connection == nullptr || text == nullptr) return nullptr;
  Leave(connection);
  const char* const schema = libpq.db(connection);
  if (kind != kExecute) return BeginRunning(connection, keys.Of(kind), site, text, schema);
  Running* const running = BeginRunning(connection, keys.Of(kind), site, {}, schema);
  if (running != nullptr) prepared.SetTextOf(&running->statement, connection, text);
  return running;
}

template <typename Call>
PGresult* Execute(PGconn* connection, const Libpq& libpq, Kind kind, const Site& site, const char* text, Call call) {
  Running* const running = Begin(libpq, connection, kind, site, text);
  PGresult* const result = InsideOf(call);
  if (running == nullptr) return result;
  if (result != nullptr) {
    Note(libpq, *running, result);
  } else {
    SetError(&running->statement, nullptr, libpq.error_message(connection));
  }
  EndOf(*running);
  return result;
}

template <typename Call>
int Send(PGconn* connection, const Libpq& libpq, Kind kind, const Site& site, const char* text, Call call) {
  // In a pipeline many statements are under way, and their results come later, in turn: those are not recorded.
  const bool is_pipeline = connection != nullptr && libpq.pipeline_status != nullptr && libpq.pipeline_status(connection) != 0;
  Running* const running = is_pipeline ? nullptr : Begin(libpq, connection, kind, site, text);
  const int is_sent = InsideOf(call);
  if (running == nullptr) return is_sent;
  if (is_sent != 0) {
    Suspend(*running);
  } else {
    SetError(&running->statement, nullptr, libpq.error_message(connection));
    EndOf(*running);
  }
  return is_sent;
}

}  // namespace

PFS_REPLACES PGresult* PQexec(PGconn* connection, const char* query) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  if (IsPlainClient(libpq)) return libpq.exec(connection, query);
  return Execute(connection, libpq, kQuery, site, query, [&] { return libpq.exec(connection, query); });
}

PFS_REPLACES PGresult* PQexecParams(PGconn* connection, const char* query, int count, const Oid* types, const char* const* values,
                                    const int* lengths, const int* formats, int format) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.exec_params(connection, query, count, types, values, lengths, formats, format); };
  return IsPlainClient(libpq) ? call() : Execute(connection, libpq, kQuery, site, query, call);
}

PFS_REPLACES PGresult* PQprepare(PGconn* connection, const char* name, const char* query, int count, const Oid* types) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.prepare(connection, name, query, count, types); };
  if (IsPlainClient(libpq)) return call();
  prepared.Keep(connection, name, query);
  return Execute(connection, libpq, kPrepare, site, query, call);
}

PFS_REPLACES PGresult* PQexecPrepared(PGconn* connection, const char* name, int count, const char* const* values, const int* lengths,
                                      const int* formats, int format) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.exec_prepared(connection, name, count, values, lengths, formats, format); };
  return IsPlainClient(libpq) ? call() : Execute(connection, libpq, kExecute, site, name, call);
}

PFS_REPLACES int PQsendQuery(PGconn* connection, const char* query) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  if (IsPlainClient(libpq)) return libpq.send_query(connection, query);
  return Send(connection, libpq, kQuery, site, query, [&] { return libpq.send_query(connection, query); });
}

PFS_REPLACES int PQsendQueryParams(PGconn* connection, const char* query, int count, const Oid* types, const char* const* values,
                                   const int* lengths, const int* formats, int format) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.send_query_params(connection, query, count, types, values, lengths, formats, format); };
  return IsPlainClient(libpq) ? call() : Send(connection, libpq, kQuery, site, query, call);
}

PFS_REPLACES int PQsendPrepare(PGconn* connection, const char* name, const char* query, int count, const Oid* types) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.send_prepare(connection, name, query, count, types); };
  if (IsPlainClient(libpq)) return call();
  prepared.Keep(connection, name, query);
  return Send(connection, libpq, kPrepare, site, query, call);
}

PFS_REPLACES int PQsendQueryPrepared(PGconn* connection, const char* name, int count, const char* const* values, const int* lengths,
                                     const int* formats, int format) {
  const Site& site = *PFS_RUN_SITE;
  const auto& libpq = ClientOf<Libpq>(site, PFS_CALLER);
  const auto call = [&] { return libpq.send_query_prepared(connection, name, count, values, lengths, formats, format); };
  return IsPlainClient(libpq) ? call() : Send(connection, libpq, kExecute, site, name, call);
}

PFS_REPLACES PGresult* PQgetResult(PGconn* connection) {
  const auto& libpq = ClientOf<Libpq>(*PFS_RUN_SITE, PFS_CALLER);
  Running* const running = IsPlainClient(libpq) ? nullptr : FindRunning(connection);
  if (running == nullptr) return libpq.get_result(connection);
  Resume(*running);
  PGresult* const result = InsideOf([&] { return libpq.get_result(connection); });
  if (result == nullptr) {
    EndOf(*running);
  } else {
    Note(libpq, *running, result);
    Suspend(*running);
  }
  return result;
}

PFS_REPLACES void PQfinish(PGconn* connection) {
  const auto& libpq = ClientOf<Libpq>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(libpq)) {
    Leave(connection);
    prepared.Forget(connection);
  }
  const InClient in_client;
  libpq.finish(connection);
}

PFS_REPLACES void PQreset(PGconn* connection) {
  const auto& libpq = ClientOf<Libpq>(*PFS_RUN_SITE, PFS_CALLER);
  if (!IsPlainClient(libpq)) Leave(connection);
  const InClient in_client;
  libpq.reset(connection);
}
