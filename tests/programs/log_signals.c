/* Logs from two threads and from a signal handler that interrupts at random places, malloc and pfs_log() included.
 * Prints the numbers of logged and lost events, by the results of its calls; waits for a line before it ends. */
#define _GNU_SOURCE /* sigaction */
#include <perfschema/pfs.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static volatile uint64_t handled, lost_in_handler; /* of the main thread, which alone gets the signals */

static void on_alarm(int number) {
  (void)number;
  ++handled;
  if (pfs_log(PFS_LOG_ERROR, "HANDLER", "signal", "from the handler") != 0) ++lost_in_handler;
}

static uint64_t work(int rounds, uint64_t* failed) {
  uint64_t done = 0;
  char text[600];
  int i;
  for (i = 0; i < rounds; ++i) {
    void* memory = malloc((size_t)(i % 5000) + 1);
    memset(text, 'a' + i % 26, sizeof text);
    text[i % 599] = 0;
    ++done;
    if (pfs_log(PFS_LOG_NOTE, "WORK", NULL, text) != 0) ++*failed;
    free(memory);
  }
  return done;
}

static void* other(void* argument) {
  uint64_t* numbers = argument;
  numbers[0] = work(60000, &numbers[1]);
  return NULL;
}

int main(void) {
  struct sigaction action;
  struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  sigset_t alarm_only;
  pthread_t thread;
  uint64_t numbers[2] = {0, 0}, failed = 0, done;
  int c;
  if (!pfs_is_on()) return 1; /* what is logged while it starts is not kept */
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
  pthread_create(&thread, NULL, other, numbers);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  done = work(60000, &failed);
  while (handled < 20) done += work(10, &failed);
  setitimer(ITIMER_REAL, &never, NULL);
  pthread_join(thread, NULL);
  printf("handled %llu\n", (unsigned long long)handled);
  printf("calls %llu\n", (unsigned long long)(done + numbers[0] + handled));
  printf("lost %llu\n", (unsigned long long)(failed + numbers[1] + lost_in_handler));
  printf("segment %s\nready now\n", pfs_segment_path());
  fflush(stdout);
  do c = getchar();
  while (c != '\n' && c != EOF);
  return 0;
}
