/* Errors and status variables.
 *   counted threads   4 threads register the same 40 errors and variables at once and count in them; then a fork, whose child counts on its
 * own counted timer     a 5 kHz timer whose handler raises an error and adds to a variable, while the program does the same Prints "name
 * value" lines: the same ones with -DPFS_DISABLE, but for the segments. The child of "threads" waits for a line. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 5000, ERRORS = 40, FIRST = 7000 };

static pthread_barrier_t barrier;
static pfs_key_t keys[THREADS][ERRORS];
static unsigned long bad[THREADS + 1];

static void* work(void* argument) {
  const int self = (int)(size_t)argument;
  int i;
  pthread_barrier_wait(&barrier);
  for (i = 0; i < ERRORS; ++i) {
    char name[16];
    snprintf(name, sizeof name, "Error_%d", i);
    errno = 3;
    if (pfs_register_error(FIRST + i, name, "01000", 0) != PFS_OK) ++bad[self];
    snprintf(name, sizeof name, "Counted_%d", i);
    if (pfs_register_status(name, NULL, &keys[self][i]) != PFS_OK) ++bad[self];
    if (errno != 3) ++bad[self];
    pfs_error_raised(FIRST + i);
  }
  for (i = 0; i < ROUNDS; ++i) {
    pfs_error_raised(FIRST + i % ERRORS);
    if (i % 2 == 0) pfs_error_handled(FIRST + i % ERRORS);
    if (i % 10 == 0) pfs_error_raised(FIRST - 1 - self);
    pfs_status_add(keys[self][i % ERRORS], self % 2 == 0 ? 3 : -1);
    if (errno != 3) ++bad[self];
  }
  return NULL;
}

static int child(void) {
  int i;
  for (i = 0; i < 7; ++i) {
    pfs_error_raised(FIRST);
    pfs_status_add(keys[0][0], 2);
  }
  if (pfs_register_error(FIRST + ERRORS, "Of_the_child", NULL, PFS_GLOBAL) != PFS_OK) return 3;
  pfs_error_handled(FIRST + ERRORS);
  printf("child %s\n", pfs_segment_path());
  fflush(stdout);
  return getchar() == EOF ? 4 : 0;
}

static int threads(void) {
  pthread_t ids[THREADS];
  unsigned long wrong = 0;
  int i, status;
  pid_t pid;
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (i = 0; i < THREADS; ++i) {
    if (pthread_create(&ids[i], NULL, work, (void*)(size_t)i) != 0) return 2;
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(ids[i], NULL);
    wrong += bad[i] + (memcmp(keys[i], keys[0], sizeof keys[0]) != 0);
  }
  if (pfs_register_error(FIRST, "Another", NULL, 0) == PFS_OK && pfs_is_on()) ++wrong;
  printf("bad %lu\nraised %d\nsegment %s\n", wrong, THREADS * (ROUNDS + ERRORS + ROUNDS / 10), pfs_segment_path());
  fflush(stdout);
  pid = fork();
  if (pid == 0) _exit(child());
  if (waitpid(pid, &status, 0) != pid || status != 0) return 5;
  return 0;
}

static pfs_key_t key_timer;
static volatile sig_atomic_t calls;
static void on_timer(int signal) {
  (void)signal;
  ++calls;
  pfs_error_raised(FIRST);
  pfs_status_add(key_timer, 1);
}

static int timer(void) {
  struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  struct timespec start, now;
  unsigned long done = 0, wrong = 0;
  pfs_register_error(FIRST, "Of_the_handler", NULL, 0);
  pfs_register_error(FIRST + 1, "Of_the_program", NULL, 0);
  pfs_register_status("Timer", NULL, &key_timer);
  pfs_error_raised(FIRST + 1);
  pfs_status_add(key_timer, 1);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  clock_gettime(CLOCK_MONOTONIC, &start); /* on a busy machine a second holds few of the timer's 5,000 signals */
  setitimer(ITIMER_REAL, &every, NULL);
  do {
    int i;
    for (i = 0; i < 500; ++i) {
      errno = 5;
      pfs_error_raised(FIRST + 1);
      pfs_status_add(key_timer, 1);
      if (errno != 5) ++wrong;
      ++done;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 1 || (calls < 200 && now.tv_sec - start.tv_sec < 60));
  setitimer(ITIMER_REAL, &never, NULL);
  printf("bad %lu\ncalls %lu\ndone %lu\nsegment %s\n", wrong, (unsigned long)calls, done + 1, pfs_segment_path());
  return 0;
}

int main(int argc, char** argv) {
  int rc = argc > 1 && strcmp(argv[1], "timer") == 0 ? timer() : threads();
  fflush(stdout);
  return rc;
}
