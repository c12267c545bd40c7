/* An object that has counted ends, and its numbers move to its instrument, between two SIGSTOPs: a tracer looks at each step.
 *   gcc moved.c $(pkg-config --cflags --libs perfschema) -o moved
 *   moved FOLDER file|socket|mutex|rwlock|retired|table|truncated
 * truncated: an event of each follows; the tracer has made their numbers stale.
 * Prints "segment PATH". Another thread has cells of the objects, too, and lives. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>

static pfs_key_t key_mutex, key_rwlock, key_file, key_socket;
static pfs_mutex_info_t mutexes[] = {{&key_mutex, "mutex", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_rwlock, "rwlock", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_socket_info_t sockets[] = {{&key_socket, "socket", 0, NULL}};

enum { MANY = 3 };
static pfs_mutex_t mutex[MANY];
static pfs_rwlock_t rwlock[2];
static pfs_table_t* table;
static char path[512];
static int fd, pair[2];
static pthread_barrier_t barrier;

static void use(int thread) {
  char byte = 'x';
  pfs_wait_t wait;
  int i;
  for (i = 0; i <= thread; ++i) {
    if (pfs_pwrite(fd, &byte, 1, 0) != 1 || pfs_pread(fd, &byte, 1, 0) != 1) abort();
    if (pfs_send(pair[0], &byte, 1, 0) != 1 || pfs_recv(pair[1], &byte, 1, 0) != 1) abort();
    pfs_rwlock_rdlock(&rwlock[0]);
    pfs_rwlock_unlock(&rwlock[0]);
    pfs_table_lock_begin(&wait, table, PFS_TABLE_WRITE_LOCK);
    pfs_table_lock_end(&wait, 0);
    pfs_table_unlock(table);
    pfs_table_io_begin(&wait, table, PFS_TABLE_FETCH, 0);
    pfs_table_io_end(&wait, 3);
    pfs_table_io_begin(&wait, table, PFS_TABLE_INSERT, PFS_NO_INDEX);
    pfs_table_io_end(&wait, 1);
  }
}

static void* other(void* destroys) {
  use(1);
  if (destroys != NULL) {
    pfs_rwlock_destroy(&rwlock[0]);
    pfs_unlink(key_file, path);
    pfs_close(fd);
  }
  pthread_barrier_wait(&barrier);
  for (;;) pause();
  return NULL;
}

int main(int argc, char** argv) {
  const char* const indexes[] = {"by_name"};
  const char* what = argc > 2 ? argv[2] : "";
  pthread_t thread;
  int i;
  if (pfs_register_mutex("moved", mutexes, 1) != PFS_OK || pfs_register_rwlock("moved", rwlocks, 1) != PFS_OK ||
      pfs_register_file("moved", files, 1) != PFS_OK || pfs_register_socket("moved", sockets, 1) != PFS_OK || argc < 3)
    return 2;
  printf("segment %s\n", pfs_segment_path());
  fflush(stdout);
  snprintf(path, sizeof path, "%s/file", argv[1]);
  for (i = 0; i < MANY; ++i) pfs_mutex_init(key_mutex, &mutex[i], NULL);
  for (i = 0; i < 2; ++i) pfs_rwlock_init(key_rwlock, &rwlock[i], NULL);
  fd = pfs_open(key_file, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  table = pfs_table_open(PFS_OBJECT_TABLE, "moved", "table", NULL, indexes, 1);
  if (fd < 0 || table == NULL || pfs_socketpair(key_socket, AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 3;
  for (i = 0; i < 3 * MANY; ++i) {
    pfs_mutex_lock(&mutex[i % MANY]);
    pfs_mutex_unlock(&mutex[i % MANY]);
  }
  pfs_rwlock_wrlock(&rwlock[0]);
  pfs_rwlock_unlock(&rwlock[0]);
  use(0);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, other, strcmp(what, "retired") == 0 ? "destroys" : NULL);
  pthread_barrier_wait(&barrier);
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  raise(SIGSTOP);
  if (strcmp(what, "file") == 0) {
    pfs_unlink(key_file, path);
    pfs_close(fd);
  } else if (strcmp(what, "socket") == 0) {
    pfs_close(pair[0]);
    pfs_close(pair[1]);
  } else if (strcmp(what, "mutex") == 0) { /* their slots keep the numbers until a new one finds no other slot */
    for (i = 0; i < MANY; ++i) pfs_mutex_destroy(&mutex[i]);
    for (i = 0; i < MANY; ++i) pfs_mutex_init(key_mutex, &mutex[i], NULL);
  } else if (strcmp(what, "rwlock") == 0) {
    pfs_rwlock_destroy(&rwlock[0]);
  } else if (strcmp(what, "retired") == 0) { /* a new cell of this thread: it folds its cells of what the other one has destroyed */
    pfs_rwlock_rdlock(&rwlock[1]);
    pfs_rwlock_unlock(&rwlock[1]);
  } else if (strcmp(what, "table") == 0) {
    pfs_table_drop(PFS_OBJECT_TABLE, "moved", "table");
  } else if (strcmp(what, "truncated") == 0) {
    pfs_rwlock_rdlock(&rwlock[1]); /* a new cell: under the cold lock the process looks at all that a tracer may have changed */
    pfs_rwlock_unlock(&rwlock[1]);
    raise(SIGSTOP);
    use(0);
    pfs_mutex_lock(&mutex[0]);
    pfs_mutex_unlock(&mutex[0]);
  } else {
    return 4;
  }
  raise(SIGSTOP);
  return 0;
}
