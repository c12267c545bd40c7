/* Tables, metadata locks, data locks and idle of the C API as plain functions, for ctypes: see tables.py. A part of driver.c's library. */
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <stdio.h>
#include <string.h>

/* `indexes` is "first,second"; "" = none. */
pfs_table_t* t_table_open(int type, const char* schema, const char* name, const void* identity, const char* indexes) {
  char text[4096];
  const char* names[64];
  int count = 0;
  snprintf(text, sizeof text, "%s", indexes);
  for (char* word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) names[count++] = word;
  return pfs_table_open((enum pfs_object_type)type, schema, name, identity, names, count);
}
void t_table_close(pfs_table_t* table) { pfs_table_close(table); }
void t_table_drop(int type, const char* schema, const char* name) { pfs_table_drop((enum pfs_object_type)type, schema, name); }
void t_table_bind(pfs_table_t* table) { pfs_table_bind(table); }
void t_table_unbind(pfs_table_t* table) { pfs_table_unbind(table); }
void t_table_unlock(pfs_table_t* table) { pfs_table_unlock(table); }
void t_table_unlock_internal(pfs_table_t* table) { pfs_table_unlock_internal(table); }
void t_table_unlock_external(pfs_table_t* table) { pfs_table_unlock_external(table); }

pfs_wait_t* t_io_begin(pfs_table_t* table, int operation, int index) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_table_io_begin(wait, table, (enum pfs_table_io)operation, index);
  return wait;
}
void t_io_end(pfs_wait_t* wait, uint64_t rows) {
  pfs_table_io_end(wait, rows);
  free(wait);
}
pfs_wait_t* t_table_lock_begin(pfs_table_t* table, int lock) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_table_lock_begin(wait, table, (enum pfs_table_lock)lock);
  return wait;
}
void t_table_lock_end(pfs_wait_t* wait, int rc) {
  pfs_table_lock_end(wait, rc);
  free(wait);
}

pfs_metadata_lock_t* t_metadata_create(const void* identity, int type, const char* schema, const char* name, const char* column, int lock,
                                       int duration, int status) {
  return pfs_metadata_lock_create(identity, (enum pfs_object_type)type, schema, name, column, (enum pfs_metadata_type)lock,
                                  (enum pfs_metadata_duration)duration, (enum pfs_metadata_status)status);
}
void t_metadata_set(pfs_metadata_lock_t* lock, int lock_type, int duration, int status) {
  pfs_metadata_lock_set_type(lock, (enum pfs_metadata_type)lock_type);
  pfs_metadata_lock_set_duration(lock, (enum pfs_metadata_duration)duration);
  pfs_metadata_lock_set_status(lock, (enum pfs_metadata_status)status);
}
void t_metadata_destroy(pfs_metadata_lock_t* lock) { pfs_metadata_lock_destroy(lock); }
pfs_wait_t* t_metadata_begin(pfs_metadata_lock_t* lock) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_metadata_wait_begin(wait, lock);
  return wait;
}
void t_metadata_end(pfs_wait_t* wait, int rc) {
  pfs_metadata_wait_end(wait, rc);
  free(wait);
}

pfs_wait_t* t_idle_begin(void) {
  pfs_wait_t* wait = malloc(sizeof *wait);
  pfs_idle_begin(wait);
  return wait;
}
void t_idle_end(pfs_wait_t* wait) {
  pfs_idle_end(wait);
  free(wait);
}

/* An engine with `locks` locks, each of which but the first waits for the one before. It counts its calls. */
struct engine {
  pfs_data_lock_inspector_t inspector;
  int locks;
  int scans;
  int error; /* of a registration out of the inspector */
};

static void Scan(void* self, pfs_data_locks_t* rows) {
  struct engine* engine = self;
  ++engine->scans;
  for (int i = 0; i < engine->locks; ++i) {
    char id[160], data[9000];
    pfs_data_lock_t lock = PFS_DATA_LOCK_INITIALIZER;
    snprintf(id, sizeof id, "lock-%d", i);
    lock.lock_id = id;
    lock.object = (const void*)(uintptr_t)(0x1000 + i);
    lock.lock_type = "RECORD";
    lock.lock_mode = i == 0 ? "X" : "S";
    lock.lock_status = i == 0 ? "GRANTED" : "WAITING";
    if (i == 1) {
      memset(id, 'i', 150);
      id[150] = 0;
      memset(data, 'd', 8500);
      data[8500] = 0;
      lock.transaction_id = 0;
      lock.thread_id = pfs_thread_id();
      lock.event_id = 5;
      lock.schema = "shop";
      lock.name = "orders";
      lock.partition = "p0";
      lock.subpartition = "p0s0";
      lock.index_name = "PRIMARY";
      lock.lock_data = data;
    }
    if (!pfs_data_locks_add(rows, &lock)) return;
    memset(id, '?', sizeof id); /* texts are copied at once */
  }
}

static void ScanWaits(void* self, pfs_data_lock_waits_t* rows) {
  struct engine* engine = self;
  ++engine->scans;
  for (int i = 1; i < engine->locks; ++i) {
    char requesting[32], blocking[32];
    pfs_data_lock_wait_t wait = PFS_DATA_LOCK_WAIT_INITIALIZER;
    snprintf(requesting, sizeof requesting, "lock-%d", i);
    snprintf(blocking, sizeof blocking, "lock-%d", i - 1);
    wait.requesting.lock_id = requesting;
    wait.requesting.object = (const void*)(uintptr_t)(0x1000 + i);
    wait.blocking.lock_id = blocking;
    wait.blocking.transaction_id = 7;
    wait.blocking.thread_id = 8;
    wait.blocking.event_id = 9;
    if (!pfs_data_lock_waits_add(rows, &wait)) return;
  }
}

static void ScanAndRegister(void* self, pfs_data_locks_t* rows) {
  struct engine* engine = self;
  Scan(self, rows);
  engine->error = pfs_data_lock_unregister(&engine->inspector);
}

struct engine* t_engine_new(const char* name, int locks, int registers) {
  struct engine* engine = calloc(1, sizeof *engine);
  engine->inspector = (pfs_data_lock_inspector_t){strdup(name), engine, registers ? ScanAndRegister : Scan, ScanWaits};
  engine->locks = locks;
  return engine;
}
int t_engine_register(struct engine* engine) { return pfs_data_lock_register(engine != NULL ? &engine->inspector : NULL); }
int t_engine_unregister(struct engine* engine) { return pfs_data_lock_unregister(&engine->inspector); }
int t_engine_scans(const struct engine* engine) { return engine->scans; }
int t_engine_error(const struct engine* engine) { return engine->error; }
