/* The first program of a C user: one mutex, two threads, a spin lock of the program's own.
 *   gcc first_mutex.c $(pkg-config --cflags --libs perfschema) -o first_mutex
 * Exits with 0 if every result is that of pthread_mutex_*. Prints nothing that varies; with "hold" it waits for a
 * line on stdin before the end, so that another process can look. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <stdatomic.h>
#include <string.h>

enum { kThreads = 2, kRounds = 10000 };

static pfs_key_t key_queue, key_checked, key_spin, key_worker;
static pfs_mutex_info_t mutexes[] = {
    {&key_queue, "LOCK_queue", PFS_SINGLETON | PFS_VOLATILITY_PERMANENT, "Guards the queue."},
    {&key_checked, "LOCK_checked", 0, "An error-checking mutex."},
    {&key_spin, "LOCK_spin", 0, NULL},
};
static pfs_thread_info_t threads[] = {{&key_worker, "worker", 0, "Adds to the counter."}};

static pfs_mutex_t queue;
static long counter, spin_counter;

/* A lock of the program's own. */
static atomic_flag spin_lock = ATOMIC_FLAG_INIT;
static pfs_instance_t* spin_row;

static void lock_spinning(void) {
  uint32_t spins = 0;
  pfs_wait_t wait;
  pfs_mutex_wait_begin(&wait, spin_row, PFS_LOCK);
  while (atomic_flag_test_and_set_explicit(&spin_lock, memory_order_acquire)) ++spins;
  pfs_mutex_wait_end(&wait, 0, spins);
}

static void unlock_spinning(void) {
  pfs_mutex_released(spin_row);
  atomic_flag_clear_explicit(&spin_lock, memory_order_release);
}

static void* work(void* argument) {
  int i;
  (void)argument;
  pfs_set_thread_name("first_mutex/worker");
  for (i = 0; i < kRounds; ++i) {
    pfs_mutex_lock(&queue);
    ++counter;
    pfs_mutex_unlock(&queue);
    lock_spinning();
    ++spin_counter;
    unlock_spinning();
  }
  return NULL;
}

static int failures;

static void expect(const char* what, long got, long wanted) {
  if (got == wanted) return;
  fprintf(stderr, "%s: %ld instead of %ld\n", what, got, wanted);
  ++failures;
}

/* Every result of an error-checking mutex, failures included. */
static void check_results(void) {
  pthread_mutexattr_t attributes;
  struct timespec past = {1, 0};
  pfs_mutex_t m;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  errno = 0;
  expect("init", pfs_mutex_init(key_checked, &m, &attributes), 0);
  expect("unlock of a free mutex", pfs_mutex_unlock(&m), EPERM);
  expect("lock", pfs_mutex_lock(&m), 0);
  expect("lock again", pfs_mutex_lock(&m), EDEADLK);
  expect("trylock of a held mutex", pfs_mutex_trylock(&m), EBUSY);
  expect("destroy of a held mutex", pfs_mutex_destroy(&m), EBUSY);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("trylock", pfs_mutex_trylock(&m), 0);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("timedlock of a free mutex", pfs_mutex_timedlock(&m, &past), 0);
  expect("timedlock of one's own", pfs_mutex_timedlock(&m, &past), EDEADLK);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("destroy", pfs_mutex_destroy(&m), 0);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
  expect("init", pfs_mutex_init(key_checked, &m, &attributes), 0);
  expect("lock", pfs_mutex_lock(&m), 0);
  expect("timedlock", pfs_mutex_timedlock(&m, &past), ETIMEDOUT);
  expect("clocklock", pfs_mutex_clocklock(&m, CLOCK_MONOTONIC, &past), ETIMEDOUT);
  expect("clocklock, bad clock", pfs_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("clocklock of a free mutex, bad clock", pfs_mutex_clocklock(&m, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
  expect("destroy", pfs_mutex_destroy(&m), 0);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  expect("init", pfs_mutex_init(key_checked, &m, &attributes), 0);
  expect("lock", pfs_mutex_lock(&m), 0);
  expect("lock again", pfs_mutex_lock(&m), 0);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("unlock", pfs_mutex_unlock(&m), 0);
  expect("unlock once too often", pfs_mutex_unlock(&m), EPERM);
  expect("destroy", pfs_mutex_destroy(&m), 0);
  pthread_mutexattr_destroy(&attributes);
  expect("errno", errno, 0);
}

int main(int argc, char** argv) {
  pthread_t workers[kThreads];
  pfs_key_t bad = 1, good = 1;
  pfs_mutex_info_t mixed[] = {{&bad, "", 0, NULL}, {&good, "LOCK_good", 0, NULL}};
  int i;

  expect("register", pfs_register_mutex("first_mutex", mutexes, 3), PFS_OK);
  expect("register threads", pfs_register_thread("first_mutex", threads, 1), PFS_OK);
#ifndef PFS_DISABLE
  expect("register a bad name", pfs_register_mutex("first_mutex", mixed, 2), PFS_E_INVALID_ARGUMENT);
  expect("key of the bad name", bad, 0);
  expect("key of the good name", good != 0, pfs_is_on());
  expect("last error", strlen(pfs_last_error()) > 0, 1);
  expect("init too late", pfs_init(""), PFS_E_STATE);
#else
  expect("register", pfs_register_mutex("first_mutex", mixed, 2), PFS_OK);
  expect("key", good, 0);
#endif
  fprintf(stderr, "pfs is %s\n", pfs_is_on() ? "on" : "off");
  expect("account", pfs_set_account("me", "here"), PFS_OK);

  expect("init", pfs_mutex_init(key_queue, &queue, NULL), 0);
  spin_row = pfs_mutex_create(key_spin, &spin_lock);
  for (i = 0; i < kThreads; ++i) expect("create", pthread_create(&workers[i], NULL, work, NULL), 0);
  for (i = 0; i < kThreads; ++i) expect("join", pthread_join(workers[i], NULL), 0);
  expect("counter", counter, kThreads * kRounds);
  expect("counter under the spin lock", spin_counter, kThreads * kRounds);
  check_results();

  printf("counter %ld\n", counter);
  if (argc > 1 && strcmp(argv[1], "hold") == 0) {
    printf("ready\n");
    fflush(stdout);
    (void)getchar();
  }
  pfs_mutex_discard(spin_row);
  expect("destroy", pfs_mutex_destroy(&queue), 0);
  return failures != 0;
}
