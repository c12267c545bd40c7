/* A program that does what its argument says, a letter and a number each, and prints what it saw:
 *   l locks          m blocks of memory      o bytes to a file and back      t threads that lock       d dlopen, call, dlclose
 *   j longjmp out of a read that waits       A, S, N limits of the address space (MiB more than now), of files (KiB), of descriptors
 *   ( ... )N         a forked child; N is how it ends: 0 return from main, 1 exit, 2 _exit, 3 SIGKILL, 4 SIGTERM, 5 abort, 6 quick_exit
 *   x                exec of this program with the rest      v vfork + exec of true      p posix_spawn of true
 * The same with and without pfs: pids, addresses and times are not printed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static pfs_key_t key_lock, key_file;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_mutex_t lock;
static long counter;
static const char* self;
static int is_limited;

static void say(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(1, line, (size_t)length) != length) _exit(90);
}

static void locks(long times) {
  for (long i = 0; i < times; ++i) {
    pfs_mutex_lock(&lock);
    ++counter;
    pfs_mutex_unlock(&lock);
  }
}

static void* thread(void* times) {
  locks((long)times);
  return NULL;
}

static void threads(long count) {
  pthread_t made[16];
  pthread_attr_t attributes;
  long alive = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  for (; alive < count; ++alive) {
    const int error = pthread_create(&made[alive], &attributes, thread, (void*)10);
    if (error != 0) {
      say("thread: %s\n", strerror(error));
      break;
    }
  }
  for (long i = 0; i < alive; ++i) pthread_join(made[i], NULL);
  pthread_attr_destroy(&attributes);
  say("threads %ld, counter %ld\n", alive, counter);
}

static void file(long bytes) {
  static char data[65536];
  char name[64];
  long written = 0;
  snprintf(name, sizeof name, "file-%ld", (long)getpid());
  const int fd = pfs_open(key_file, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) {
    say("open: %s\n", strerror(errno));
    return;
  }
  while (written < bytes) {
    const ssize_t n = pfs_write(fd, data, bytes - written < 4096 ? (size_t)(bytes - written) : 4096);
    if (n < 0) {
      say("write: %s\n", strerror(errno));
      break;
    }
    written += n;
  }
  const ssize_t read_back = pfs_pread(fd, data, sizeof data, 0);
  say("file %ld %ld, close %d\n", written, (long)read_back, pfs_close(fd));
  unlink(name);
}

static void memory(long blocks) {
  void* taken[64];
  for (long i = 0; i < blocks; ++i) taken[i] = pfs_malloc(0, 100);
  for (long i = 0; i < blocks; ++i) pfs_free(taken[i]);
  say("memory %ld\n", blocks);
}

static sigjmp_buf jump;
static void on_alarm(int number) {
  (void)number;
  siglongjmp(jump, 1);
}

/* docs/concurrency.md allows it out of a wait. */
static void jumps(void) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) {
    say("pipe: %s\n", strerror(errno));
    return;
  }
  signal(SIGALRM, on_alarm);
  if (sigsetjmp(jump, 1) == 0) {
    const struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    say("read %ld\n", (long)pfs_read(ends[0], &byte, 1));
  } else {
    say("jumped\n");
  }
  signal(SIGALRM, SIG_DFL);
  close(ends[0]);
  close(ends[1]);
}

static void plugin(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s.so", self);
  void* const library = dlopen(path, RTLD_NOW);
  if (library == NULL) {
    say("dlopen failed\n");
    return;
  }
  int (*const call)(int) = (int (*)(int))dlsym(library, "call");
  say("plugin %d, dlclose %d\n", call(20), dlclose(library));
}

static void limit(int which, long number) {
  struct rlimit now;
  long pages = 0;
  is_limited = 1;
  if (which == RLIMIT_AS) {
    FILE* const status = fopen("/proc/self/statm", "r");
    if (status == NULL || fscanf(status, "%ld", &pages) != 1) say("statm\n");
    if (status != NULL) fclose(status);
    number = pages * sysconf(_SC_PAGESIZE) + (number << 20);
  } else if (which == RLIMIT_FSIZE) {
    signal(SIGXFSZ, SIG_IGN);
    number <<= 10;
  }
  getrlimit(which, &now);
  if (now.rlim_max != RLIM_INFINITY && (rlim_t)number > now.rlim_max) number = (long)now.rlim_max;
  now.rlim_cur = (rlim_t)number;
  say("setrlimit %d\n", setrlimit(which, &now));
}

static int finish(long how) {
  say("ends %ld\n", how);
  switch (how) {
    case 1:
      exit(3);
    case 2:
      _exit(4);
    case 3:
      raise(SIGKILL);
      break;
    case 4:
      raise(SIGTERM);
      break;
    case 5:
      abort();
    case 6:
      quick_exit(5);
  }
  return 2;
}

static const char* behind(const char* at) { /* at: behind a "(". Gives the ")". */
  for (int depth = 1;; ++at) {
    if (*at == '(') ++depth;
    if (*at == ')' && --depth == 0) return at;
  }
}

static void wait_for(const char* what, pid_t child, int error) {
  int status = 0;
  if (child < 0) {
    say("%s: %s\n", what, strerror(error));
    return;
  }
  if (waitpid(child, &status, 0) != child) say("waitpid: %s\n", strerror(errno));
  say("%s %s %d\n", what, WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Gives the exit code. */
static int act(const char* at, const char* end) {
  char* const nothing[] = {(char*)"true", NULL};
  while (at < end) {
    const char what = *at;
    char* next;
    const long number = strtol(at + 1, &next, 10);
    switch (what) {
      case 'l':
        locks(number);
        say("counter %ld\n", counter);
        break;
      case 'm':
        memory(number);
        break;
      case 'o':
        file(number);
        break;
      case 't':
        threads(number);
        break;
      case 'd':
        plugin();
        break;
      case 'j':
        jumps();
        break;
      case 'A':
        limit(RLIMIT_AS, number);
        break;
      case 'S':
        limit(RLIMIT_FSIZE, number);
        break;
      case 'N':
        limit(RLIMIT_NOFILE, number);
        break;
      case 'x': {
        char rest[8192];
        snprintf(rest, sizeof rest, "%.*s", (int)(end - next), next);
        char* const arguments[] = {(char*)self, rest, NULL};
        execv(self, arguments);
        say("exec: %s\n", strerror(errno));
        break;
      }
      case 'v': {
        const pid_t child = vfork();
        if (child == 0) {
          execv("/bin/true", nothing);
          _exit(91);
        }
        wait_for("vfork", child, errno);
        break;
      }
      case 'p': {
        pid_t child;
        const int error = posix_spawn(&child, "/bin/true", NULL, NULL, nothing, environ);
        wait_for("spawn", error == 0 ? child : -1, error);
        break;
      }
      case '(': {
        const char* const last = behind(at + 1);
        const long how = strtol(last + 1, &next, 10);
        const pid_t child = fork();
        if (child == 0) {
#ifdef BROKEN
          if (is_limited) abort(); /* what the test must notice */
#endif
          act(at + 1, last);
          exit(finish(how));
        }
        wait_for("child", child, errno);
        break;
      }
      default:
        say("unknown %c\n", what);
        return 92;
    }
    at = next;
  }
  return (int)(counter % 50);
}

int main(int argc, char** argv) {
  if (argc != 2) return 93;
  self = argv[0];
  pfs_register_mutex("lifecycle", mutexes, 1);
  pfs_register_file("lifecycle", files, 1);
  pfs_mutex_init(key_lock, &lock, NULL);
  return act(argv[1], argv[1] + strlen(argv[1]));
}
