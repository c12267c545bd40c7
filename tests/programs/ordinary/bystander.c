// Two threads compute under a lock, in short; a third one writes a file meanwhile and never takes the lock.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_over;
static volatile double total;
static void* compute(void* unused) {
  for (int i = 0; i < 40; i++) {
    pthread_mutex_lock(&lock);
    for (int n = 0; n < 200000; n++) total += n;
    pthread_mutex_unlock(&lock);
    usleep(200);
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
int main(void) {
  pthread_t threads[3];
  pthread_create(&threads[2], 0, write_file, 0);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, compute, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  is_over = 1;
  return pthread_join(threads[2], 0);
}
