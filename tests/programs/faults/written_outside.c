// Three threads compute under a lock; mended, before it. Each then writes a file of its own, after the unlock.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int mended;
static double total;
static double sum(void) {
  volatile double own = 0;
  for (int n = 0; n < 1500000; n++) own += n;
  return own;
}
static void* work(void* number) {
  static const char text[4 << 20] = "result";
  char name[32];
  snprintf(name, sizeof name, "result-%d.dat", (int)(long)number);
  const int file = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (int i = 0; i < 25; i++) {
    double own = mended ? sum() : 0;
    pthread_mutex_lock(&lock);  // FAULT
    total += mended ? own : sum();
    pthread_mutex_unlock(&lock);
    if (pwrite(file, text, sizeof text, 0) < 0) break;
  }
  close(file);
  return 0;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[3];
  for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  return total < 0;
}
