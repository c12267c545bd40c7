/* Steps that a signal handler leaves with siglongjmp, at any moment. As a jump may leave a lock locked, each makes its own. They do only
 * what the plain calls allow a handler to leave: no memory of the heap, no threads. */
#include "program.h"

/* What a step says that may be left in its midst is kept until the step has ended. */
enum { LINE = 256 };
static char kept[LINE];
static int is_keeping;
int has_stray;

void say(const char* format, ...) {
  char line[LINE];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (is_keeping) {
    strncat(kept, line, sizeof kept - strlen(kept) - 1);
  } else if (write(1, line, (size_t)length) != length) {
    _exit(90);
  }
}

void locks(long times) {
  for (long i = 0; i < times; ++i) {
    pfs_mutex_t own;
    pfs_mutex_init(key_lock, &own, NULL);
    pfs_mutex_lock(&own);
    pfs_mutex_unlock(&own);
    pfs_mutex_destroy(&own);
  }
  say("locks %ld\n", times);
}

void nest(long times) {
  for (long i = 0; i < times; ++i) {
    pfs_statement_t statement;
    pfs_transaction_t transaction;
    char text[64];
    const int length = snprintf(text, sizeof text, "select %ld from t where a = 'b'", i);
    pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 0, 0);
    pfs_statement_begin(&statement, key_statement);
    pfs_statement_set_text(&statement, text, (size_t)length);
    pfs_stage_begin(key_stage);
    if (i == 1) pfs_set_account("user", "host");
    pfs_stage_end();
    pfs_statement_end(&statement);
    pfs_transaction_end(&transaction, 1);
  }
}

void events(long times) {
  nest(times);
  say("events %ld\n", times);
}

void send_bytes(long bytes) {
  static char there[4096], back[4096];
  int ends[2];
  long received = 0;
  if (pfs_socketpair(key_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    say("socketpair: %s\n", strerror(errno));
    return;
  }
  while (received < bytes) {
    const ssize_t sent = pfs_send(ends[0], there, bytes - received < 4096 ? (size_t)(bytes - received) : 4096, MSG_NOSIGNAL);
    const ssize_t n = sent < 0 ? -1 : pfs_recv(ends[1], back, (size_t)sent, MSG_WAITALL);
    if (n != sent || n < 0) {
      say("socket: %s\n", strerror(errno));
      break;
    }
    received += n;
  }
  say("socket %ld, close %d %d\n", received, pfs_close(ends[0]), pfs_close(ends[1]));
}

static void use_file(const char* name, long bytes) {
  static char data[65536];
  long written = 0;
  const int fd = pfs_open(key_file, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
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
  pfs_unlink(key_file, name);
}

void file(long bytes) {
  char name[64];
  snprintf(name, sizeof name, "file-%ld", (long)getpid());
  use_file(name, bytes);
}

static sigjmp_buf jump;
static volatile sig_atomic_t jumps_left, may_jump;

void stop_timer(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  jumps_left = 0;
  setitimer(ITIMER_REAL, &never, NULL);
}

static void on_timer(int number) {
  (void)number;
  if (jumps_left == 0) stop_timer();
  if (!may_jump) return;
  may_jump = 0;
  --jumps_left;
  siglongjmp(jump, 1);
}

void start_timer(long jumps) {
  static char stack[65536];
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action;
  const int between = (int)(60 + jumps * 97 % 700);
  struct rlimit descriptors;
  getrlimit(RLIMIT_NOFILE, &descriptors);
  if (descriptors.rlim_cur < FEW) return; /* a step that is left may leave one open: so would say another number */
  const struct itimerval interval = {{0, between}, {0, between}};
  memset(&action, 0, sizeof action);
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  if (jumps % 2 != 0) {
    sigaltstack(&other, NULL);
    action.sa_flags |= SA_ONSTACK;
  }
  stop_timer();
  sigaction(SIGALRM, &action, NULL);
  jumps_left = jumps;
  has_stray = 1;
  setitimer(ITIMER_REAL, &interval, NULL);
  say("timer %ld\n", jumps);
}

/* Does a step again until nothing has left it. */
void with_jumps(void (*step)(long), long number) {
  is_keeping = 1;
  sigsetjmp(jump, 1);
  kept[0] = 0;
  may_jump = jumps_left > 0;
  step(number);
  may_jump = 0;
  is_keeping = 0;
  say("%s", kept);
}
