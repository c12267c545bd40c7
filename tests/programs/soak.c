/* Threads, objects and names that come and go for a long time.
 *   soak SECONDS NAMES
 * Each thread has one of NAMES accounts, and makes objects, files, statements, sockets and tables with one of NAMES names. Prints how many
 * threads there were, and the KiB of the segment and of the process at half time and at the end. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "instruments.h"

static pfs_key_t key_thread;
static pfs_thread_info_t threads[] = {{&key_thread, "thread", PFS_USER, NULL}};

static void use_locks(void) {
  pfs_mutex_t own[3];
  pfs_rwlock_t trees[3];
  pfs_cond_t cond[3];
  for (int i = 0; i < 3; ++i) {
    pfs_mutex_init(key_lock, &own[i], NULL);
    pfs_rwlock_init(key_tree, &trees[i], NULL);
    pfs_cond_init(key_cond, &cond[i], NULL);
    pfs_mutex_lock(&own[i]);
    pfs_rwlock_rdlock(&trees[i]);
    pfs_cond_broadcast(&cond[i]);
    pfs_rwlock_unlock(&trees[i]);
    pfs_mutex_unlock(&own[i]);
  }
  for (int i = 0; i < 3; ++i) {
    pfs_cond_destroy(&cond[i]);
    pfs_rwlock_destroy(&trees[i]);
    pfs_mutex_destroy(&own[i]);
  }
}

static void use_names(long name) {
  static const char* const indexes[] = {"key"};
  char text[64];
  int ends[2];
  pfs_statement_t statement;
  pfs_wait_t wait;
  const int length = snprintf(text, sizeof text, "select c%ld from t%ld", name, name);
  pfs_statement_begin(&statement, key_statement);
  pfs_statement_set_text(&statement, text, (size_t)length);
  pfs_stage_begin(key_stage);
  snprintf(text, sizeof text, "file-%ld", name);
  const int fd = pfs_open(key_file, text, O_RDWR | O_CREAT, 0600);
  if (pfs_write(fd, text, sizeof text) != sizeof text) abort();
  pfs_close(fd);
  pfs_unlink(key_file, text);
  if (pfs_socketpair(key_socket, AF_UNIX, SOCK_STREAM, 0, ends) != 0 || pfs_send(ends[0], text, 9, 0) != 9) abort();
  pfs_close(ends[0]);
  pfs_close(ends[1]);
  snprintf(text, sizeof text, "table%ld", name);
  pfs_table_t* const table = pfs_table_open(PFS_OBJECT_TABLE, "soak", text, NULL, indexes, 1);
  pfs_table_io_begin(&wait, table, PFS_TABLE_FETCH, 0);
  pfs_table_io_end(&wait, 1);
  pfs_table_close(table);
  pfs_table_drop(PFS_OBJECT_TABLE, "soak", text);
  pfs_stage_end();
  pfs_statement_end(&statement);
}

static void* work(void* argument) {
  const long name = (long)(intptr_t)argument;
  char user[32];
  snprintf(user, sizeof user, "user%ld", name);
  pfs_set_account(user, "host");
  use_locks();
  use_names(name);
  pfs_free(pfs_malloc(key_memory, (size_t)(64 + name)));
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void say(const char* when) {
  struct stat segment = {0};
  long all = 0, resident = 0;
  FILE* const statm = fopen("/proc/self/statm", "r");
  if (statm == NULL || fscanf(statm, "%ld %ld", &all, &resident) != 2) abort();
  fclose(statm);
  stat(pfs_segment_path(), &segment);
  printf("segment_%s %ld\nmemory_%s %ld\n", when, (long)segment.st_blocks / 2, when, resident * sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1, begin = now();
  const long names = argc > 2 ? atol(argv[2]) : 10;
  const long enough = names > 25000 ? names : 25000; /* before half time: each name, and the 20,000 threads that fill the pool of events */
  long made = 0;
  int is_half = 0;
  register_instruments("soak");
  pfs_register_thread("soak", threads, 1);
  while (now() < begin + seconds || made < 2 * enough) {
    pthread_t both[2];
    for (int i = 0; i < 2; ++i) {
      if (pfs_thread_create(key_thread, &both[i], NULL, work, (void*)(intptr_t)(made++ % names)) != 0) return 1;
    }
    for (int i = 0; i < 2; ++i) pthread_join(both[i], NULL);
    if (!is_half && now() > begin + seconds / 2 && made >= enough) {
      is_half = 1;
      say("half");
    }
  }
  say("end");
  printf("threads %ld\n", made);
  return 0;
}
