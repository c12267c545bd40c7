/* Eight threads make calls that fail, among some that succeed. Then a child does. A signal interrupts the threads, and its handler polls:
 * the program prints how often. With an argument it waits to be killed before there is a child. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static int empty[2], epoll, folder, nobody, datagrams;
static long handled;

static void handler(int signal) {
  (void)signal;
  __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
  while (poll(NULL, 0, 0) < 0) continue; /* EINTR, even with this timeout */
}

static void* work(void* number) {
  const int rounds = 200 + 10 * (int)(long)number;
  struct sockaddr_in closed = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  for (int i = 0; i < rounds; i++) {
    struct stat info;
    struct epoll_event event;
    char byte;
    (void)open("/nowhere/settings.conf", O_RDONLY);
    (void)open("/", O_WRONLY);
    stat("/nowhere/modül", &info);
    stat("/", &info);
    unlink("/nowhere/lock");
    (void)!read(empty[0], &byte, 1);
    (void)!read(folder, &byte, 1);
    while (epoll_wait(epoll, &event, 1, 0) < 0) continue;
    while (poll(NULL, 0, 0) < 0) continue; /* EINTR, even with this timeout */
    pthread_mutex_trylock(&taken);
    (void)!accept(nobody, NULL, NULL);
    if (i % 20 == 0) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      connect(fd, (struct sockaddr*)&closed, sizeof closed);
      close(fd);
      struct pollfd soon = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .events = POLLOUT};
      connect(soon.fd, (struct sockaddr*)&closed, sizeof closed);
      while (poll(&soon, 1, -1) < 0) continue;
      int error;
      socklen_t size = sizeof error;
      getsockopt(soon.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      close(soon.fd);
      (void)!listen(datagrams, 1);
    }
  }
  return NULL;
}

static void work_in_threads(void) {
  pthread_t threads[8];
  for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  (void)argv;
  const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  if (pipe2(empty, O_NONBLOCK) != 0 || (epoll = epoll_create1(0)) < 0 || (folder = open("/", O_RDONLY)) < 0) return 1;
  if ((nobody = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) < 0 || listen(nobody, 1) != 0) return 1;
  if ((datagrams = socket(AF_INET, SOCK_DGRAM, 0)) < 0) return 1;
  pthread_mutex_lock(&taken);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  work_in_threads();
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%ld\n", handled);
  fflush(stdout);
  if (argc > 1) pause();
  const pid_t child = fork();
  if (child == 0) work(NULL);
  if (child == 0) return 0;
  return waitpid(child, NULL, 0) == child ? 0 : 1;
}
