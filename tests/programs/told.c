/* Rows that a program declares: variables, clients, hosts, meters, loggers, tasks, functions, its log.
 *   gcc told.c $(pkg-config --cflags --libs perfschema) -o told
 * Prints what the calls return, which is the same with -DPFS_DISABLE but for errors. With an argument it says where its segment is, waits
 * for a line, and ends. With the argument "kill" it ends by SIGKILL instead: what it said stays readable. */
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <signal.h>
#include <string.h>

static void wait_for_line(void) {
  int c;
  fflush(stdout);
  do c = getchar();
  while (c != '\n' && c != EOF);
}

static void* session(void* nothing) {
  (void)nothing;
  pfs_set_account("guest", "elsewhere");
  pfs_connect_attr_t attributes[] = {{"short", "lived"}};
  pfs_thread_set_connect_attrs(attributes, 1);
  pfs_thread_set_user_variable("short", "lived", 5);
  pfs_thread_set_variable("told_verbose", "1");
  return NULL;
}

int main(int argc, char** argv) {
  const pfs_variable_info_t variables[] = {
      {"told_threads", "4", PFS_VARIABLE_INTEGER, PFS_VARIABLE_GLOBAL, "1", "64", "Threads that work."},
      {"told_verbose", "OFF", PFS_VARIABLE_BOOLEAN, PFS_VARIABLE_SESSION, NULL, NULL, "Tell more."},
      {"told_ratio", NULL, PFS_VARIABLE_NUMERIC, PFS_VARIABLE_SESSION_ONLY, "0.5", NULL, NULL}};
  const pfs_connect_attr_t attributes[] = {{"_client", "told"}, {"_empty", NULL}};
  const pfs_account_lock_t lock = {1, 3, 0, 2, 86400 * 365, 86400 * 367};
  pfs_key_t meter = 77, logger = 77;
  pthread_t thread;
  int i, sum = 0;

  sum += pfs_register_variable(variables, 3);
  sum += pfs_set_account("anna", "desk");
  sum += pfs_variable_set("TOLD_threads", "8", PFS_VARIABLE_FROM_COMMAND_LINE, NULL);
  sum += pfs_thread_set_variable("told_verbose", "yes");
  sum += pfs_thread_set_variable("told_ratio", "0.75");
  sum += pfs_variable_set_attribute("told_threads", "unit", "threads");
  sum += pfs_thread_set_user_variable("bytes", "\0\1\2", 3);
  sum += pfs_thread_set_user_variable("null", NULL, 0);
  sum += pfs_thread_set_user_variable("gone", "x", 1);
  sum += pfs_thread_forget_user_variable("gone");
  sum += pfs_thread_set_connect_attrs(attributes, 2);
  sum += pfs_host_seen("192.0.2.7", "desk", 1);
  for (i = 0; i <= PFS_HOST_UNKNOWN; ++i) sum += pfs_host_error("192.0.2.7", (enum pfs_host_error)i);
  sum += pfs_host_seen("192.0.2.8", NULL, 0);
  sum += pfs_host_forget("192.0.2.8");
  sum += pfs_login_failed("anna", "desk") + pfs_login_failed("anna", "desk");
  sum += pfs_login_failed("otto", "desk") + pfs_login_succeeded("otto", "desk");
  sum += pfs_account_lock_set("anna", "desk", &lock);
  sum += pfs_register_meter("told.queue", 10, 1, "The queue.", &meter);
  sum += pfs_register_metric("depth", "told.queue", PFS_METRIC_GAUGE, 0, "items", NULL);
  sum += pfs_register_logger("told/queue", PFS_LOG_LEVEL_INFO, NULL, &logger);
  sum += pfs_register_task("clean", "Cleans up.", 60) + pfs_task_begin("clean") + pfs_task_end("clean", 1) + pfs_task_begin("clean");
  sum += pfs_register_function("area", "real", "function", "shapes.so") + pfs_function_use("area", 2);
  sum += pfs_register_function("old", "real", "function", NULL) + pfs_unregister_row(PFS_ROW_FUNCTION, "old");
  sum += pfs_log(PFS_LOG_WARNING, "TOLD-00001", "queue", "nearly full");
  sum += pfs_log_bytes(PFS_LOG_NOTE, NULL, NULL, "a\0b", 3);
  pthread_create(&thread, NULL, session, NULL);
  pthread_join(thread, NULL);
  printf("sum %d\n", sum);
  if (argc < 2) return 0;

  printf("levels %u %d\n", pfs_meter_frequency(meter), pfs_logger_level(logger));
  printf("none %u %d\n", pfs_meter_frequency(logger), pfs_logger_level(meter + 1000000));
  printf("errors %d %d %d %d %d %d %d %d %d\n", pfs_variable_set("told_threads", "65", PFS_VARIABLE_FROM_DYNAMIC, NULL),
         pfs_variable_set("told_threads", "5", (enum pfs_variable_source)99, NULL),
         pfs_variable_set("never", "1", PFS_VARIABLE_FROM_DYNAMIC, NULL), pfs_thread_set_variable("told_threads", "5"),
         pfs_register_variable(&(pfs_variable_info_t){NULL, NULL, 0, 0, NULL, NULL, NULL}, 1),
         pfs_host_error("192.0.2.7", (enum pfs_host_error) - 1), pfs_log((enum pfs_log_priority)4, NULL, NULL, "x"),
         pfs_log(PFS_LOG_NOTE, NULL, NULL, NULL), pfs_register_metric("x", "never", PFS_METRIC_GAUGE, 0, NULL, NULL));
  printf("error %d\n", pfs_unregister_row((enum pfs_row_kind)5, "x"));
  printf("why %s\n", pfs_last_error());
  printf("segment %s\nready now\n", pfs_segment_path());
  wait_for_line();
  if (strcmp(argv[1], "kill") == 0) raise(SIGKILL);
  return 0;
}
