/* driver.c CASE N: the operation of CASE, N times, twice. For callgrind: a user's program, public headers only. Case "memory" prints how
 * many bytes of its segment are resident.
 *
 * pfs_bench_part() is called after each N: there callgrind writes down what it has counted.
 * What is recorded is set by PFS_OPTIONS. PFS_BENCH_PADDING=n adds n instructions to each operation, PFS_BENCH_LINES=n as many lines of
 * memory: the negative controls of the gates. PFS_BENCH_MARK calls pfs_bench_mark() before each operation.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef PFS_BENCH_PADDING
#define PFS_BENCH_PADDING 0
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#ifdef PFS_BENCH_MARK
static volatile char more_lines[64 * (PFS_BENCH_LINES + 1)];
__attribute__((noinline)) void pfs_bench_mark(void) { __asm__ volatile(""); }
#define PADDING                                                                   \
  do {                                                                            \
    pfs_bench_mark();                                                             \
    for (int line = 0; line < PFS_BENCH_LINES; ++line) more_lines[64 * line] = 1; \
  } while (0)
#define PARTS 1
#else
#define PADDING __asm__ volatile(".rept " TEXT(PFS_BENCH_PADDING) "\n\tnop\n\t.endr")
#define PARTS 2
#endif
__attribute__((noinline)) void pfs_bench_part(void) { __asm__ volatile(""); }
#define TIMES(n)                                              \
  for (long part = 0; part < PARTS; ++part, pfs_bench_part()) \
    for (long i = part * (n), end = i + (n); i < end; ++i)

/* Replaces the C library's: each reading of CLOCK_MONOTONIC is a microsecond after the last. A digest keeps the times of its statements in
 * lists of blocks. How far an operation must look in them would depend on how long statements take, and so on the machine's load. The
 * library reads this clock in place of the cycle counter if performance_schema_cycle_timer is OFF.
 */
int clock_gettime(clockid_t clock, struct timespec* now) {
  static long readings;
  if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, now);
  const long micros = __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED);
  *now = (struct timespec){micros / 1000000, micros % 1000000 * 1000};
  return 0;
}

static pfs_key_t mutex_key, cond_key, file_key, socket_key, memory_key;
static pfs_mutex_info_t mutexes[] = {{&mutex_key, "LOCK_driver", 0, "A mutex."}};
static pfs_cond_info_t conds[] = {{&cond_key, "COND_driver", 0, "A condition."}};
static pfs_file_info_t files[] = {{&file_key, "driver", 0, "A file."}};
static pfs_socket_info_t sockets[] = {{&socket_key, "driver", 0, "Sockets."}};
static pfs_key_t statement_key;
static pfs_statement_info_t statements[] = {{&statement_key, "driver", 0, "Statements."}};
static pfs_memory_info_t blocks[] = {{&memory_key, "driver", PFS_CONTROLLED, "Blocks."}};

int main(int argc, char** argv) {
  static pthread_mutex_t bare = PTHREAD_MUTEX_INITIALIZER;
  static pfs_mutex_t m;
  char buffer[120];
  if (argc != 3) return 2;
  const char* what = argv[1];
  const long n = atol(argv[2]);
  pfs_register_mutex("bench", mutexes, 1);
  pfs_register_cond("bench", conds, 1);
  pfs_register_file("bench", files, 1);
  pfs_register_socket("bench", sockets, 1);
  pfs_register_memory("bench", blocks, 1);
  pfs_register_statement("bench", statements, 1);
  pfs_mutex_init(mutex_key, &m, NULL);
  if (strcmp(what, "bare") == 0) {
    TIMES(n) {
      PADDING;
      pthread_mutex_lock(&bare);
      pthread_mutex_unlock(&bare);
    }
  } else if (strcmp(what, "lock") == 0) {
    TIMES(n) {
      PADDING;
      pfs_mutex_lock(&m);
      pfs_mutex_unlock(&m);
    }
  } else if (strcmp(what, "trylock") == 0) {
    TIMES(n) {
      PADDING;
      if (pfs_mutex_trylock(&m) == 0) pfs_mutex_unlock(&m);
    }
  } else if (strcmp(what, "ownlock") == 0) {
    pfs_instance_t* own = pfs_mutex_create(mutex_key, buffer);
    pfs_wait_t wait;
    TIMES(n) {
      PADDING;
      pfs_mutex_wait_begin(&wait, own, PFS_LOCK);
      pfs_mutex_wait_end(&wait, 0, PFS_NO_SPINS);
      pfs_mutex_released(own);
    }
  } else if (strcmp(what, "mutexlife") == 0) {
    static pfs_mutex_t short_lived;
    TIMES(n) {
      PADDING;
      pfs_mutex_init(mutex_key, &short_lived, NULL);
      pfs_mutex_destroy(&short_lived);
    }
  } else if (strcmp(what, "condlife") == 0) {
    static pfs_cond_t short_lived;
    TIMES(n) {
      PADDING;
      pfs_cond_init(cond_key, &short_lived, NULL);
      pfs_cond_destroy(&short_lived);
    }
  } else if (strcmp(what, "barelife") == 0) {
    static pthread_cond_t short_lived;
    TIMES(n) {
      PADDING;
      pthread_cond_init(&short_lived, NULL);
      pthread_cond_destroy(&short_lived);
    }
  } else if (strcmp(what, "pread") == 0) {
    int fd = pfs_open(file_key, "/proc/self/exe", O_RDONLY);
    TIMES(n) {
      PADDING;
      if (pfs_pread(fd, buffer, sizeof buffer, 0) != (ssize_t)sizeof buffer) return 3;
    }
    pfs_close(fd);
  } else if (strcmp(what, "openclose") == 0) {
    TIMES(n) {
      PADDING;
      if (pfs_close(pfs_open(file_key, "/proc/self/exe", O_RDONLY)) != 0) return 3;
    }
  } else if (strcmp(what, "missing") == 0) {
    struct stat info;
    TIMES(n) {
      PADDING;
      if (pfs_stat(file_key, "/proc/self/no-such-file", &info) == 0) return 3;
    }
  } else if (strcmp(what, "fread") == 0) {
    FILE* stream = pfs_fopen(file_key, "/proc/self/exe", "rb");
    TIMES(n) {
      PADDING;
      if (pfs_fread(buffer, 1, 1, stream) != 1) pfs_rewind(stream);
    }
    pfs_fclose(stream);
  } else if (strcmp(what, "socket") == 0) {
    int fds[2];
    if (pfs_socketpair(socket_key, AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 3;
    TIMES(n) {
      PADDING;
      if (pfs_send(fds[0], buffer, 64, 0) != 64 || pfs_recv(fds[1], buffer, 64, 0) != 64) return 3;
    }
  } else if (strcmp(what, "socketfile") == 0) {
    int fds[2];
    if (pfs_socketpair(socket_key, AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 3;
    TIMES(n) {
      PADDING;
      if (pfs_write(fds[0], buffer, 64) != 64 || pfs_read(fds[1], buffer, 64) != 64) return 3;
    }
  } else if (strcmp(what, "idle") == 0) {
    pfs_wait_t wait;
    TIMES(n) {
      PADDING;
      pfs_idle_begin(&wait);
      pfs_idle_end(&wait);
    }
  } else if (strcmp(what, "row") == 0 || strcmp(what, "tablelock") == 0) {
    static const char* const indexes[] = {"PRIMARY"};
    pfs_table_t* table = pfs_table_open(PFS_OBJECT_TABLE, "bench", "rows", NULL, indexes, 1);
    pfs_wait_t wait;
    if (what[0] == 'r') {
      TIMES(n) {
        PADDING;
        pfs_table_io_begin(&wait, table, PFS_TABLE_FETCH, 0);
        pfs_table_io_end(&wait, 1);
      }
    } else {
      TIMES(n) {
        PADDING;
        pfs_table_lock_begin(&wait, table, PFS_TABLE_WRITE_LOCK);
        pfs_table_lock_end(&wait, 0);
      }
    }
  } else if (strcmp(what, "metadata") == 0) {
    pfs_metadata_lock_t* lock = pfs_metadata_lock_create(NULL, PFS_OBJECT_TABLE, "bench", "rows", NULL, PFS_METADATA_SHARED_READ,
                                                         PFS_METADATA_EXPLICIT, PFS_METADATA_PENDING);
    pfs_wait_t wait;
    TIMES(n) {
      PADDING;
      pfs_metadata_wait_begin(&wait, lock);
      pfs_metadata_wait_end(&wait, 0);
    }
  } else if (strcmp(what, "statement") == 0) {
    static const char text[] =
        "select id, name, price from orders where customer = 17 and state in ('open', 'paid') order by price limit 10";
    pfs_statement_t statement;
    TIMES(n) {
      PADDING;
      pfs_statement_begin(&statement, statement_key);
      pfs_statement_set_text(&statement, text, sizeof text - 1);
      pfs_statement_end(&statement);
    }
  } else if (strcmp(what, "newtext") == 0) {
    char text[] = "select id, name, price from orders where customer = 00000000 and state in ('open', 'paid') order by price limit 10";
    char* const number = strchr(text, '0');
    pfs_statement_t statement;
    TIMES(n) {
      for (long digit = 8, rest = i; digit-- > 0; rest >>= 4) number[digit] = (char)('0' + (rest & 7));
      PADDING;
      pfs_statement_begin(&statement, statement_key);
      pfs_statement_set_text(&statement, text, sizeof text - 1);
      pfs_statement_end(&statement);
    }
  } else if (strcmp(what, "block") == 0) {
    TIMES(n) {
      PADDING;
      pfs_free(pfs_malloc(memory_key, 64));
    }
  } else if (strcmp(what, "memory") == 0) {
    struct stat segment;
    TIMES(n) {
      pfs_mutex_lock(&m);
      pfs_mutex_unlock(&m);
    }
    if (stat(pfs_segment_path(), &segment) != 0) return 3;
    printf("%lld\n", (long long)segment.st_blocks * 512);
  } else {
    return 2;
  }
  return 0;
}
