/* Prints where the columns of each answer come from. argv: socket, statements. A column is db.table(org_table).name(org_name). */
#include <mysql.h>
#include <stdio.h>

static int failed(MYSQL* client) {
  printf("%s\n", mysql_error(client));
  return 1;
}

int main(int argc, char** argv) {
  MYSQL* client = mysql_init(NULL);
  if (argc < 3 || mysql_real_connect(client, NULL, "root", NULL, "performance_schema", 0, argv[1], 0) == NULL) return failed(client);
  for (int i = 2; i < argc; i++) {
    if (mysql_query(client, argv[i]) != 0) return failed(client);
    MYSQL_RES* result = mysql_store_result(client);
    if (result == NULL) return failed(client);
    MYSQL_FIELD* field;
    for (const char* between = ""; (field = mysql_fetch_field(result)) != NULL; between = " ")
      printf("%s%s.%s(%s).%s(%s)", between, field->db, field->table, field->org_table, field->name, field->org_name);
    printf("\n");
    mysql_free_result(result);
  }
  mysql_close(client);
  return 0;
}
