/* Uses MySQL's C API in each way that pfs records: SOCKET. Prints what the library says. Knows nothing of pfs. */
#include <mysql.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 20 }; /* results of a statement: a server may send more */

static void ask(MYSQL* db, const char* text, int is_stored) {
  const int error = mysql_query(db, text);
  printf("%.20s: %d %u %s %.80s %u %lld\n", text, error, mysql_errno(db), mysql_sqlstate(db), mysql_error(db), mysql_field_count(db),
         (long long)mysql_affected_rows(db));
  for (int i = 0; i < MOST; ++i) {
    MYSQL_RES* const result = is_stored ? mysql_store_result(db) : mysql_use_result(db);
    if (result != NULL) {
      int rows = 0;
      while (mysql_fetch_row(result) != NULL) ++rows;
      printf(" %d rows, %u\n", rows, mysql_errno(db));
      mysql_free_result(result);
    }
    if (mysql_next_result(db) != 0) break;
  }
}

static void execute(MYSQL* db, int is_stored) {
  static const char text[] = "select a, b from t where a < ?";
  MYSQL_STMT* const statement = mysql_stmt_init(db);
  MYSQL_BIND given, got[2];
  int limit = 3, number = 0, rows = 0;
  char name[30];
  memset(&given, 0, sizeof given);
  memset(got, 0, sizeof got);
  given.buffer_type = got[0].buffer_type = MYSQL_TYPE_LONG;
  given.buffer = &limit;
  got[0].buffer = &number;
  got[1].buffer_type = MYSQL_TYPE_STRING;
  got[1].buffer = name;
  got[1].buffer_length = sizeof name;
  int error = mysql_stmt_prepare(statement, text, sizeof text - 1);
  printf("prepare: %d %u %lu\n", error, mysql_stmt_errno(statement), mysql_stmt_param_count(statement));
  if (error == 0 && mysql_stmt_param_count(statement) == 1) {
    error = mysql_stmt_bind_param(statement, &given) || mysql_stmt_execute(statement);
    printf("execute: %d %u\n", error, mysql_stmt_errno(statement));
    if (error == 0 && mysql_stmt_field_count(statement) == 2) {
      error = mysql_stmt_bind_result(statement, got) || (is_stored && mysql_stmt_store_result(statement));
      while (error == 0 && rows < MOST && mysql_stmt_fetch(statement) == 0) ++rows;
      printf("%d rows, %d %u\n", rows, error, mysql_stmt_errno(statement));
    }
  }
  printf("close: %d\n", mysql_stmt_close(statement));
}

int main(int argc, char** argv) {
  const unsigned seconds = 5;
  MYSQL* const db = mysql_init(NULL);
  mysql_options(db, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
  mysql_options(db, MYSQL_OPT_READ_TIMEOUT, &seconds);
  if (argc > 1 && mysql_real_connect(db, NULL, "root", NULL, "shop", 0, argv[1], CLIENT_MULTI_STATEMENTS) != NULL) {
    ask(db, "create table t (a int, b varchar(20))", 1);
    ask(db, "insert into t values (1, 'x'), (2, null), (3, 'zzz')", 1);
    ask(db, "select * from t order by a", 1);
    ask(db, "select a, b from t order by a", 0);
    ask(db, "select nothing from nowhere", 1);
    ask(db, "select 1; select 2; update t set b = 'k'", 1);
    execute(db, 0);
    execute(db, 1);
    ask(db, "drop table t", 1);
  } else {
    printf("connect: %u %s %.100s\n", mysql_errno(db), mysql_sqlstate(db), mysql_error(db));
  }
  mysql_close(db);
  printf("end\n");
}
