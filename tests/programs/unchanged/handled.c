/* A signal handler locks a mutex and writes to a file while the thread is blocked in a call: in each blocking call once.
 *
 *     handled FILE
 *
 * Prints how often the handler ran. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, waiting = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;
static int file;
static volatile int runs, asked;
static pthread_t main_thread;

static void handler(int number) {
  const int error = errno;
  pthread_mutex_lock(&of_handler);
  if (write(file, "x", 1) == 1) ++runs;
  pthread_mutex_unlock(&of_handler);
  errno = error;
  (void)number;
}

/* Sends a signal a while after it was asked to: the main thread is in its call then. */
static void* send_signals(void* unused) {
  for (int sent = 0; sent >= 0;) {
    if (asked < 0) break;
    if (asked > sent) {
      usleep(100000);
      pthread_kill(main_thread, SIGUSR1);
      ++sent;
    }
    usleep(1000);
  }
  return unused;
}

static struct timespec soon(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  at.tv_nsec += 300000000;
  at.tv_sec += at.tv_nsec / 1000000000;
  at.tv_nsec %= 1000000000;
  return at;
}

#define BLOCKED(call)               \
  do {                              \
    const int n = runs;             \
    ++asked;                        \
    (void)!(call);                  \
    while (runs == n) usleep(1000); \
  } while (0)

int main(int count, char** arguments) {
  assert(count == 2);
  file = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
  struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART: each call ends */
  sigaction(SIGUSR1, &action, NULL);
  main_thread = pthread_self();
  pthread_t sender;
  pthread_create(&sender, NULL, send_signals, NULL);
  sem_init(&none, 0, 0);
  int ends[2], pair[2];
  assert(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  char c;
  BLOCKED(read(ends[0], &c, 1));
  BLOCKED(recv(pair[0], &c, 1, 0));
  struct pollfd one = {ends[0], POLLIN, 0};
  BLOCKED(poll(&one, 1, 10000));
  fd_set reads;
  FD_ZERO(&reads);
  FD_SET(ends[0], &reads);
  BLOCKED(select(ends[0] + 1, &reads, NULL, NULL, NULL));
  const int events = epoll_create1(0);
  struct epoll_event event;
  BLOCKED(epoll_wait(events, &event, 1, 10000));
  BLOCKED(sem_wait(&none));
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET};
  assert(bind(listening, (struct sockaddr*)&address, sizeof address) == 0 && listen(listening, 1) == 0);
  BLOCKED(accept(listening, NULL, NULL));
  FILE* stream = fdopen(ends[0], "r");
  BLOCKED(fread(&c, 1, 1, stream));
  static int word = 1;
  BLOCKED(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0));
  /* These go on after the signal: they end by their deadline. */
  struct timespec until = soon(CLOCK_REALTIME);
  pthread_mutex_lock(&waiting);
  BLOCKED(pthread_cond_timedwait(&never, &waiting, &until));
  pthread_mutex_unlock(&waiting);
  pthread_mutex_lock(&held);
  until = soon(CLOCK_REALTIME);
  BLOCKED(pthread_mutex_timedlock(&held, &until));
  pthread_mutex_unlock(&held);
  pthread_rwlock_rdlock(&table);
  until = soon(CLOCK_REALTIME);
  BLOCKED(pthread_rwlock_timedwrlock(&table, &until));
  pthread_rwlock_unlock(&table);
  asked = -1;
  pthread_join(sender, NULL);
  printf("%d\n", runs);
  return 0;
}
