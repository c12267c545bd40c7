/* The header alone, as the first include, in strict C11: it needs nothing before it and asks for no feature-test macro. */
#include <perfschema/pfs.h>
#include <perfschema/server.h>

static pfs_key_t key_queue, key_data, key_worker;
static pfs_mutex_info_t mutexes[] = {{&key_queue, "LOCK_queue", 0, "Guards the queue."}};
static pfs_file_info_t files[] = {{&key_data, "data", PFS_UNTIMED | PFS_VOLATILITY_SESSION, "Input."}};
static pfs_thread_info_t threads[] = {{&key_worker, "worker", PFS_SINGLETON, NULL}};

static pfs_mutex_t plain = PFS_MUTEX_INITIALIZER;

int main(void) {
  pfs_mutex_t m;
  pfs_wait_t wait;
  pfs_instance_t* row;
  char buffer[] = {'a', 'b'};
  int fd;
  if (pfs_init(NULL) != PFS_OK || pfs_register_mutex("compile", mutexes, 1) != PFS_OK || pfs_register_file("compile", files, 1) != PFS_OK ||
      pfs_register_thread("compile", threads, 1) != PFS_OK) {
    fprintf(stderr, "%s\n", pfs_last_error());
    return 1;
  }
  if (pfs_mutex_lock(&plain) != 0 || pfs_mutex_unlock(&plain) != 0) return 1;
  if (pfs_mutex_init(key_queue, &m, NULL) != 0 || pfs_mutex_lock(&m) != 0 || pfs_mutex_unlock(&m) != 0) return 1;
  if (pfs_mutex_trylock(&m) == 0) pfs_mutex_unlock(&m);
  if (pfs_mutex_destroy(&m) != 0) return 1;
  row = pfs_mutex_create(key_queue, &fd);
  pfs_mutex_wait_begin(&wait, row, PFS_TIMED_LOCK);
  pfs_mutex_wait_end(&wait, 0, PFS_NO_SPINS);
  pfs_mutex_wait_end(&wait, 0, 1); /* a second end does nothing */
  pfs_mutex_released(row);
  pfs_mutex_discard(row);
  {
    pfs_table_t* table = pfs_table_open(PFS_OBJECT_TABLE, NULL, "t", NULL, NULL, 0);
    pfs_metadata_lock_t* lock = pfs_metadata_lock_create(NULL, PFS_OBJECT_GLOBAL, NULL, NULL, NULL, PFS_METADATA_SHARED,
                                                         PFS_METADATA_STATEMENT, PFS_METADATA_PENDING);
    static pfs_data_lock_inspector_t inspector = {"compile", NULL, NULL, NULL};
    pfs_data_lock_t row_of = PFS_DATA_LOCK_INITIALIZER;
    pfs_data_lock_wait_t wait_of = PFS_DATA_LOCK_WAIT_INITIALIZER;
    if (row_of.transaction_id != PFS_NO_TRANSACTION || wait_of.blocking.transaction_id != PFS_NO_TRANSACTION) return 1;
    if (pfs_data_lock_register(&inspector) != PFS_OK || pfs_data_lock_unregister(&inspector) != PFS_OK) return 1;
    pfs_table_io_begin(&wait, table, PFS_TABLE_INSERT, PFS_NO_INDEX);
    pfs_table_io_end(&wait, 1);
    pfs_table_lock_begin(&wait, table, PFS_TABLE_WRITE_EXTERNAL);
    pfs_table_lock_end(&wait, 1);
    pfs_metadata_wait_begin(&wait, lock);
    pfs_metadata_wait_end(&wait, 0);
    pfs_idle_begin(&wait);
    pfs_idle_end(&wait);
    pfs_idle_end(&wait); /* a second end does nothing */
    pfs_metadata_lock_destroy(lock);
    pfs_table_close(table);
  }
  fd = pfs_open(key_data, "/dev/null", O_RDWR);
  if (fd < 0) return 1;
  if (pfs_write(fd, buffer, sizeof buffer) != 2 || pfs_write(fd, (char[]){'c', 'd', 'e'}, 3) != 3 || pfs_read(fd, buffer, 1) != 0) return 1;
  return pfs_close(fd) == 0 ? 0 : 1;
}
