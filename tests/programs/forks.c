/* fork(), vfork() and exec in an instrumented program.
 *   forks work        the child works on with its own tables; both wait for a line on stdin, the child first
 *   forks hammer N    N forks while other threads lock, create and destroy mutexes, open and delete files; every child does the same for a
 * moment forks inside      fork inside of two open waits, which parent and child both end forks signal      a signal handler forks while
 * the thread waits for a mutex that is held; parent and child both end the wait: its time is over forks exec        fork + exec, vfork +
 * exec and posix_spawn of /proc/self/exe with "fds" forks fds         prints the open descriptors above 2 Prints nothing that varies except
 * paths, thread numbers and pids, each on a line "name value". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <perfschema/pfs.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char** environ;

static pfs_key_t key_lock, key_file, key_own, key_held;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}, {&key_own, "own", 0, NULL}, {&key_held, "held", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_mutex_t shared;

static void work(int locks, int writes, const char* path) {
  int i, fd = pfs_open(key_file, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (i = 0; i < locks; ++i) {
    pfs_mutex_lock(&shared);
    pfs_mutex_unlock(&shared);
  }
  for (i = 0; i < writes; ++i) {
    if (pfs_write(fd, "0123456", 7) != 7) abort();
  }
  pfs_close(fd);
}

static void wait_for_line(void) {
  char line[8];
  fflush(stdout);
  if (read(0, line, 2) < 0) abort();
}

static int end_of(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int mode_work(void) {
  pid_t child;
  work(10, 3, "parent");
  printf("parent_segment %s\n", pfs_segment_path());
  printf("parent_thread %llu\n", (unsigned long long)pfs_thread_id());
  fflush(stdout);
  child = fork();
  if (child == 0) {
    printf("child_segment %s\n", pfs_segment_path());
    printf("child_thread %llu\n", (unsigned long long)pfs_thread_id());
    work(5, 2, "child");
    printf("child_ready 1\n");
    wait_for_line();
    exit(7);
  }
  printf("child_exit %d\n", end_of(child));
  printf("parent_ready 1\n");
  wait_for_line();
  return 0;
}

static atomic_int stop;

static void* hammer(void* argument) {
  char path[32];
  unsigned i;
  snprintf(path, sizeof path, "hammer-%d", (int)(intptr_t)argument);
  for (i = 0; !atomic_load(&stop); ++i) {
    pfs_mutex_t own;
    pfs_mutex_init(key_own, &own, NULL);
    pfs_mutex_lock(&own);
    pfs_mutex_unlock(&own);
    pfs_mutex_lock(&shared);
    pfs_mutex_unlock(&shared);
    if (i % 8 == 0) {
      const int fd = pfs_open(key_file, path, O_WRONLY | O_CREAT, 0600);
      if (pfs_write(fd, "x", 1) != 1) abort();
      pfs_close(fd);
      pfs_unlink(key_file, path);
    }
    pfs_mutex_destroy(&own);
  }
  return NULL;
}

static int mode_hammer(int forks) {
  pthread_t threads[3];
  int i, j, bad = 0;
  for (i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, hammer, (void*)(intptr_t)i);
  for (i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      pfs_mutex_t many[20];
      alarm(20); /* a deadlock ends as SIGALRM */
      for (j = 0; j < 20; ++j) {
        pfs_mutex_init(key_own, &many[j], NULL);
        if (pfs_mutex_lock(&many[j]) != 0) _exit(1);
        pfs_mutex_unlock(&many[j]);
      }
      for (j = 0; j < 5; ++j) {
        char path[32];
        int fd;
        snprintf(path, sizeof path, "child-%d", j);
        fd = pfs_open(key_file, path, O_WRONLY | O_CREAT, 0600);
        if (pfs_write(fd, "x", 1) != 1) _exit(2);
        pfs_close(fd);
        pfs_unlink(key_file, path);
      }
      for (j = 0; j < 20; ++j) pfs_mutex_destroy(&many[j]);
      exit(0);
    }
    j = end_of(child);
    if (j != 0) printf("child %d ended with %d\n", i, j), ++bad;
  }
  atomic_store(&stop, 1);
  for (i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("forks %d bad %d\n", forks, bad);
  return bad != 0;
}

static int mode_inside(void) {
  int lock_a = 0, lock_b = 0, i;
  pfs_wait_t outer, inner;
  pfs_instance_t* a = pfs_mutex_create(key_own, &lock_a);
  pfs_instance_t* b = pfs_mutex_create(key_own, &lock_b);
  pid_t child;
  pfs_mutex_wait_begin(&outer, a, PFS_LOCK);
  pfs_mutex_wait_begin(&inner, b, PFS_LOCK);
  child = fork();
  pfs_mutex_lock(&shared);
  pfs_mutex_unlock(&shared);
  pfs_mutex_wait_end(&inner, 0, 3);
  pfs_mutex_released(b);
  for (i = 0; i < 100; ++i) {
    pfs_mutex_lock(&shared);
    pfs_mutex_unlock(&shared);
  }
  pfs_mutex_wait_end(&outer, 0, 3);
  pfs_mutex_released(a);
  for (i = 0; i < 2000; ++i) {
    pfs_mutex_lock(&shared);
    pfs_mutex_unlock(&shared);
  }
  if (child == 0) {
    printf("child_segment %s\n", pfs_segment_path());
    printf("child_ready 1\n");
    wait_for_line();
    exit(0);
  }
  printf("child_exit %d\n", end_of(child));
  printf("parent_segment %s\n", pfs_segment_path());
  printf("parent_ready 1\n");
  wait_for_line();
  return 0;
}

static pfs_mutex_t held;
static atomic_int is_held, may_end;
static volatile pid_t forked = -1;

static void* hold(void* argument) {
  (void)argument;
  pfs_mutex_lock(&held);
  atomic_store(&is_held, 1);
  while (!atomic_load(&may_end)) usleep(1000);
  pfs_mutex_unlock(&held);
  return NULL;
}

static void fork_once(int signal) {
  (void)signal;
  if (forked == -1) forked = fork();
}

static int mode_signal(void) {
  const struct itimerval soon = {{0, 0}, {0, 150000}};
  struct sigaction action;
  struct timespec until;
  pthread_t holder;
  int i, rc;
  memset(&action, 0, sizeof action);
  action.sa_handler = fork_once;
  sigaction(SIGALRM, &action, NULL);
  pfs_mutex_init(key_held, &held, NULL);
  pthread_create(&holder, NULL, hold, NULL);
  while (!atomic_load(&is_held)) usleep(1000);
  setitimer(ITIMER_REAL, &soon, NULL);
  do { /* until the handler has run */
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 700000000;
    if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
    rc = pfs_mutex_clocklock(&held, CLOCK_MONOTONIC, &until);
  } while (rc == ETIMEDOUT && forked == -1);
  for (i = 0; i < 5; ++i) {
    pfs_mutex_lock(&shared);
    pfs_mutex_unlock(&shared);
  }
  if (forked == 0) {
    printf("child_result %d\nchild_segment %s\nchild_ready 1\n", rc == ETIMEDOUT, pfs_segment_path());
    wait_for_line();
    exit(0);
  }
  printf("child_exit %d\n", end_of(forked));
  atomic_store(&may_end, 1);
  pthread_join(holder, NULL);
  printf("parent_result %d\nparent_segment %s\nparent_ready 1\n", rc == ETIMEDOUT, pfs_segment_path());
  wait_for_line();
  return 0;
}

static int mode_exec(void) {
  char self[] = "forks", fds[] = "fds";
  char* arguments[] = {self, fds, NULL};
  pid_t child;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    execve("/proc/self/exe", arguments, environ);
    _exit(99);
  }
  printf("fork %d\n", end_of(child));
  fflush(stdout);
  child = vfork();
  if (child == 0) {
    execve("/proc/self/exe", arguments, environ);
    _exit(99);
  }
  printf("vfork %d\n", end_of(child));
  fflush(stdout);
  if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0) return 1;
  printf("spawn %d\n", end_of(child));
  work(5, 1, "after");
  return 0;
}

static int mode_fds(void) {
  DIR* directory = opendir("/proc/self/fd");
  const struct dirent* entry;
  while ((entry = readdir(directory)) != NULL) {
    const int fd = atoi(entry->d_name);
    if (fd > 2 && fd != dirfd(directory)) printf("open %d\n", fd);
  }
  closedir(directory);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "fds") == 0) return mode_fds();
  if (pfs_register_mutex("forks", mutexes, 3) != PFS_OK || pfs_register_file("forks", files, 1) != PFS_OK) return 2;
  pfs_mutex_init(key_lock, &shared, NULL);
  if (strcmp(mode, "work") == 0) return mode_work();
  if (strcmp(mode, "hammer") == 0) return mode_hammer(atoi(argv[2]));
  if (strcmp(mode, "inside") == 0) return mode_inside();
  if (strcmp(mode, "signal") == 0) return mode_signal();
  if (strcmp(mode, "exec") == 0) return mode_exec();
  return 2;
}
