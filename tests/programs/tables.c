/* A program with collections of its own: two tables of rows behind a lock, used by four threads; metadata locks and idle time around it.
 *   gcc tables.c $(pkg-config --cflags --libs perfschema) -o tables
 * Prints what it computed, which is the same with -DPFS_DISABLE. With an argument it waits for a line before the end, and prints before
 * that how often it did what, so that its tables can be compared. */
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 2000, ROWS = 64 };

struct row {
  int key, value;
};

/* Sorted by key: found by bisection ("by_key") or by a scan of all rows. */
struct table {
  pthread_mutex_t lock;
  int count;
  struct row rows[ROWS];
};

static const char* const indexes[] = {"by_key"};
static struct table tables[2] = {{PTHREAD_MUTEX_INITIALIZER, 0, {{0, 0}}}, {PTHREAD_MUTEX_INITIALIZER, 0, {{0, 0}}}};
static const char* const names[] = {"first", "second"};
static uint64_t done[2][4][2]; /* rows by table, operation and whether through the index */
static uint64_t locked[2];

static int place(const struct table* t, int key) {
  int low = 0, high = t->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (t->rows[middle].key < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* A wait of this many rows. The counts are kept under the table's lock. */
static void count(pfs_wait_t* wait, int which, enum pfs_table_io operation, int index, uint64_t rows) {
  pfs_table_io_end(wait, rows);
  done[which][operation][operation != PFS_TABLE_INSERT && index == 0] += rows;
}

static int fetch(pfs_table_t* handle, int which, int key) {
  struct table* t = &tables[which];
  pfs_wait_t wait;
  int at;
  pfs_table_io_begin(&wait, handle, PFS_TABLE_FETCH, 0);
  at = place(t, key);
  count(&wait, which, PFS_TABLE_FETCH, 0, at < t->count && t->rows[at].key == key);
  return at < t->count && t->rows[at].key == key ? at : -1;
}

static void insert(pfs_table_t* handle, int which, int key) {
  struct table* t = &tables[which];
  pfs_wait_t wait;
  int at = place(t, key);
  pfs_table_io_begin(&wait, handle, PFS_TABLE_INSERT, 0);
  memmove(&t->rows[at + 1], &t->rows[at], (size_t)(t->count - at) * sizeof t->rows[0]);
  t->rows[at].key = key;
  t->rows[at].value = 0;
  ++t->count;
  count(&wait, which, PFS_TABLE_INSERT, 0, 1);
}

static void erase(pfs_table_t* handle, int which, int at) {
  struct table* t = &tables[which];
  pfs_wait_t wait;
  pfs_table_io_begin(&wait, handle, PFS_TABLE_DELETE, 0);
  memmove(&t->rows[at], &t->rows[at + 1], (size_t)(t->count - at - 1) * sizeof t->rows[0]);
  --t->count;
  count(&wait, which, PFS_TABLE_DELETE, 0, 1);
}

static void update_all(pfs_table_t* handle, int which) {
  struct table* t = &tables[which];
  pfs_wait_t wait;
  int i;
  pfs_table_io_begin(&wait, handle, PFS_TABLE_UPDATE, PFS_NO_INDEX);
  for (i = 0; i < t->count; ++i) ++t->rows[i].value;
  count(&wait, which, PFS_TABLE_UPDATE, PFS_NO_INDEX, (uint64_t)t->count);
}

static void lock(pfs_table_t* handle, int which) {
  pfs_wait_t wait;
  pfs_table_lock_begin(&wait, handle, PFS_TABLE_WRITE_LOCK);
  pfs_table_lock_end(&wait, pthread_mutex_lock(&tables[which].lock));
  ++locked[which];
}

static void unlock(pfs_table_t* handle, int which) {
  pfs_table_unlock(handle);
  pthread_mutex_unlock(&tables[which].lock);
}

static void* work(void* argument) {
  const int thread = *(const int*)argument;
  pfs_table_t* handles[2];
  int i;
  for (i = 0; i < 2; ++i) handles[i] = pfs_table_open(PFS_OBJECT_TABLE, "program", names[i], NULL, indexes, 1);
  for (i = 0; i < ROUNDS; ++i) {
    const int which = i % 2, key = (i / 2 * 7 + thread) % (ROWS / 2) * 2;
    int at;
    lock(handles[which], which);
    at = fetch(handles[which], which, key);
    if (at < 0) {
      insert(handles[which], which, key);
    } else if (i % 3 == 0) {
      erase(handles[which], which, at);
    }
    if (i % 100 < 2) update_all(handles[which], which);
    unlock(handles[which], which);
  }
  for (i = 0; i < 2; ++i) pfs_table_close(handles[i]);
  return NULL;
}

static void wait_for_line(void) {
  int c;
  fflush(stdout);
  do c = getchar();
  while (c != '\n' && c != EOF);
}

int main(int argc, char** argv) {
  pthread_t threads[THREADS];
  int numbers[THREADS], i, which;
  pfs_metadata_lock_t* row;
  pfs_wait_t wait;
  pfs_table_t* kept;
  (void)argv;
  row = pfs_metadata_lock_create(NULL, PFS_OBJECT_TABLE, "program", "first", NULL, PFS_METADATA_SHARED_WRITE, PFS_METADATA_EXPLICIT,
                                 PFS_METADATA_PENDING);
  pfs_metadata_wait_begin(&wait, row);
  pfs_metadata_wait_end(&wait, 0);
  pfs_metadata_lock_set_status(row, PFS_METADATA_GRANTED);
  for (i = 0; i < THREADS; ++i) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, work, &numbers[i]);
  }
  pfs_idle_begin(&wait);
  for (i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  pfs_idle_end(&wait);
  kept = pfs_table_open(PFS_OBJECT_TEMPORARY_TABLE, NULL, "kept", &tables[0], NULL, 0);
  pfs_table_unbind(kept);
  for (which = 0; which < 2; ++which) {
    for (i = 1; i < tables[which].count; ++i) {
      if (tables[which].rows[i - 1].key >= tables[which].rows[i].key) printf("%s is not sorted\n", names[which]);
    }
    printf("%s locked %d\n", names[which], (int)locked[which]);
  }
  if (argc > 1) {
    for (which = 0; which < 2; ++which) {
      for (i = 0; i < 4; ++i) {
        printf("%s_%d_without %llu\n", names[which], i, (unsigned long long)done[which][i][0]);
        printf("%s_%d_by_key %llu\n", names[which], i, (unsigned long long)done[which][i][1]);
      }
    }
    printf("segment %s\nready yes\n", pfs_segment_path());
    wait_for_line();
    pfs_table_drop(PFS_OBJECT_TABLE, "program", "first");
    printf("dropped yes\n");
    wait_for_line();
  }
  pfs_table_close(kept);
  pfs_metadata_lock_destroy(row);
  return 0;
}
