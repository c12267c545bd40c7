/* Calls that no program should make: NULL, invalid handles, closed objects, ends without begin. Prints "result ok". */
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <string.h>

static pfs_key_t key, key_statement;
static pfs_mutex_info_t mutexes[] = {{&key, "M", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "S", 0, NULL}};

static void closed_tables(void) {
  static const char* const indexes[] = {"PRIMARY", "by_name", NULL};
  pfs_table_t *table = pfs_table_open(PFS_OBJECT_TABLE, "shop", "orders", NULL, indexes, 3), *other;
  pfs_wait_t io, lock;
  pfs_table_io_begin(&io, table, PFS_TABLE_FETCH, 1);
  pfs_table_lock_begin(&lock, table, PFS_TABLE_READ_LOCK);
  pfs_table_close(table);
  pfs_table_lock_end(&lock, 0);
  pfs_table_io_end(&io, 1);
  pfs_table_close(table);
  pfs_table_bind(table);
  pfs_table_unbind(table);
  pfs_table_unlock(table);
  pfs_table_io_begin(&io, table, PFS_TABLE_INSERT, -1);
  pfs_table_io_end(&io, 1);
  pfs_table_io_end(&io, 1);
  other = pfs_table_open(PFS_OBJECT_TABLE, "shop", "people", NULL, indexes, 2);
  pfs_table_drop(PFS_OBJECT_TABLE, "shop", "people");
  pfs_table_io_begin(&io, other, PFS_TABLE_UPDATE, 99);
  pfs_table_io_end(&io, 3);
  pfs_table_close(other);
  pfs_table_close(NULL);
  pfs_table_bind(NULL);
  pfs_table_unbind(NULL);
  pfs_table_unlock(NULL);
  pfs_table_drop(PFS_OBJECT_TABLE, NULL, NULL);
  pfs_table_open((enum pfs_object_type)99, NULL, NULL, NULL, NULL, -5);
  pfs_table_close(pfs_table_open(PFS_OBJECT_TABLE, NULL, "nowhere", NULL, NULL, 7));
}

static void threads_that_are_none(void) {
  static const pfs_thread_t numbers[] = {1, 5, 77, 4096, 65535, 1u << 17, (1u << 17) + 1, 123456789, (pfs_thread_t)-1};
  pfs_thread_origin_t origin;
  size_t i;
  for (i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    if (numbers[i] == pfs_thread_own()) continue;
    pfs_thread_attach(numbers[i]);
    pfs_thread_identity(numbers[i]);
    pfs_thread_id_of(numbers[i]);
    pfs_thread_delete(numbers[i]);
  }
  pfs_thread_attach(pfs_thread_own());
  memset(&origin, 0, sizeof origin);
  pfs_thread_describe(NULL);
  pfs_thread_begin(0, NULL, NULL);
  pfs_thread_begin(12345, NULL, &origin);
  pfs_thread_delete(pfs_thread_new(12345, NULL, 0));
  pfs_set_thread_name(NULL);
  pfs_set_account(NULL, NULL);
  pfs_thread_set_db(NULL);
  pfs_thread_set_command(NULL);
  pfs_thread_set_state(NULL);
  pfs_thread_set_info(NULL, 5);
  pfs_thread_set_connection_type(NULL);
  pfs_thread_set_resource_group(NULL);
  pfs_thread_set_start_time(-1);
  pfs_thread_set_connect_attrs(NULL, 3);
  pfs_thread_set_connect_attrs(NULL, 0);
  pfs_thread_set_connect_attrs(NULL, -3);
}

static void statements_of_nobody(void) {
  pfs_statement_t statement;
  pfs_transaction_t transaction;
  pfs_program_call_t call;
  char room[64];
  pfs_statement_begin(NULL, key_statement);
  pfs_statement_begin(&statement, 12345);
  pfs_statement_executes(&statement, NULL);
  pfs_statement_end(&statement);
  pfs_statement_end(&statement);
  pfs_statement_set_text(&statement, "late", 4);
  pfs_statement_resume(&statement, room);
  pfs_statement_set_text(NULL, NULL, 5);
  pfs_statement_set_schema(NULL, NULL);
  pfs_statement_set(NULL, PFS_ROWS_SENT, 1);
  pfs_statement_add(NULL, PFS_ROWS_SENT, 1);
  pfs_statement_set_error(NULL, 1, NULL, NULL);
  pfs_statement_set_id(NULL, 1);
  pfs_statement_set_secondary(NULL, 1);
  pfs_statement_set_traceparent(NULL, NULL, 5);
  pfs_statement_set_traceparent(NULL, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55);
  pfs_statement_refine(NULL, key_statement);
  pfs_statement_suspend(NULL, room, sizeof room);
  pfs_statement_resume(NULL, room);
  pfs_statement_executes(NULL, NULL);
  pfs_statement_end(NULL);
  pfs_statement_begin(&statement, key_statement);
  pfs_statement_set_text(&statement, NULL, 5);
  pfs_statement_set(&statement, (enum pfs_statement_counter)99, 1);
  pfs_statement_set_error(&statement, -1, "a state that is too long", NULL);
  pfs_statement_suspend(&statement, room, 1);
  pfs_statement_end(&statement);
  pfs_transaction_begin(NULL, (enum pfs_isolation)99, 0, 0);
  pfs_transaction_set_xid(NULL, 1, NULL, NULL, (enum pfs_xa_state)99);
  pfs_transaction_set_xa_state(NULL, (enum pfs_xa_state)0);
  pfs_transaction_set_gtid(NULL, NULL);
  pfs_transaction_set_trx_id(NULL, 1);
  pfs_transaction_add_savepoints(NULL, 1);
  pfs_transaction_add_rollbacks(NULL, 1);
  pfs_transaction_add_releases(NULL, 1);
  pfs_transaction_end(NULL, 1);
  pfs_transaction_begin(&transaction, (enum pfs_isolation)99, 0, 0);
  pfs_transaction_set_gtid(&transaction, NULL);
  pfs_transaction_end(&transaction, 1);
  pfs_transaction_end(&transaction, 1);
  pfs_program_begin(NULL, NULL);
  pfs_program_end(NULL);
  pfs_program_begin(&call, NULL);
  pfs_program_end(&call);
  pfs_program_drop((enum pfs_object_type)99, NULL, NULL);
  pfs_program((enum pfs_object_type)99, NULL, NULL);
  pfs_program(PFS_OBJECT_PROCEDURE, NULL, NULL);
  pfs_prepared_destroy(pfs_prepared_create(NULL, 0, NULL, NULL, NULL, 5));
  pfs_prepared_destroy(NULL);
  pfs_prepared_reprepare(NULL);
  pfs_prepared_set_text(NULL, NULL, 5);
  pfs_prepared_set_secondary(NULL, 1);
  pfs_stage_end();
  pfs_stage_set_completed(1);
  pfs_stage_add_completed(1);
  pfs_stage_set_estimated(1);
  pfs_stage_begin(12345);
  pfs_stage_end();
}

static void things_that_are_not_there(void) {
  pfs_key_t none = 0;
  pfs_register_mutex(NULL, NULL, 5);
  pfs_register_mutex("m", NULL, -5);
  pfs_register_file(NULL, NULL, 5);
  pfs_register_statement("m", NULL, 5);
  pfs_register_stage("m", NULL, 5);
  pfs_register_thread("m", NULL, 5);
  pfs_register_memory("m", NULL, 5);
  pfs_register_variable(NULL, 5);
  pfs_register_variable(NULL, 0);
  pfs_register_variable(NULL, -5);
  pfs_register_status(NULL, NULL, NULL);
  pfs_register_error(0, NULL, NULL, 0);
  pfs_register_meter(NULL, 0, 0, NULL, NULL);
  pfs_register_metric(NULL, NULL, (enum pfs_metric_type)99, 0, NULL, NULL);
  pfs_register_logger(NULL, (enum pfs_log_level)99, NULL, &none);
  pfs_register_task(NULL, NULL, 0);
  pfs_register_function(NULL, NULL, NULL, NULL);
  pfs_function_use(NULL, 1);
  pfs_task_begin(NULL);
  pfs_task_end(NULL, 0);
  pfs_unregister_row((enum pfs_row_kind)99, NULL);
  pfs_unregister_variable(NULL);
  pfs_variable_set(NULL, NULL, (enum pfs_variable_source)99, NULL);
  pfs_variable_set(NULL, NULL, PFS_VARIABLE_FROM_DYNAMIC, NULL);
  pfs_variable_set_attribute(NULL, NULL, NULL);
  pfs_thread_set_variable(NULL, NULL);
  pfs_thread_forget_variable(NULL);
  pfs_thread_set_user_variable(NULL, NULL, 5);
  pfs_thread_forget_user_variable(NULL);
  pfs_host_seen(NULL, NULL, 1);
  pfs_host_error(NULL, (enum pfs_host_error)99);
  pfs_host_forget(NULL);
  pfs_login_failed(NULL, NULL);
  pfs_login_succeeded(NULL, NULL);
  pfs_account_lock_set(NULL, NULL, NULL);
  pfs_log((enum pfs_log_priority)99, NULL, NULL, NULL);
  pfs_log(PFS_LOG_NOTE, NULL, NULL, NULL);
  pfs_log_bytes(PFS_LOG_NOTE, NULL, NULL, NULL, 5);
  pfs_meter_frequency(12345);
  pfs_logger_level(12345);
  pfs_error_raised(-1);
  pfs_error_handled(-1);
  pfs_error_number(NULL);
  pfs_status_add(12345, 1);
  pfs_fiber_parent(NULL);
  pfs_fiber_switch(NULL);
  pfs_fiber_destroy(NULL);
  pfs_fiber_destroy(pfs_fiber_create(NULL));
  pfs_data_lock_register(NULL);
  pfs_data_lock_unregister(NULL);
  pfs_data_locks_add(NULL, NULL);
  pfs_data_lock_waits_add(NULL, NULL);
  pfs_metadata_lock_set_type(NULL, (enum pfs_metadata_type)99);
  pfs_metadata_lock_set_duration(NULL, (enum pfs_metadata_duration)99);
  pfs_metadata_lock_set_status(NULL, (enum pfs_metadata_status)99);
  pfs_metadata_lock_destroy(NULL);
  pfs_metadata_lock_destroy(pfs_metadata_lock_create(NULL, (enum pfs_object_type)99, NULL, NULL, NULL, (enum pfs_metadata_type)99,
                                                     (enum pfs_metadata_duration)99, (enum pfs_metadata_status)99));
  pfs_socket_set_thread(-1);
  pfs_socket_set_state(12345, PFS_SOCKET_IDLE);
  pfs_socket_set_address(-1, NULL, 0);
  pfs_file_bind(12345, -1, NULL);
  pfs_file_bind(0, 0, NULL);
  pfs_file_unbind(-1);
  pfs_mutex_discard(NULL);
  pfs_mutex_discard(pfs_mutex_create(12345, NULL));
  pfs_rwlock_discard(NULL);
  pfs_cond_discard(NULL);
  pfs_free(NULL);
  pfs_claim(NULL, 1);
}

int main(void) {
  pfs_mutex_t mutex;
  pfs_init("no_such_option=1");
  pfs_register_mutex("misused", mutexes, 1);
  pfs_register_statement("misused", statements, 1);
  pfs_mutex_init(key, &mutex, NULL);
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  closed_tables();
  threads_that_are_none();
  statements_of_nobody();
  things_that_are_not_there();
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  printf("result ok\n");
  return 0;
}
