/* A program that does what its argument says, a letter and a number each, and prints what it saw:
 *   l locks          m blocks of memory      o bytes to a file and back      t threads that lock       d dlopen, call, dlclose
 *   e nested events  s bytes through a socket and back                       q a statement that stays open until the next q
 *   j longjmp out of a read that waits       A, S, N limits of the address space (MiB more than now), of files (KiB), of descriptors
 *   b threads that work beside all that follows, until the process ends
 *   T jumps out of a timer's handler: a later l, o, e or s is left N times in its midst, and done again; N odd: from a stack of its own
 *   ( ... )N         a forked child; N is how it ends: 0 return from main, 1 exit, 2 _exit, 3 SIGKILL, 4 SIGTERM, 5 abort, 6 quick_exit;
 *                    1000 + MICROSECONDS: it does its steps again and again, unseen, until it is killed from outside
 *   x                exec of this program with the rest      v vfork + exec of true      p posix_spawn of true
 * The same with and without pfs: pids, addresses and times are not printed. With "reap" as first argument it runs the program of the second
 * one as its child, and waits for all that it leaves behind. */
#include "program.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

pfs_key_t key_lock, key_beside, key_file, key_socket, key_stage, key_statement, key_memory;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}, {&key_beside, "LOCK_beside", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_socket_info_t sockets[] = {{&key_socket, "socket", 0, NULL}};
static pfs_stage_info_t stages[] = {{&key_stage, "stage", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "statement", 0, NULL}};
static pfs_memory_info_t blocks[] = {{&key_memory, "block", 0, NULL}};
static pfs_mutex_t lock;
static long counter;
static const char* self;
static int is_limited, is_to_be_killed, nowhere;

static void lock_often(long times) {
  for (long i = 0; i < times; ++i) {
    pfs_mutex_lock(&lock);
    ++counter;
    pfs_mutex_unlock(&lock);
  }
}

static void* thread(void* times) {
  lock_often((long)times);
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

static void memory(long count) {
  void* taken[64];
  for (long i = 0; i < count; ++i) taken[i] = pfs_malloc(key_memory, 100);
  for (long i = 0; i < count; ++i) pfs_free(taken[i]);
  say("memory %ld\n", count);
}

static void leave_open(void) {
  static pfs_statement_t statement;
  static int is_open;
  if (is_open) pfs_statement_end(&statement);
  pfs_statement_begin(&statement, key_statement);
  pfs_stage_begin(key_stage);
  is_open = 1;
}

static sigjmp_buf out_of_read;
static void on_alarm(int number) {
  (void)number;
  siglongjmp(out_of_read, 1);
}

/* cpp/src/CONCURRENCY.md allows it out of a wait. */
static void jumps(void) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) {
    say("pipe: %s\n", strerror(errno));
    return;
  }
  stop_timer();
  signal(SIGALRM, on_alarm);
  if (sigsetjmp(out_of_read, 1) == 0) {
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
  const int called = call(20);
  say("plugin %d, dlclose %d\n", called, dlclose(library));
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

static int act(const char* at, const char* end);

static void be_child(pid_t parent) {
  forget_beside();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) raise(SIGKILL);
}

static void repeat_unseen(const char* at, const char* end) {
  is_to_be_killed = 1;
  if (dup2(nowhere, 1) < 0) raise(SIGKILL);
  for (;;) act(at, end);
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
        with_jumps(locks, number);
        lock_often(number);
        say("counter %ld\n", counter);
        break;
      case 'e':
        with_jumps(events, number);
        break;
      case 's':
        with_jumps(send_bytes, number);
        break;
      case 'o':
        with_jumps(file, number);
        break;
      case 'm':
        memory(number);
        break;
      case 'q':
        leave_open();
        break;
      case 't':
        threads(number);
        break;
      case 'b':
        start_beside(number);
        break;
      case 'd':
        plugin();
        break;
      case 'j':
        jumps();
        break;
      case 'T':
        start_timer(number);
        break;
      case 'A':
        limit(RLIMIT_AS, number);
        break;
      case 'S':
        limit(RLIMIT_FSIZE, number);
        break;
      case 'N': /* a step that was left may have left a descriptor open, and a fork another thread's: each program has either */
        if (has_stray) break;
        limit(RLIMIT_NOFILE, number);
        await_beside();
        break;
      case 'x': {
        char rest[8192];
        if (is_to_be_killed) break; /* it would end by itself */
        stop_timer();
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
        const pid_t parent = getpid(), child = fork();
        if (child == 0) {
#ifdef BROKEN
          if (is_limited) abort(); /* what the test must notice */
#endif
          be_child(parent);
          if (how >= 1000) repeat_unseen(at + 1, last);
          act(at + 1, last);
          exit(finish(how));
        }
        if (child > 0 && how >= 1000) {
          usleep((useconds_t)(how - 1000));
          kill(child, SIGKILL);
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

static int reap(const char* program) {
  int status = 0, code = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t child = fork();
  if (child == 0) {
    execl(self, self, program, (char*)NULL);
    _exit(94);
  }
  for (pid_t ended; (ended = wait(&status)) > 0 || errno == EINTR;) {
    if (ended == child) code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return code;
}

int main(int argc, char** argv) {
  self = argv[0];
  if (argc == 3 && strcmp(argv[1], "reap") == 0) return reap(argv[2]);
  if (argc != 2) return 93;
  nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  pfs_register_mutex("lifecycle", mutexes, 2);
  pfs_register_file("lifecycle", files, 1);
  pfs_register_socket("lifecycle", sockets, 1);
  pfs_register_stage("lifecycle", stages, 1);
  pfs_register_statement("lifecycle", statements, 1);
  pfs_register_memory("lifecycle", blocks, 1);
  pfs_mutex_init(key_lock, &lock, NULL);
  const int code = act(argv[1], argv[1] + strlen(argv[1]));
  await_beside();
  return code;
}
