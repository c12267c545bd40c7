/* Signal handlers that leave the interrupted code with siglongjmp, every 50 microseconds or so, at any place.
 *   jumps files        files that are opened and closed
 *   jumps objects      mutexes, rwlocks and conditions that are made and destroyed
 *   jumps events       reads, stages and statements
 *   jumps log          lines of the error log
 * Another thread does the same without a timer, makes a mutex and uses it, each 50 jumps: "hung 1" if that takes more than 20 s. After the
 * jumps 50 locks. Prints "name value" lines. Run with PFS_KEEP=1, the tables can be read afterwards. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static pfs_key_t key_after, key_other, key_made, key_rw, key_cond, key_data, key_statement, key_stage;
static pfs_mutex_info_t mutexes[] = {{&key_after, "after", 0, NULL}, {&key_other, "other", 0, NULL}, {&key_made, "made", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_rw, "made", 0, NULL}};
static pfs_cond_info_t conds[] = {{&key_cond, "made", 0, NULL}};
static pfs_file_info_t files[] = {{&key_data, "data", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "statement", 0, NULL}};
static pfs_stage_info_t stages[] = {{&key_stage, "stage", 0, NULL}};
static sigjmp_buf out;
static void (*work)(void);
static pfs_mutex_t mutex;
static pfs_rwlock_t rwlock;
static pfs_cond_t cond;
static int zero;

static void leave(int signal) {
  (void)signal;
  siglongjmp(out, 1);
}

static void use_files(void) {
  int fd = pfs_open(key_data, "/dev/zero", O_RDONLY);
  if (fd >= 0) pfs_close(fd);
}

static void use_objects(void) {
  pfs_mutex_init(key_made, &mutex, NULL);
  pfs_mutex_destroy(&mutex);
  pfs_rwlock_init(key_rw, &rwlock, NULL);
  pfs_rwlock_destroy(&rwlock);
  pfs_cond_init(key_cond, &cond, NULL);
  pfs_cond_destroy(&cond);
}

static void use_events(void) {
  char buffer[64];
  pfs_statement_t statement;
  pfs_statement_begin(&statement, key_statement);
  pfs_statement_set_text(&statement, "select 1", 8);
  pfs_stage_begin(key_stage);
  if (pfs_read(zero, buffer, 7) != 7) _exit(3);
  pfs_stage_end();
  pfs_statement_end(&statement);
}

static void use_log(void) { pfs_log(PFS_LOG_NOTE, "J-1", "jumps", "a line of the log, long enough to be interrupted at times"); }

static void* other(void* unused) {
  pfs_mutex_t one;
  pfs_mutex_init(key_other, &one, NULL);
  pfs_mutex_lock(&one);
  pfs_mutex_unlock(&one);
  pfs_mutex_destroy(&one);
  if (work == use_files || work == use_log) work();
  return unused;
}

static int other_comes_back(void) {
  struct timespec until;
  pthread_t thread;
  if (pthread_create(&thread, NULL, other, NULL) != 0) return 0;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20;
  return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "files";
  struct timespec start, now;
  struct sigaction action;
  sigset_t alarm;
  pfs_mutex_t after;
  volatile int jumps = 0, others = 0;
  volatile unsigned seed = 1;
  int i;
  if (pfs_register_mutex("jumps", mutexes, 3) != PFS_OK || pfs_register_rwlock("jumps", rwlocks, 1) != PFS_OK ||
      pfs_register_cond("jumps", conds, 1) != PFS_OK || pfs_register_file("jumps", files, 1) != PFS_OK ||
      pfs_register_statement("jumps", statements, 1) != PFS_OK || pfs_register_stage("jumps", stages, 1) != PFS_OK) {
    return 2;
  }
  printf("segment %s\n", pfs_segment_path());
  work = strcmp(mode, "files") == 0     ? use_files
         : strcmp(mode, "objects") == 0 ? use_objects
         : strcmp(mode, "log") == 0     ? use_log
                                        : use_events;
  zero = pfs_open(key_data, "/dev/zero", O_RDONLY);
  pfs_mutex_init(key_after, &after, NULL);
  for (i = 0; i < 20; ++i) work();
  memset(&action, 0, sizeof action);
  action.sa_handler = leave;
  sigaction(SIGALRM, &action, NULL);
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (jumps >= 20000 || now.tv_sec - start.tv_sec >= 3) break;
    if (sigsetjmp(out, 1) == 0) {
      struct itimerval soon = {{0, 0}, {0, 0}};
      seed = seed * 1103515245u + 12345u;
      soon.it_value.tv_usec = 20 + (seed >> 16) % 60;
      setitimer(ITIMER_REAL, &soon, NULL);
      for (;;) work();
    }
    ++jumps;
    if (jumps % 50 == 0) {
      ++others;
      if (!other_comes_back()) {
        printf("hung 1\n");
        fflush(stdout);
        _exit(4);
      }
    }
  }
  sigprocmask(SIG_BLOCK, &alarm, NULL);
  for (i = 0; i < 50; ++i) {
    pfs_mutex_lock(&after);
    pfs_mutex_unlock(&after);
  }
  for (i = 0; i < 50; ++i) work();
  printf("jumps %d\nothers %d\nthread %llu\n", jumps, others, (unsigned long long)pfs_thread_id());
  return 0;
}
