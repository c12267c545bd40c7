// Three threads compute under a lock; mended, before it. Another one writes a file meanwhile, and never takes the lock.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_over, mended;
static double total;
static double sum(void) {
  volatile double own = 0;
  for (int n = 0; n < 1500000; n++) own += n;
  return own;
}
static void* compute(void* unused) {
  for (int i = 0; i < 30; i++) {
    double own = mended ? sum() : 0;
    pthread_mutex_lock(&lock);  // FAULT
    total += mended ? own : sum();
    pthread_mutex_unlock(&lock);
  }
  return unused;
}
static void* write_file(void* unused) {
  static char block[65536];
  int file = open("blocks.dat", O_CREAT | O_WRONLY | O_TRUNC, 0644);
  while (!is_over) {
    if (pwrite(file, block, sizeof block, 0) < 0) break;
  }
  return unused;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[4];
  pthread_create(&threads[3], 0, write_file, 0);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, compute, 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  is_over = 1;
  return pthread_join(threads[3], 0);
}
