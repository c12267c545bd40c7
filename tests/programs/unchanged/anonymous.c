// Reads and writes what eventfd() and its like make. Each read but that of the first eventfd blocks for 30 ms, or has what came before it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : (perror(#what), exit(1)))

int main(int argc, char** argv) {
  MUST(argc == 2);
  uint64_t one = 1;
  const int event = eventfd(0, 0), other = eventfd(0, 0);
  MUST(write(event, &one, sizeof one) == sizeof one && read(event, &one, sizeof one) == sizeof one);
  MUST(eventfd_write(other, 3) == 0 && eventfd_read(other, &one) == 0 && one == 3);

  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec soon = {{0, 0}, {0, 30000000}};
  MUST(timerfd_settime(timer, 0, &soon, NULL) == 0 && read(timer, &one, sizeof one) == sizeof one && one == 1);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  const int signals = signalfd(-1, &set, 0);
  struct signalfd_siginfo info;
  MUST(kill(getpid(), SIGUSR1) == 0 && read(signals, &info, sizeof info) == sizeof info);

  const int watch = inotify_init1(0);
  char text[4096];
  MUST(inotify_add_watch(watch, argv[1], IN_CREATE) >= 0);
  snprintf(text, sizeof text, "%s/made", argv[1]);
  MUST(open(text, O_CREAT | O_RDWR, 0600) >= 0 && read(watch, text, sizeof text) >= (ssize_t)sizeof(struct inotify_event));

  const int poll = epoll_create1(0);
  struct epoll_event none;
  MUST(epoll_wait(poll, &none, 1, 0) == 0 && fcntl(poll, F_GETFD) >= 0);
  return 0;
}
