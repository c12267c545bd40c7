/* Reads an answer through a prepared statement of the C API, as ODBC and the drivers of other languages do. argv: socket, statement,
   rows that a cursor fetches at a time (0: no cursor). It binds by what the columns are before the statement is executed. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, SIZE = 300 };

static int failed(const char* where, const char* why) {
  printf("%s: %s\n", where, why);
  return 1;
}

int main(int argc, char** argv) {
  MYSQL* client = mysql_init(NULL);
  if (argc < 4 || mysql_real_connect(client, NULL, "me", NULL, "performance_schema", 0, argv[1], 0) == NULL) {
    return failed("connect", mysql_error(client));
  }
  MYSQL_STMT* statement = mysql_stmt_init(client);
  if (mysql_stmt_prepare(statement, argv[2], strlen(argv[2])) != 0) return failed("prepare", mysql_stmt_error(statement));
  MYSQL_RES* metadata = mysql_stmt_result_metadata(statement);
  unsigned count = mysql_stmt_field_count(statement);
  if (metadata == NULL || count == 0 || count > MOST) return failed("columns", "none, or too many");
  MYSQL_BIND binds[MOST];
  static char texts[MOST][SIZE];
  static unsigned long lengths[MOST];
  static my_bool nulls[MOST];
  memset(binds, 0, sizeof binds);
  for (unsigned i = 0; i < count; i++) {
    MYSQL_FIELD* field = mysql_fetch_field_direct(metadata, i);
    printf("%s%s %d", i == 0 ? "" : ", ", field->name, (int)field->type);
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = texts[i];
    binds[i].buffer_length = SIZE - 1;
    binds[i].length = &lengths[i];
    binds[i].is_null = &nulls[i];
  }
  printf("\n");
  if (mysql_stmt_bind_result(statement, binds) != 0) return failed("bind", mysql_stmt_error(statement));
  unsigned long cursor = CURSOR_TYPE_READ_ONLY, rows = strtoul(argv[3], NULL, 10);
  if (rows != 0) {
    mysql_stmt_attr_set(statement, STMT_ATTR_CURSOR_TYPE, &cursor);
    mysql_stmt_attr_set(statement, STMT_ATTR_PREFETCH_ROWS, &rows);
  }
  for (int turn = 0; turn < 2; turn++) { /* the second time after a reset */
    if (mysql_stmt_execute(statement) != 0) return failed("execute", mysql_stmt_error(statement));
    int result;
    while ((result = mysql_stmt_fetch(statement)) == 0) {
      for (unsigned i = 0; i < count; i++)
        printf("%s%.*s", i == 0 ? "" : "\t", nulls[i] ? 4 : (int)lengths[i], nulls[i] ? "NULL" : texts[i]);
      printf("\n");
    }
    if (result != MYSQL_NO_DATA) return failed("fetch", mysql_stmt_error(statement));
    if (mysql_stmt_reset(statement) != 0) return failed("reset", mysql_stmt_error(statement));
  }
  mysql_free_result(metadata);
  if (mysql_stmt_close(statement) != 0) return failed("close", "refused");
  mysql_close(client);
  return 0;
}
