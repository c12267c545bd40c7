/* Compiled out: this program is built with -DPFS_DISABLE, and must link and run without libperfschema.
 *   gcc -DPFS_DISABLE disabled.c $(pkg-config --cflags perfschema) -lpthread -o disabled
 * Keys are evaluated and stay 0, functions of pfs say that it is off, mutexes work. */
#define _GNU_SOURCE
#ifndef PFS_DISABLE
#define PFS_DISABLE
#endif
#include <assert.h>
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <string.h>

static pfs_key_t key_data = 7, key_lock = 7, key_thread = 7;
static pfs_key_t key_status = 7;
static pfs_thread_info_t threads[] = {{&key_thread, "worker", PFS_USER, NULL}};
static pfs_file_info_t files[] = {{&key_data, "data", 0, "Input."}};
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_mutex_t still = PFS_MUTEX_INITIALIZER;

static int evaluated;
static pfs_key_t key(void) {
  ++evaluated;
  return key_data;
}

static void* start(void* argument) {
  return pfs_thread_begin(key_thread, "disabled/worker", (const pfs_thread_origin_t*)argument) == PFS_OK ? argument : NULL;
}

int main(void) {
  pfs_mutex_t m;
  pfs_thread_origin_t origin;
  pthread_t thread;
  void* result;
  pfs_wait_t wait;
  char buffer[4];
  int fd, ok;
  ok = pfs_init("nonsense=1") == PFS_OK && pfs_register_file("disabled", files, 1) == PFS_OK &&
       pfs_register_mutex("disabled", mutexes, 1) == PFS_OK;
  ok = ok && key_data == 0 && key_lock == 0 && pfs_is_on() == 0 && pfs_thread_id() == 0;
  ok = ok && strcmp(pfs_segment_path(), "") == 0 && strcmp(pfs_last_error(), "") == 0 && strcmp(pfs_version(), PFS_VERSION) == 0;
  ok = ok && pfs_set_account("u", "h") == PFS_OK && pfs_set_thread_name("disabled/main") == PFS_OK;
  ok = ok && pfs_mutex_init(key_lock, &m, NULL) == 0 && m.instance == NULL && pfs_mutex_lock(&m) == 0 && pfs_mutex_trylock(&m) != 0;
  ok = ok && pfs_mutex_unlock(&m) == 0 && pfs_mutex_destroy(&m) == 0 && pfs_mutex_lock(&still) == 0 && pfs_mutex_unlock(&still) == 0;
  ok = ok && pfs_mutex_create(key_lock, &m) == NULL && pfs_mutex_wait_begin(&wait, NULL, PFS_LOCK) == 0;
  pfs_mutex_wait_end(&wait, 0, 3);
  pfs_mutex_released(NULL);
  pfs_mutex_discard(NULL);
  pfs_thread_describe(&origin);
  ok = ok && pfs_register_thread("disabled", threads, 1) == PFS_OK && key_thread == 0 && pfs_thread_new(key_thread, &m, 1) == 0;
  ok = ok && pfs_thread_create(key_thread, &thread, NULL, start, &origin) == 0 && pthread_join(thread, &result) == 0 && result == &origin;
  ok = ok && pfs_thread_attach(0) == PFS_OK && pfs_thread_detach() == PFS_OK && pfs_thread_delete(0) == PFS_OK && pfs_thread_current() == 0;
  pfs_thread_set_info("info", 4);
  ok = ok && pfs_register_error(1, NULL, "bad", PFS_GLOBAL) == PFS_OK && pfs_error_number("x") == 0;
  pfs_error_raised(1);
  pfs_error_handled(1);
  ok = ok && pfs_register_status("Status", NULL, &key_status) == PFS_OK && key_status == 0;
  pfs_status_add(key_status, 1);
  fd = pfs_open(key(), "/dev/zero", O_RDONLY);
  ok = ok && fd >= 0 && evaluated == 1 && pfs_file_bind(key(), fd, "zero") == PFS_OK && evaluated == 2;
  pfs_file_unbind(fd);
  ok = ok && pfs_read(fd, buffer, sizeof buffer) == 4 && pfs_close(fd) == 0;
  {
    const char* const indexes[] = {"PRIMARY"};
    pfs_table_t* table = pfs_table_open(PFS_OBJECT_TABLE, "s", "t", &m, indexes, 1);
    pfs_metadata_lock_t* lock =
        pfs_metadata_lock_create(&m, PFS_OBJECT_SCHEMA, "s", NULL, NULL, PFS_METADATA_SHARED, PFS_METADATA_EXPLICIT, PFS_METADATA_PENDING);
    ok = ok && table == NULL && lock == NULL && pfs_data_lock_register(NULL) == PFS_OK && pfs_data_lock_unregister(NULL) == PFS_OK;
    ok = ok && pfs_table_io_begin(&wait, table, PFS_TABLE_FETCH, 0) == 0 && pfs_table_lock_begin(&wait, table, PFS_TABLE_READ_LOCK) == 0;
    pfs_table_io_end(&wait, 1);
    pfs_table_lock_end(&wait, 0);
    pfs_table_bind(table);
    pfs_table_unbind(table);
    pfs_table_unlock(table);
    pfs_table_unlock_internal(table);
    pfs_table_unlock_external(table);
    pfs_table_close(table);
    pfs_table_drop(PFS_OBJECT_TABLE, "s", "t");
    pfs_metadata_lock_set_status(lock, PFS_METADATA_GRANTED);
    pfs_metadata_lock_set_duration(lock, PFS_METADATA_STATEMENT);
    pfs_metadata_lock_set_type(lock, PFS_METADATA_EXCLUSIVE);
    ok = ok && pfs_metadata_wait_begin(&wait, lock) == 0 && pfs_idle_begin(&wait) == 0;
    pfs_metadata_wait_end(&wait, 0);
    pfs_idle_end(&wait);
    pfs_metadata_lock_destroy(lock);
  }
  puts(ok ? "disabled: ok" : "disabled: FAILED");
  return !ok;
}
