// A thread writes and syncs a log for which nobody waits, while the first thread computes.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static volatile int is_over;
static void* write_log(void* unused) {
  int file = open("background.log", O_CREAT | O_WRONLY | O_TRUNC, 0644);
  while (!is_over) {
    if (write(file, "line\n", 5) < 0) break;
    fsync(file);
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, write_log, 0);
  volatile double x = 0;
  for (long i = 0; i < 100000000; i++) x += i;
  is_over = 1;
  return pthread_join(thread, 0);
}
