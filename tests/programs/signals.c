/* Signals in an instrumented program. Prints "name value" lines. Run with PFS_KEEP=1, the tables can be read afterwards.
 *   signals timer     a 5 kHz timer whose handler locks a mutex of its own and writes to a pipe, while the program locks and reads
 *   signals cold      the same timer, while the program opens and closes files and makes and destroys mutexes
 *   signals first     the handler writes to another file each time, while the program makes and destroys mutexes
 *   signals account   the handler locks its mutex and says what it does, while the program works for one user after the other
 *   signals jump      one lock; siglongjmp out of a blocking read, 20 times; after that 50 locks */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <perfschema/server.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static pfs_key_t key_handler, key_main, key_pipe, key_data, key_hole;
static pfs_mutex_info_t mutexes[] = {{&key_handler, "handler", 0, NULL}, {&key_main, "main", 0, NULL}};
static pfs_file_info_t files[] = {{&key_pipe, "pipe", 0, NULL}, {&key_data, "data", 0, NULL}, {&key_hole, "hole", 0, NULL}};
static pfs_mutex_t of_handler, of_main;
static int pipe_ends[2];
static volatile sig_atomic_t calls;
static volatile unsigned long handler_bad;

static void on_timer(int signal) {
  const int error = errno;
  (void)signal;
  ++calls;
  if (pfs_mutex_lock(&of_handler) != 0) ++handler_bad;
  if (pfs_mutex_unlock(&of_handler) != 0) ++handler_bad;
  errno = 77;
  if (pfs_write(pipe_ends[1], "x", 1) != 1 && errno != EAGAIN) ++handler_bad;
  errno = error;
}

static int cold(void) {
  struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  struct timespec start, now;
  unsigned long opens = 0, locks = 0;
  char buffer[64];
  int i;
  if (pipe2(pipe_ends, O_NONBLOCK) != 0) return 2;
  pfs_file_bind(key_pipe, pipe_ends[1], "/pipe");
  pfs_mutex_init(key_handler, &of_handler, NULL);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  clock_gettime(CLOCK_MONOTONIC, &start);
  setitimer(ITIMER_REAL, &every, NULL);
  do {
    for (i = 0; i < 200; ++i) {
      const int fd = pfs_open(key_data, "/dev/zero", O_RDONLY);
      if (fd >= 0) ++opens;
      pfs_mutex_init(key_main, &of_main, NULL);
      if (i % 2 == 0 && pfs_mutex_lock(&of_main) == 0 && pfs_mutex_unlock(&of_main) == 0) ++locks;
      pfs_mutex_destroy(&of_main);
      pfs_close(fd);
    }
    if (read(pipe_ends[0], buffer, sizeof buffer) < 0 && errno != EAGAIN) ++handler_bad;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 3);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("calls %d\nopens %lu\nlocks %lu\nhandler_bad %lu\n", (int)calls, opens, locks, handler_bad);
  return 0;
}

enum { kFirsts = 500 };
static int firsts[kFirsts];

static void on_timer_of_first(int signal) {
  (void)signal;
  if (calls == kFirsts) return;
  if (pfs_write(firsts[calls], "x", 1) != 1) ++handler_bad;
  ++calls;
}

static int first(void) {
  struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  char name[32];
  int i;
  for (i = 0; i < kFirsts; ++i) {
    snprintf(name, sizeof name, "/null/%d", i);
    firsts[i] = open("/dev/null", O_WRONLY);
    if (firsts[i] < 0 || pfs_file_bind(key_pipe, firsts[i], name) != PFS_OK) return 2;
  }
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer_of_first;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  while (calls < kFirsts) {
    pfs_mutex_init(key_main, &of_main, NULL);
    pfs_mutex_destroy(&of_main);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("calls %d\nhandler_bad %lu\n", (int)calls, handler_bad);
  return 0;
}

static int timer(void) {
  struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  struct timespec start, now;
  unsigned long locks = 0, reads = 0, bad = 0;
  char buffer[64];
  int i, fd;
  if (pipe2(pipe_ends, O_NONBLOCK) != 0) return 2;
  pfs_file_bind(key_pipe, pipe_ends[1], "/pipe");
  pfs_mutex_init(key_handler, &of_handler, NULL);
  pfs_mutex_init(key_main, &of_main, NULL);
  fd = pfs_open(key_data, "/dev/zero", O_RDONLY);
  /* Each path once, so that call sites and statistics have their place: the cold path cannot serve a handler that interrupts it. */
  on_timer(0);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  clock_gettime(CLOCK_MONOTONIC, &start);
  setitimer(ITIMER_REAL, &every, NULL);
  do {
    for (i = 0; i < 500; ++i) {
      errno = 5;
      if (pfs_mutex_lock(&of_main) != 0 || pfs_mutex_unlock(&of_main) != 0) ++bad;
      if (errno != 5) ++bad;
      ++locks;
      if (i % 4 == 0) {
        if (pfs_read(fd, buffer, 7) != 7) ++bad;
        ++reads;
      }
    }
    if (read(pipe_ends[0], buffer, sizeof buffer) < 0 && errno != EAGAIN) ++bad;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 3);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("calls %d\nlocks %lu\nreads %lu\nbad %lu\nhandler_bad %lu\n", (int)calls, locks, reads, bad, handler_bad);
  return 0;
}

static void on_timer_of_account(int signal) {
  (void)signal;
  ++calls;
  if (pfs_mutex_lock(&of_handler) != 0 || pfs_mutex_unlock(&of_handler) != 0) ++handler_bad;
  pfs_thread_set_info("hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh", 40);
}

static int account(void) {
  static const char* const users[] = {"anna", "bob", "eve"};
  struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  struct timespec start, now;
  unsigned long locks = 0, switches = 0;
  int i;
  pfs_mutex_init(key_handler, &of_handler, NULL);
  pfs_mutex_init(key_main, &of_main, NULL);
  for (i = 0; i < 3; ++i) pfs_set_account(users[i], "desk"); /* each path once, as in timer() */
  on_timer_of_account(0);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer_of_account;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  clock_gettime(CLOCK_MONOTONIC, &start);
  setitimer(ITIMER_REAL, &every, NULL);
  do {
    for (i = 0; i < 500; ++i) {
      if (pfs_set_account(users[i % 3], "desk") != PFS_OK) ++handler_bad;
      ++switches;
      pfs_mutex_lock(&of_main);
      pfs_mutex_unlock(&of_main);
      ++locks;
      pfs_thread_set_info("mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm", 64);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 2);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("calls %d\nlocks %lu\nswitches %lu\nhandler_bad %lu\n", (int)calls, locks, switches, handler_bad);
  return 0;
}

static sigjmp_buf out;
static void on_alarm(int signal) {
  (void)signal;
  siglongjmp(out, 1);
}

static int jump(void) {
  struct itimerval soon = {{0, 0}, {0, 3000}};
  volatile int jumps = 0;
  int i, ends[2];
  char byte;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
  if (pipe(ends) != 0) return 2;
  pfs_file_bind(key_hole, ends[0], "/hole");
  pfs_mutex_init(key_main, &of_main, NULL);
  /* Once without a jump: the first event of a thread and of a file takes locks of pfs, which no jump may pass over. */
  if (write(ends[1], "x", 1) != 1 || pfs_read(ends[0], &byte, 1) != 1) return 2;
  pfs_mutex_lock(&of_main);
  pfs_mutex_unlock(&of_main);
  while (jumps < 20) {
    if (sigsetjmp(out, 1) == 0) {
      setitimer(ITIMER_REAL, &soon, NULL);
      if (pfs_read(ends[0], &byte, 1) != 12345) printf("read came back\n");
    } else {
      ++jumps;
    }
  }
  for (i = 0; i < 50; ++i) {
    pfs_mutex_lock(&of_main);
    pfs_mutex_unlock(&of_main);
  }
  printf("jumps %d\nthread %llu\n", jumps, (unsigned long long)pfs_thread_id());
  return 0;
}

int main(int argc, char** argv) {
  if (pfs_register_mutex("signals", mutexes, 2) != PFS_OK || pfs_register_file("signals", files, 3) != PFS_OK) return 2;
  printf("segment %s\n", pfs_segment_path());
  if (argc > 1 && strcmp(argv[1], "timer") == 0) return timer();
  if (argc > 1 && strcmp(argv[1], "cold") == 0) return cold();
  if (argc > 1 && strcmp(argv[1], "first") == 0) return first();
  if (argc > 1 && strcmp(argv[1], "account") == 0) return account();
  if (argc > 1 && strcmp(argv[1], "jump") == 0) return jump();
  return 2;
}
