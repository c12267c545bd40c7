/* A program in places where programs seldom are. It prints what it saw, which is the same without pfs.
 *   extremes small_stacks      each kind of operation in a thread of its own, as small as threads may be
 *   extremes crowd COUNT       so many threads at once
 *   extremes turn COUNT        so many threads, one after the other
 *   extremes forks COUNT       fork, vfork and posix_spawn from 8 threads, so often each, beside two that make objects
 *   extremes deep COUNT        a child of a child of a child ...
 *   extremes daemon FILE       leaves its parent twice, closes all descriptors, works, and says so in FILE
 *   extremes chroot FOLDER     goes there, and works
 *   extremes locks_memory      a child locks its memory before its first event, then another one of the child
 *   extremes descriptors       has no descriptor left, and works
 *   extremes last_descriptor   opens the last one again and again, while another thread makes objects for which pfs gets no memory */
#define _GNU_SOURCE
#include <limits.h>
#include <perfschema/pfs.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "instruments.h"

enum { MOST = 20000, FORKERS = 8 };

static pfs_mutex_t shared;
static long done;

/* ---- Operations: each gives 0 ---- */

static int use_mutex(void) {
  pfs_mutex_t own;
  return pfs_mutex_init(key_lock, &own, NULL) | pfs_mutex_lock(&own) | pfs_mutex_unlock(&own) | pfs_mutex_destroy(&own);
}
static int use_rwlock(void) {
  pfs_rwlock_t own;
  return pfs_rwlock_init(key_tree, &own, NULL) | pfs_rwlock_rdlock(&own) | pfs_rwlock_unlock(&own) | pfs_rwlock_wrlock(&own) |
         pfs_rwlock_unlock(&own) | pfs_rwlock_destroy(&own);
}
static int use_cond(void) {
  const struct timespec past = {1, 0};
  pfs_mutex_t own;
  pfs_cond_t cond;
  int error = pfs_mutex_init(key_lock, &own, NULL) | pfs_cond_init(key_cond, &cond, NULL) | pfs_mutex_lock(&own);
  error |= pfs_cond_timedwait(&cond, &own, &past) != ETIMEDOUT;
  return error | pfs_cond_signal(&cond) | pfs_mutex_unlock(&own) | pfs_cond_destroy(&cond) | pfs_mutex_destroy(&own);
}
static int use_file(void) {
  char byte;
  const int fd = pfs_open(key_file, "/dev/zero", O_RDONLY);
  return fd < 0 || pfs_read(fd, &byte, 1) != 1 || pfs_close(fd) != 0;
}
static int use_socket(void) {
  char byte = 0;
  int ends[2];
  if (pfs_socketpair(key_socket, AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  return pfs_send(ends[0], &byte, 1, 0) != 1 || pfs_recv(ends[1], &byte, 1, 0) != 1 || pfs_close(ends[0]) != 0 || pfs_close(ends[1]) != 0;
}
static int use_statement(void) {
  pfs_statement_t statement;
  pfs_transaction_t transaction;
  pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 0, 0);
  pfs_statement_begin(&statement, key_statement);
  pfs_statement_set_text(&statement, "select a, b from t where c = 'd' and e in (1, 2, 3)", 51);
  pfs_stage_begin(key_stage);
  pfs_stage_end();
  pfs_statement_end(&statement);
  pfs_transaction_end(&transaction, 1);
  return 0;
}
static int use_memory(void) {
  void* const block = pfs_malloc(key_memory, 100);
  if (block == NULL) return 1;
  pfs_free(block);
  return 0;
}
static int use_log(void) {
  pfs_log(PFS_LOG_NOTE, "E-1", "extremes", "a line");
  return 0;
}
static int use_account(void) {
  pfs_set_account("user", "host");
  return use_mutex();
}
static int use_shared(void) { return pfs_mutex_lock(&shared) | pfs_mutex_unlock(&shared); }

static const struct {
  const char* name;
  int (*use)(void);
} kinds[] = {{"mutex", use_mutex},         {"rwlock", use_rwlock}, {"cond", use_cond}, {"file", use_file},       {"socket", use_socket},
             {"statement", use_statement}, {"memory", use_memory}, {"log", use_log},   {"account", use_account}, {"shared", use_shared}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void use_all(const char* what) {
  for (int i = 0; i < KINDS; ++i) printf("%s_%s %d\n", what, kinds[i].name, kinds[i].use());
  fflush(stdout);
}

/* ---- Threads ---- */

static void* use_one(void* kind) { return (void*)(intptr_t)kinds[(intptr_t)kind].use(); }

static int small_stacks(void) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  if (pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) != 0) return 1;
  for (int i = 0; i < KINDS; ++i) {
    pthread_t thread;
    void* error;
    if (pthread_create(&thread, &small, use_one, (void*)(intptr_t)i) != 0 || pthread_join(thread, &error) != 0) return 1;
    printf("%s %d\n", kinds[i].name, (int)(intptr_t)error);
  }
  return 0;
}

static pthread_barrier_t all_there;
static void* be_one_of_many(void* unused) {
  use_shared();
  pthread_barrier_wait(&all_there);
  use_shared();
  __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
  return unused;
}

static int crowd(long count) {
  static pthread_t threads[MOST];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  pthread_barrier_init(&all_there, NULL, (unsigned)count);
  for (long i = 0; i < count; ++i) {
    if (pthread_create(&threads[i], &small, be_one_of_many, NULL) != 0) return 1; /* the others wait for ever: end */
  }
  for (long i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  printf("done %ld\n", done);
  return 0;
}

static void* be_one_after_another(void* unused) {
  use_shared();
  ++done;
  return unused;
}

static int turn(long count) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  for (long i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, be_one_after_another, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
  }
  printf("done %ld\n", done);
  return 0;
}

/* ---- Processes ---- */

static int ended_with(pid_t child, int wanted) {
  int status;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == wanted;
}

static char* const arguments[] = {(char*)"true", NULL};

static pid_t run_true(void) {
  const pid_t child = vfork();
  if (child == 0) {
    execv("/bin/true", arguments);
    _exit(9);
  }
  return child;
}

static void* make_children(void* times) {
  for (long i = 0; i < (long)times; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(use_mutex() == 0 && use_file() == 0 ? 7 : 8); /* "shared" may be locked for ever there */
    if (!ended_with(child, 7)) return (void*)"fork";
    if (!ended_with(run_true(), 0)) return (void*)"vfork";
    if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) != 0 || !ended_with(child, 0)) return (void*)"posix_spawn";
  }
  return NULL;
}

static int stop;
static void* make_objects(void* unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    if (use_mutex() != 0 || use_rwlock() != 0 || use_shared() != 0) return (void*)"objects";
  }
  return unused;
}

static int forks(long count) {
  pthread_t threads[FORKERS + 2];
  int bad = 0;
  for (int i = 0; i < FORKERS; ++i) bad |= pthread_create(&threads[i], NULL, make_children, (void*)count);
  for (int i = FORKERS; i < FORKERS + 2; ++i) bad |= pthread_create(&threads[i], NULL, make_objects, NULL);
  for (int i = 0; i < FORKERS + 2; ++i) {
    void* wrong;
    if (i == FORKERS) __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(threads[i], &wrong);
    if (wrong != NULL) printf("wrong %s\n", (char*)wrong);
  }
  return bad;
}

static int deep(long count) {
  use_all("deep");
  if (count == 0) return 5;
  const pid_t child = fork();
  if (child == 0) exit(deep(count - 1));
  return ended_with(child, 5) && use_shared() == 0 ? 5 : 6;
}

static int be_daemon(const char* file) {
  use_all("before");
  if (fork() != 0) _exit(5);
  setsid();
  if (fork() != 0) _exit(5);
  for (int fd = 0; fd < 1024; ++fd) close(fd);
  if (freopen(file, "w", stdout) == NULL) _exit(6);
  for (int i = 0; i < 100; ++i) use_mutex();
  use_all("after");
  const pid_t child = fork();
  if (child == 0) _exit(use_mutex() + 7);
  printf("end %d\n", ended_with(child, 7));
  exit(0);
}

static int go_there(const char* folder) {
  use_all("before");
  if (chroot(folder) != 0 || chdir("/") != 0) return 1;
  for (int i = 0; i < KINDS; ++i) {
    if (kinds[i].use != use_file) printf("after_%s %d\n", kinds[i].name, kinds[i].use());
  }
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) exit(use_mutex() + use_statement() + 7);
  return !ended_with(child, 7);
}

static pfs_rwlock_t trees[100];

static void* read_trees(void* unused) {
  for (int i = 0; i < 100; ++i) {
    if (pfs_rwlock_rdlock(&trees[i]) | pfs_rwlock_unlock(&trees[i])) abort();
  }
  return unused;
}

static int locks_memory(long depth) {
  use_all("before");
  for (int i = 0; i < 100; ++i) {
    if (pfs_rwlock_init(key_tree, &trees[i], NULL) != 0) return 1;
  }
  for (int i = 0; i < 20; ++i) {
    pthread_t threads[2];
    for (int j = 0; j < 2; ++j) pthread_create(&threads[j], NULL, read_trees, NULL);
    for (int j = 0; j < 2; ++j) pthread_join(threads[j], NULL);
  }
  const pid_t child = fork();
  if (child != 0) return !ended_with(child, 0);
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) _exit(2);
  read_trees(NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, read_trees, NULL) != 0 || pthread_join(thread, NULL) != 0) _exit(3);
  use_all("after");
  exit(depth > 0 ? locks_memory(depth - 1) : 0);
}

static int is_over;

static void* open_often(void* failures) {
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
    const int fd = open("/dev/null", O_RDONLY);
    if (fd < 0) ++*(long*)failures;
    if (fd >= 0) close(fd);
  }
  return NULL;
}

static int last_descriptor(void) {
  enum { OBJECTS = 200000 };
  static pfs_mutex_t objects[OBJECTS];
  const int last = open("/dev/null", O_RDONLY);
  const struct rlimit limit = {(rlim_t)last + 1, (rlim_t)last + 1}, size = {1 << 16, 1 << 16};
  pthread_t opener;
  long failures = 0;
  if (last < 0 || close(last) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_FSIZE, &size) != 0) return 1;
  if (pthread_create(&opener, NULL, open_often, &failures) != 0) return 1;
  for (int i = 0; i < OBJECTS; ++i) {
    if (pfs_mutex_init(key_lock, &objects[i], NULL) | pfs_mutex_lock(&objects[i]) | pfs_mutex_unlock(&objects[i])) return 1;
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  pthread_join(opener, NULL);
  printf("could not open: %ld\n", failures);
  return 0;
}

static int no_descriptors(void) {
  const struct rlimit none = {3, 3};
  pthread_t thread;
  void* error;
  use_all("before");
  if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
  use_all("after");
  if (pthread_create(&thread, NULL, use_one, NULL) != 0 || pthread_join(thread, &error) != 0 || error != NULL) return 1;
  const pid_t child = fork();
  if (child == 0) exit(use_mutex() + use_statement() + 7);
  return !ended_with(child, 7);
}

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "";
  const char* const word = argc > 2 ? argv[2] : "";
  const long count = atol(word);
  register_instruments("extremes");
  pfs_mutex_init(key_lock, &shared, NULL);
  if (strcmp(way, "small_stacks") == 0) return small_stacks();
  if (strcmp(way, "crowd") == 0 && count > 0 && count <= MOST) return crowd(count);
  if (strcmp(way, "turn") == 0) return turn(count);
  if (strcmp(way, "forks") == 0) return forks(count);
  if (strcmp(way, "deep") == 0) return deep(count);
  if (strcmp(way, "daemon") == 0) return be_daemon(word);
  if (strcmp(way, "chroot") == 0) return go_there(word);
  if (strcmp(way, "locks_memory") == 0) return locks_memory(1);
  if (strcmp(way, "descriptors") == 0) return no_descriptors();
  if (strcmp(way, "last_descriptor") == 0) return last_descriptor();
  return 2;
}
