/* Two threads use the same places, files and statements, a moment after each other and without a common lock: the second one finds what the
 * first one has made. Then both take records that the other one has left. For ThreadSanitizer. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pfs_key_t key_lock, key_file, key_query;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_query, "query", 0, NULL}};
static pfs_mutex_t locks[2];

static void query(const char* text) {
  pfs_statement_t statement;
  pfs_statement_begin(&statement, key_query);
  pfs_statement_set_schema(&statement, "a_schema_of_two_words");
  pfs_statement_set_text(&statement, text, strlen(text));
  pfs_statement_end(&statement);
}

static void use(int number, const char* file, const char* text) {
  int fd;
  pfs_mutex_lock(&locks[number]);
  pfs_mutex_unlock(&locks[number]);
  fd = pfs_open(key_file, file, O_RDONLY);
  if (fd >= 0) pfs_close(fd);
  query(text);
}

static void* work(void* argument) {
  char text[64];
  const int number = *(const int*)argument;
  int i;
  use(number, "/dev/null", "select 1"); /* the thread has what it needs */
  usleep(100000 + 200000 * (unsigned)number);
  pfs_mutex_lock(&locks[number]);
  pfs_mutex_unlock(&locks[number]);
  use(number, "/proc/self/status", "select a_column, another_column from a_table where a_column = 17");
  usleep(number == 0 ? 200000 : 0);
  for (i = 0; i < 20000; ++i) {
    snprintf(text, sizeof text, "select a_column from table_%d where a_column = 17", i % 300);
    query(text);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  int numbers[] = {0, 1}, i, bad = 0;
  bad += pfs_register_mutex("found", mutexes, 1) + pfs_register_file("found", files, 1) + pfs_register_statement("found", statements, 1);
  for (i = 0; i < 2; ++i) bad += pfs_mutex_init(key_lock, &locks[i], NULL);
  for (i = 0; i < 2; ++i) bad += pthread_create(&threads[i], NULL, work, &numbers[i]);
  for (i = 0; i < 2; ++i) bad += pthread_join(threads[i], NULL);
  printf("%d\n", bad);
  return bad != 0;
}
