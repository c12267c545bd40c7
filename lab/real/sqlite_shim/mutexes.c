/* Mutexes for sqlite3_config(SQLITE_CONFIG_MUTEX): wait/synch/mutex/sqlite/KIND, where KIND is what sqlite3 calls it. */
#include "mutexes.h"

#include <perfschema/pfs.h>
#include <stdio.h>

/* Types as sqlite3.h numbers them. */
enum { KINDS = SQLITE_MUTEX_STATIC_VFS3 + 1 };

static pfs_key_t keys[KINDS];
static pfs_mutex_info_t kinds[KINDS] = {
    {&keys[SQLITE_MUTEX_FAST], "fast", 0, "Made as needed."},
    {&keys[SQLITE_MUTEX_RECURSIVE], "recursive", 0, "Connections."},
    {&keys[SQLITE_MUTEX_STATIC_MAIN], "static_main", PFS_SINGLETON, "Start and end."},
    {&keys[SQLITE_MUTEX_STATIC_MEM], "static_mem", PFS_SINGLETON, "Memory and its statistics."},
    {&keys[SQLITE_MUTEX_STATIC_OPEN], "static_open", PFS_SINGLETON, "Databases that are being opened."},
    {&keys[SQLITE_MUTEX_STATIC_PRNG], "static_prng", PFS_SINGLETON, "Random numbers."},
    {&keys[SQLITE_MUTEX_STATIC_LRU], "static_lru", PFS_SINGLETON, "Pages by age."},
    {&keys[SQLITE_MUTEX_STATIC_PMEM], "static_pmem", PFS_SINGLETON, "Memory of pages."},
    {&keys[SQLITE_MUTEX_STATIC_APP1], "static_app1", PFS_SINGLETON, "The program's."},
    {&keys[SQLITE_MUTEX_STATIC_APP2], "static_app2", PFS_SINGLETON, "The program's."},
    {&keys[SQLITE_MUTEX_STATIC_APP3], "static_app3", PFS_SINGLETON, "The program's."},
    {&keys[SQLITE_MUTEX_STATIC_VFS1], "static_vfs1", PFS_SINGLETON, "Of the files below."},
    {&keys[SQLITE_MUTEX_STATIC_VFS2], "static_vfs2", PFS_SINGLETON, "Of the files below."},
    {&keys[SQLITE_MUTEX_STATIC_VFS3], "static_vfs3", PFS_SINGLETON, "Of the files below."},
};

struct sqlite3_mutex {
  pfs_mutex_t mutex;
  int kind;
};
static sqlite3_mutex fixed[KINDS];

#ifdef SHIM_COUNT
static unsigned long long locks[KINDS];
#define COUNT(kind) ((void)__atomic_fetch_add(&locks[kind], 1, __ATOMIC_RELAXED))
#else
#define COUNT(kind) ((void)0)
#endif

static void make(sqlite3_mutex* m, int kind) {
  pthread_mutexattr_t attributes;
  m->kind = kind;
  pthread_mutexattr_init(&attributes);
  if (kind == SQLITE_MUTEX_RECURSIVE) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pfs_mutex_init(keys[kind], &m->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static int start(void) {
  static int started;
  int kind;
  if (started) return SQLITE_OK;
  started = 1;
  pfs_register_mutex("sqlite", kinds, KINDS);
  for (kind = SQLITE_MUTEX_STATIC_MAIN; kind < KINDS; ++kind) make(&fixed[kind], kind);
  return SQLITE_OK;
}
/* Those that are there always stay: sqlite3 may start again. */
static int end(void) { return SQLITE_OK; }

static sqlite3_mutex* allocate(int kind) {
  sqlite3_mutex* m;
  if (kind >= SQLITE_MUTEX_STATIC_MAIN) return kind < KINDS ? &fixed[kind] : NULL;
  m = malloc(sizeof *m);
  if (m != NULL) make(m, kind);
  return m;
}
static void release(sqlite3_mutex* m) {
  if (m == NULL || m->kind >= SQLITE_MUTEX_STATIC_MAIN) return;
  pfs_mutex_destroy(&m->mutex);
  free(m);
}
static void enter(sqlite3_mutex* m) {
  COUNT(m->kind);
  pfs_mutex_lock(&m->mutex);
}
static int try_enter(sqlite3_mutex* m) {
  COUNT(m->kind);
  return pfs_mutex_trylock(&m->mutex) == 0 ? SQLITE_OK : SQLITE_BUSY;
}
static void leave(sqlite3_mutex* m) { pfs_mutex_unlock(&m->mutex); }

const sqlite3_mutex_methods* shim_mutexes(void) {
  /* Who holds one is asked by assertions of sqlite3 alone, which Debian's has not. */
  static const sqlite3_mutex_methods methods = {start, end, allocate, release, enter, try_enter, leave, NULL, NULL};
  return &methods;
}

void shim_report_mutexes(void) {
#ifdef SHIM_COUNT
  int kind;
  for (kind = 0; kind < KINDS; ++kind) {
    if (locks[kind] != 0) fprintf(stderr, "shim: count %s locks %llu\n", kinds[kind].name, locks[kind]);
  }
#endif
}
