/* Uses prepared statements of MySQL's C API: SOCKET. Prints the rows it got. Knows nothing of pfs. */
#include <mysql.h>
#include <stdio.h>
#include <string.h>

static int fail(MYSQL_STMT* statement) {
  fprintf(stderr, "%s\n", mysql_stmt_error(statement));
  return 1;
}

int main(int argc, char** argv) {
  MYSQL* const db = mysql_init(NULL);
  if (argc < 2 || mysql_real_connect(db, NULL, "root", NULL, "shop", 0, argv[1], 0) == NULL) return 2;
  if (mysql_query(db, "create table numbers (n int)") != 0) return 3;

  int value = 0;
  MYSQL_BIND number;
  memset(&number, 0, sizeof number);
  number.buffer_type = MYSQL_TYPE_LONG;
  number.buffer = &value;

  MYSQL_STMT* const insert = mysql_stmt_init(db);
  static const char insert_text[] = "insert into numbers values (?)";
  if (mysql_stmt_prepare(insert, insert_text, sizeof insert_text - 1) != 0 || mysql_stmt_bind_param(insert, &number) != 0)
    return fail(insert);
  for (value = 0; value < 25; ++value) {
    if (mysql_stmt_execute(insert) != 0) return fail(insert);
  }

  static const char select_text[] = "select n from numbers where n < ?";
  int rows = 0;
  for (int is_stored = 0; is_stored < 2; ++is_stored) {
    MYSQL_STMT* const select = mysql_stmt_init(db);
    if (mysql_stmt_prepare(select, select_text, sizeof select_text - 1) != 0 || mysql_stmt_bind_param(select, &number) != 0)
      return fail(select);
    value = 10;
    if (mysql_stmt_execute(select) != 0 || mysql_stmt_bind_result(select, &number) != 0) return fail(select);
    if (is_stored && mysql_stmt_store_result(select) != 0) return fail(select);
    while (mysql_stmt_fetch(select) == 0) ++rows;
    mysql_stmt_close(select);
  }

  MYSQL_STMT* const wrong = mysql_stmt_init(db);
  static const char wrong_text[] = "select n from nothing";
  const int is_wrong = mysql_stmt_prepare(wrong, wrong_text, sizeof wrong_text - 1);
  printf("%d rows, error %u\n", rows, is_wrong != 0 ? mysql_stmt_errno(wrong) : 0);
  mysql_stmt_close(wrong);
  mysql_stmt_close(insert);
  mysql_close(db);
  return 0;
}
