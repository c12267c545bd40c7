/* A program whose rows prove themselves: one column follows from another, so a reader of the tables can tell a whole
 * row from a torn one.
 *   gcc checked.c $(pkg-config --cflags --libs perfschema) -o checked
 *   checked FOLDER MILLISECONDS [LOG]      works until it is killed, or so long; 0 = until it is killed
 *   checked FOLDER abort|segv|clean [LOG]  works for a moment, and ends in the middle of a statement, or in order
 * Prints "segment PATH", then "working". Each worker stores to the file LOG how many statements it has begun, and how many it has ended.
 *
 * Threads: worker i has the account user_i@host_i. A statement with the number n is "SELECT <n> /" followed by n % 60 times the letter 'a'
 * + n % 26, in the schema "s<n>" with the id n, n rows examined and 3 * n rows sent. A file of worker i is FOLDER/w<i>-<m>-<b>, where b =
 * 64 + m % 512 bytes are written to it at once, and read back. A stage has completed k of 2 * k. Every block of memory has BLOCK bytes.
 * Transactions have the id n and the gtid "g<n>". Worker i holds lock i while it is in a statement, and waits for lock WORKERS ("gate"),
 * which main holds for ever, if it is the last. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <string.h>
#include <sys/mman.h>

enum { WORKERS = 4, BLOCK = 1000 };

typedef struct {
  uint64_t begun, ended, unused[6];
} Log;
static Log own_log[WORKERS], *log_of = own_log;

static pfs_key_t key_lock, key_gate, key_file, key_stage, key_statement, key_memory, key_worker, key_tree;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "lock", 0, NULL}, {&key_gate, "gate", PFS_SINGLETON, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_tree, "tree", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "data", 0, NULL}};
static pfs_stage_info_t stages[] = {{&key_stage, "counting", PFS_PROGRESS, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "select", 0, NULL}};
static pfs_memory_info_t memory[] = {{&key_memory, "block", 0, NULL}};
static pfs_thread_info_t threads[] = {{&key_worker, "worker", PFS_USER, NULL}};

static pfs_mutex_t locks[WORKERS], gate;
static pfs_rwlock_t tree;
static const char *folder, *how;
static int* volatile nowhere;

static void use_file(int i, uint64_t m) {
  char path[600], buffer[600];
  size_t bytes = 64 + (size_t)(m % 512);
  int fd;
  memset(buffer, 'x', sizeof buffer);
  snprintf(path, sizeof path, "%s/w%d-%llu-%zu", folder, i, (unsigned long long)m, bytes);
  fd = pfs_open(key_file, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || pfs_write(fd, buffer, bytes) != (ssize_t)bytes || pfs_pread(fd, buffer, bytes, 0) != (ssize_t)bytes) abort();
  pfs_close(fd);
  pfs_unlink(key_file, path);
}

static void use_statement(int i, uint64_t n) {
  pfs_statement_t statement;
  pfs_transaction_t transaction;
  char text[128], small[32];
  int length = snprintf(text, sizeof text, "SELECT %llu /", (unsigned long long)n);
  void* block;
  memset(text + length, (int)('a' + n % 26), n % 60);
  length += (int)(n % 60);
  pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 0, 0);
  pfs_transaction_set_trx_id(&transaction, n);
  snprintf(small, sizeof small, "g%llu", (unsigned long long)n);
  pfs_transaction_set_gtid(&transaction, small);
  pfs_statement_begin(&statement, key_statement);
  pfs_statement_set_id(&statement, n);
  snprintf(small, sizeof small, "s%llu", (unsigned long long)n);
  pfs_statement_set_schema(&statement, small);
  pfs_statement_set_text(&statement, text, (size_t)length);
  pfs_statement_set(&statement, PFS_ROWS_EXAMINED, n);
  pfs_statement_set(&statement, PFS_ROWS_SENT, 3 * n);
  pfs_stage_begin(key_stage);
  pfs_stage_set_estimated(2 * n);
  pfs_stage_set_completed(n);
  pfs_mutex_lock(&locks[i]);
  block = pfs_malloc(key_memory, BLOCK);
  if (i % 2 == 0) {
    pfs_rwlock_rdlock(&tree);
    pfs_rwlock_unlock(&tree);
  }
  if (n % 4 == 0) use_file(i, n);
  if (how != NULL && i == 1 && n % 100000 > 100 && strcmp(how, "clean") != 0) {
    if (strcmp(how, "abort") == 0) abort();
    *nowhere = 1;
  }
  if (i == WORKERS - 1) {
    pfs_mutex_lock(&gate);
    pfs_mutex_unlock(&gate);
  }
  pfs_free(block);
  pfs_mutex_unlock(&locks[i]);
  pfs_stage_end();
  pfs_statement_end(&statement);
  pfs_transaction_end(&transaction, 1);
}

static void* work(void* argument) {
  int i = (int)(intptr_t)argument;
  char user[16], host[16];
  uint64_t n;
  snprintf(user, sizeof user, "user_%d", i);
  snprintf(host, sizeof host, "host_%d", i);
  pfs_set_account(user, host);
  for (n = 1; how == NULL || strcmp(how, "clean") != 0 || n < 200; ++n) {
    __atomic_store_n(&log_of[i].begun, n, __ATOMIC_SEQ_CST);
    use_statement(i, n + (uint64_t)i * 100000);
    __atomic_store_n(&log_of[i].ended, n, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t workers[WORKERS];
  int i, milliseconds = argc > 2 ? atoi(argv[2]) : 0;
  if (argc < 2) return 2;
  folder = argv[1];
  how = argc > 2 && milliseconds == 0 && strcmp(argv[2], "0") != 0 ? argv[2] : NULL;
  if (argc > 3) {
    const int file = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, sizeof own_log) != 0) return 3;
    log_of = mmap(NULL, sizeof own_log, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (log_of == MAP_FAILED) return 3;
  }
  pfs_register_mutex("checked", mutexes, 2);
  pfs_register_rwlock("checked", rwlocks, 1);
  pfs_register_file("checked", files, 1);
  pfs_register_stage("checked", stages, 1);
  pfs_register_statement("checked", statements, 1);
  pfs_register_memory("checked", memory, 1);
  pfs_register_thread("checked", threads, 1);
  for (i = 0; i < WORKERS; ++i) pfs_mutex_init(key_lock, &locks[i], NULL);
  pfs_mutex_init(key_gate, &gate, NULL);
  pfs_rwlock_init(key_tree, &tree, NULL);
  pfs_mutex_lock(&gate);
  printf("segment %s\n", pfs_segment_path());
  printf("working 1\n");
  fflush(stdout); /* now: a worker may crash before main goes on */
  for (i = 0; i < WORKERS; ++i) pfs_thread_create(key_worker, &workers[i], NULL, work, (void*)(intptr_t)i);
  if (milliseconds != 0) usleep((useconds_t)milliseconds * 1000);
  if (milliseconds != 0) return 0;
  if (how != NULL && strcmp(how, "clean") == 0) pfs_mutex_unlock(&gate);
  for (i = 0; i < WORKERS; ++i) pthread_join(workers[i], NULL);
  return 0;
}
