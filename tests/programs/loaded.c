/* A program under load that counts its operations, for readers from outside: two threads, one that locks, and one
 * that performs operations of all kinds.
 *   gcc loaded.c $(pkg-config --cflags --libs perfschema) -o loaded
 *   loaded COUNTER      COUNTER: a file of 8 bytes that always holds how many rounds the first thread has done
 * Prints "segment PATH" and "working", works until it gets a line, prints "name value" lines of what it has done, then "done", and waits
 * for another line. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

static pfs_key_t key_lock, key_mixed, key_file, key_stage, key_statement, key_memory, key_worker;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "lock", 0, NULL}, {&key_mixed, "mixed", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "null", 0, NULL}};
static pfs_stage_info_t stages[] = {{&key_stage, "working", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "do", 0, NULL}};
static pfs_memory_info_t memory[] = {{&key_memory, "block", 0, NULL}};
static pfs_thread_info_t threads[] = {{&key_worker, "worker", 0, NULL}};
static pfs_mutex_t lock, mixed;
static volatile int stop;
static volatile uint64_t* rounds;
static uint64_t mixed_rounds, bytes;

/* Runs all threads on one core: the other core is for the readers. */
static void stay_on_first_core(void) {
  cpu_set_t all, first;
  int i;
  CPU_ZERO(&first);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, &all); ++i) {
  }
  CPU_SET(i, &first);
  sched_setaffinity(0, sizeof first, &first);
}

static void* do_everything(void* argument) {
  const struct timespec pause = {0, 200000};
  int fd = pfs_open(key_file, "/dev/null", O_WRONLY);
  while (!stop) {
    pfs_statement_t statement;
    char text[64];
    size_t length = (size_t)snprintf(text, sizeof text, "DO %llu", (unsigned long long)mixed_rounds);
    void* block;
    pfs_statement_begin(&statement, key_statement);
    pfs_statement_set_text(&statement, text, length);
    pfs_stage_begin(key_stage);
    block = pfs_malloc(key_memory, 100);
    pfs_mutex_lock(&mixed);
    if (pfs_write(fd, text, length) != (ssize_t)length) abort();
    pfs_mutex_unlock(&mixed);
    pfs_free(block);
    pfs_stage_end();
    pfs_statement_end(&statement);
    bytes += length;
    ++mixed_rounds;
    nanosleep(&pause, NULL);
  }
  pfs_close(fd);
  return argument;
}

static void* do_locks(void* argument) {
  while (!stop) {
    pfs_mutex_lock(&lock);
    ++*rounds;
    pfs_mutex_unlock(&lock);
  }
  return argument;
}

static void wait_for_line(void) {
  char line[4];
  if (read(0, line, 2) < 0) abort();
}
static void show(const char* what, uint64_t value) { printf("%s %llu\n", what, (unsigned long long)value); }

int main(int argc, char** argv) {
  pthread_t first, second;
  int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
  rounds = (volatile uint64_t*)mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (rounds == MAP_FAILED) return 2;
  stay_on_first_core();
  pfs_register_mutex("loaded", mutexes, 2);
  pfs_register_file("loaded", files, 1);
  pfs_register_stage("loaded", stages, 1);
  pfs_register_statement("loaded", statements, 1);
  pfs_register_memory("loaded", memory, 1);
  pfs_register_thread("loaded", threads, 1);
  pfs_mutex_init(key_lock, &lock, NULL);
  pfs_mutex_init(key_mixed, &mixed, NULL);
  printf("segment %s\n", pfs_segment_path());
  pfs_thread_create(key_worker, &first, NULL, do_locks, NULL);
  pfs_thread_create(key_worker, &second, NULL, do_everything, NULL);
  printf("working 1\n");
  fflush(stdout);
  wait_for_line();
  stop = 1;
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  show("rounds", *rounds);
  show("mixed", mixed_rounds);
  show("bytes", bytes);
  show("done", 1);
  fflush(stdout);
  wait_for_line();
  return 0;
}
