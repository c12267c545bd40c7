/* Uses libpq in each way that pfs records: CONNECTION. Prints what the library says. Knows nothing of pfs. */
#include <libpq-fe.h>
#include <stdio.h>

enum { MOST = 50 }; /* results of a statement: a server may send more */

static void show(const char* what, PGconn* db, PGresult* result) {
  const char* const state = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
  printf("%s: %s %s %d %d", what, PQresStatus(PQresultStatus(result)), state != NULL ? state : "-", PQntuples(result), PQnfields(result));
  for (int row = 0; row < PQntuples(result) && row < MOST; ++row) {
    for (int column = 0; column < PQnfields(result) && column < MOST; ++column) printf(" %.40s", PQgetvalue(result, row, column));
  }
  printf(" %d %d %.100s\n", PQstatus(db), PQtransactionStatus(db), PQerrorMessage(db));
  PQclear(result);
}

static void show_all(const char* what, PGconn* db) {
  PGresult* result;
  for (int i = 0; i < MOST && (result = PQgetResult(db)) != NULL; ++i) show(what, db, result);
}

int main(int argc, char** argv) {
  const char* const values[] = {"3"};
  PGconn* const db = PQconnectdb(argc > 1 ? argv[1] : "");
  printf("connected: %d %.200s\n", PQstatus(db), PQerrorMessage(db));
  if (PQstatus(db) == CONNECTION_OK) {
    show("create", db, PQexec(db, "create table t (a int, b text)"));
    show("insert", db, PQexec(db, "insert into t select i, 'x' || i from generate_series(1, 9) i"));
    show("values", db, PQexecParams(db, "select * from t where a < $1", 1, NULL, values, NULL, NULL, 0));
    show("prepare", db, PQprepare(db, "p", "select b from t where a = $1", 1, NULL));
    show("execute", db, PQexecPrepared(db, "p", 1, values, NULL, NULL, 0));
    show("error", db, PQexec(db, "select nothing from nowhere"));
    if (PQsendQuery(db, "select 1; select 2; insert into t values (7, 'q')") != 0 && PQsetSingleRowMode(db) != 0) show_all("sent", db);
    show_all("left", db);
    if (PQsendQueryPrepared(db, "p", 1, values, NULL, NULL, 0) != 0) show_all("sent", db);
    if (PQresultStatus(PQexec(db, "copy t to stdout")) == PGRES_COPY_OUT) {
      char* line;
      for (int i = 0; i < MOST && PQgetCopyData(db, &line, 0) > 0; ++i) {
        printf("line %.30s", line);
        PQfreemem(line);
      }
      show_all("copied", db);
    }
    show("last", db, PQexec(db, "select count(*) from t"));
  }
  PQfinish(db);
  printf("end\n");
}
