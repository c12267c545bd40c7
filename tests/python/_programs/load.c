/* A program under load, as a library for load.py: threads that do everything that pfs looks at, at random, and count what they did
 * themselves.
 *
 * Objects and threads come and go all the time. Every count is kept by (account, instrument), with the thread's account at that time.
 */
#include <errno.h>
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCK_SHARED, LOCK_BRIEF, LOCK_OWN, TREE, GONE, LATE, DATA, LINK, ROWS, TABLE_LOCK, METADATA, IDLE, KINDS };
const char* const load_instruments[KINDS] = {"wait/synch/mutex/load/LOCK_shared",
                                             "wait/synch/mutex/load/LOCK_brief",
                                             "wait/synch/mutex/load/LOCK_own",
                                             "wait/synch/rwlock/load/tree",
                                             "wait/synch/rwlock/load/gone",
                                             "wait/synch/cond/load/late",
                                             "wait/io/file/load/data",
                                             "wait/io/socket/load/link",
                                             "wait/io/table/sql/handler",
                                             "wait/lock/table/sql/handler",
                                             "wait/lock/metadata/sql/mdl",
                                             "idle"};
enum { ACCOUNTS = 5, SHARED = 3, FILES = 6 };
static const char* const users[ACCOUNTS] = {"", "anna", "anna", "bert", "carl"};
static const char* const hosts[ACCOUNTS] = {"", "desk", "phone", "desk", "desk"};

typedef struct {
  uint64_t events[ACCOUNTS][KINDS];
  uint64_t bytes_read, bytes_written;
} Counts;

static pfs_key_t keys[KINDS];
static pfs_mutex_t shared[SHARED];
static pfs_rwlock_t tree;
static pfs_cond_t late;
static atomic_int stop;
static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;
static Counts sum;
static char folder[512];

typedef struct {
  uint64_t random;
  int account;
  Counts counts;
} Worker;

static uint32_t Random(Worker* w, uint32_t below) {
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return (uint32_t)(w->random >> 33) % below;
}

static void Count(Worker* w, int kind) { ++w->counts.events[w->account][kind]; }

static void AddUp(const Counts* counts) {
  const uint64_t* from = (const uint64_t*)counts;
  uint64_t* to = (uint64_t*)&sum;
  pthread_mutex_lock(&sum_lock);
  for (size_t i = 0; i < sizeof sum / sizeof *to; ++i) to[i] += from[i];
  pthread_mutex_unlock(&sum_lock);
}

static void UseShared(Worker* w) {
  pfs_mutex_t* m = &shared[Random(w, SHARED)];
  const int rc = Random(w, 4) == 0 ? pfs_mutex_trylock(m) : pfs_mutex_lock(m);
  Count(w, LOCK_SHARED);
  if (rc == 0) pfs_mutex_unlock(m);
}

static void UseBrief(Worker* w) {
  pfs_mutex_t m;
  pfs_mutex_init(keys[LOCK_BRIEF], &m, NULL);
  for (uint32_t n = 1 + Random(w, 3); n > 0; --n) {
    pfs_mutex_lock(&m);
    Count(w, LOCK_BRIEF);
    pfs_mutex_unlock(&m);
  }
  pfs_mutex_destroy(&m);
}

static void UseOwn(Worker* w) {
  pfs_instance_t* row = pfs_mutex_create(keys[LOCK_OWN], w);
  pfs_wait_t outer, inner;
  pfs_mutex_wait_begin(&outer, row, PFS_LOCK);
  pfs_mutex_wait_begin(&inner, row, PFS_TRY_LOCK);
  pfs_mutex_wait_end(&inner, EBUSY, PFS_NO_SPINS);
  pfs_mutex_wait_end(&outer, 0, 3);
  Count(w, LOCK_OWN);
  Count(w, LOCK_OWN);
  pfs_mutex_released(row);
  pfs_mutex_discard(row);
}

static void UseTree(Worker* w) {
  int rc;
  switch (Random(w, 4)) {
    case 0:
      rc = pfs_rwlock_wrlock(&tree);
      break;
    case 1:
      rc = pfs_rwlock_tryrdlock(&tree);
      break;
    default:
      rc = pfs_rwlock_rdlock(&tree);
      break;
  }
  Count(w, TREE);
  if (rc == 0) pfs_rwlock_unlock(&tree);
}

static void UseGone(Worker* w) {
  pfs_rwlock_t rw;
  pfs_rwlock_init(keys[GONE], &rw, NULL);
  pfs_rwlock_rdlock(&rw);
  Count(w, GONE);
  pfs_rwlock_unlock(&rw);
  pfs_rwlock_wrlock(&rw);
  Count(w, GONE);
  pfs_rwlock_unlock(&rw);
  pfs_rwlock_destroy(&rw);
}

static void UseLate(Worker* w) {
  const struct timespec past = {1, 0};
  pfs_mutex_t* m = &shared[0];
  pfs_mutex_lock(m);
  Count(w, LOCK_SHARED);
  pfs_cond_timedwait(&late, m, &past);
  Count(w, LATE);
  pfs_mutex_unlock(m);
}

static void UseData(Worker* w) {
  char path[600], other[600], buffer[256] = {0};
  snprintf(path, sizeof path, "%s/%u", folder, Random(w, FILES));
  const int fd = pfs_open(keys[DATA], path, O_RDWR | O_CREAT, 0600);
  Count(w, DATA);
  if (fd < 0) return;
  for (uint32_t n = Random(w, 4); n > 0; --n) {
    const ssize_t written = pfs_pwrite(fd, buffer, Random(w, sizeof buffer), 0);
    Count(w, DATA);
    if (written > 0) w->counts.bytes_written += (uint64_t)written;
    const ssize_t got = pfs_pread(fd, buffer, Random(w, sizeof buffer), 0);
    Count(w, DATA);
    if (got > 0) w->counts.bytes_read += (uint64_t)got;
  }
  pfs_close(fd);
  Count(w, DATA);
  switch (Random(w, 8)) {
    case 0:
      pfs_unlink(keys[DATA], path);
      Count(w, DATA);
      break;
    case 1:
      snprintf(other, sizeof other, "%s/%u", folder, Random(w, FILES));
      pfs_rename(keys[DATA], path, other);
      Count(w, DATA);
      break;
    default:
      break;
  }
}

static void UseLink(Worker* w) {
  char buffer[64] = {0};
  int ends[2];
  if (pfs_socketpair(keys[LINK], AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  Count(w, LINK);
  for (uint32_t n = 1 + Random(w, 3); n > 0; --n) {
    pfs_send(ends[0], buffer, 1 + Random(w, sizeof buffer - 1), 0);
    pfs_recv(ends[1], buffer, sizeof buffer, 0);
    w->counts.events[w->account][LINK] += 2;
  }
  pfs_shutdown(ends[0], SHUT_WR);
  pfs_close(ends[0]);
  pfs_close(ends[1]);
  w->counts.events[w->account][LINK] += 3;
}

static void UseTable(Worker* w) {
  static const char* const names[] = {"first", "second", "third"};
  static const char* const indexes[] = {"by_key"};
  const char* name = names[Random(w, 3)];
  pfs_metadata_lock_t* lock = pfs_metadata_lock_create(w, PFS_OBJECT_TABLE, "load", name, NULL, PFS_METADATA_EXCLUSIVE,
                                                       PFS_METADATA_TRANSACTION, PFS_METADATA_PENDING);
  pfs_wait_t wait;
  pfs_metadata_wait_begin(&wait, lock);
  pfs_metadata_wait_end(&wait, 0);
  Count(w, METADATA);
  pfs_table_t* table = pfs_table_open(PFS_OBJECT_TABLE, "load", name, NULL, indexes, 1);
  pfs_table_lock_begin(&wait, table, (enum pfs_table_lock)Random(w, 10));
  pfs_table_lock_end(&wait, 0);
  Count(w, TABLE_LOCK);
  for (uint32_t n = Random(w, 4); n > 0; --n) {
    const uint64_t rows = 1 + Random(w, 3);
    pfs_table_io_begin(&wait, table, (enum pfs_table_io)Random(w, 4), (int)Random(w, 2) - 1);
    pfs_table_io_end(&wait, rows);
    w->counts.events[w->account][ROWS] += rows;
  }
  pfs_table_unlock(table);
  pfs_table_close(table);
  if (Random(w, 8) == 0) pfs_table_drop(PFS_OBJECT_TABLE, "load", name);
  pfs_metadata_lock_destroy(lock);
  pfs_idle_begin(&wait);
  pfs_idle_end(&wait);
  Count(w, IDLE);
}

static void Change(Worker* w) {
  w->account = (int)Random(w, ACCOUNTS);
  pfs_set_account(users[w->account], hosts[w->account]);
}

static void Step(Worker* w) {
  switch (Random(w, 24)) {
    case 0:
      UseBrief(w);
      break;
    case 1:
      UseOwn(w);
      break;
    case 2:
      UseGone(w);
      break;
    case 3:
      UseLate(w);
      break;
    case 4:
      if (Random(w, 2) == 0) {
        UseLink(w);
      } else {
        UseTable(w);
      }
      break;
    case 5:
      UseData(w);
      break;
    case 6:
      if (Random(w, 8) == 0) Change(w);
      break;
    case 7:
    case 8:
    case 9:
    case 10:
      UseTree(w);
      break;
    default:
      UseShared(w);
      break;
  }
}

static void* Brief(void* seed) {
  Worker w = {.random = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1};
  if (Random(&w, 2) == 0) Change(&w);
  for (int i = 0; i < 50; ++i) Step(&w);
  AddUp(&w.counts);
  return NULL;
}

static void* Long(void* seed) {
  Worker w = {.random = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1};
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    for (int i = 0; i < 500; ++i) Step(&w);
    pthread_t thread;
    if (pthread_create(&thread, NULL, Brief, (void*)(uintptr_t)(w.random | 1)) == 0) pthread_join(thread, NULL);
  }
  AddUp(&w.counts);
  return NULL;
}

enum { MOST = 16 };
static pthread_t threads[MOST];
static int running;

int load_start(const char* where, int n, long seed) {
  static pfs_mutex_info_t mutexes[] = {
      {&keys[LOCK_SHARED], "LOCK_shared", 0, NULL}, {&keys[LOCK_BRIEF], "LOCK_brief", 0, NULL}, {&keys[LOCK_OWN], "LOCK_own", 0, NULL}};
  static pfs_rwlock_info_t rwlocks[] = {{&keys[TREE], "tree", 0, NULL}, {&keys[GONE], "gone", 0, NULL}};
  static pfs_cond_info_t conds[] = {{&keys[LATE], "late", 0, NULL}};
  static pfs_file_info_t files[] = {{&keys[DATA], "data", 0, NULL}};
  static pfs_socket_info_t sockets[] = {{&keys[LINK], "link", 0, NULL}};
  snprintf(folder, sizeof folder, "%s", where);
  if (pfs_register_mutex("load", mutexes, 3) || pfs_register_rwlock("load", rwlocks, 2) || pfs_register_cond("load", conds, 1)) return -1;
  if (pfs_register_file("load", files, 1) || pfs_register_socket("load", sockets, 1)) return -1;
  for (int i = 0; i < SHARED; ++i) pfs_mutex_init(keys[LOCK_SHARED], &shared[i], NULL);
  pfs_rwlock_init(keys[TREE], &tree, NULL);
  pfs_cond_init(keys[LATE], &late, NULL);
  for (running = 0; running < n && running < MOST; ++running) {
    if (pthread_create(&threads[running], NULL, Long, (void*)(uintptr_t)(seed + running)) != 0) return -1;
  }
  return 0;
}

/* Ends all threads. What they counted is in load_counts(). */
void load_stop(void) {
  atomic_store(&stop, 1);
  while (running > 0) pthread_join(threads[--running], NULL);
}

int load_kinds(void) { return KINDS; }
int load_accounts(void) { return ACCOUNTS; }
const char* load_instrument(int kind) { return load_instruments[kind]; }
const char* load_user(int account) { return users[account]; }
const char* load_host(int account) { return hosts[account]; }
uint64_t load_events(int account, int kind) { return sum.events[account][kind]; }
uint64_t load_bytes_read(void) { return sum.bytes_read; }
uint64_t load_bytes_written(void) { return sum.bytes_written; }
