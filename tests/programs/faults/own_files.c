// Four threads share the lock of a counter. Each writes a file of its own while it holds the lock; mended, after it.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;
static int records, mended;
static void save(int file) {
  static const char text[4 << 20] = "record";
  if (pwrite(file, text, sizeof text, 0) < 0) _exit(1);
}
static void* work(void* number) {
  char name[32];
  snprintf(name, sizeof name, "own-%d.log", (int)(long)number);
  const int file = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (int i = 0; i < 80; i++) {
    pthread_mutex_lock(&counter_lock);  // FAULT
    records++;
    if (!mended) save(file);
    pthread_mutex_unlock(&counter_lock);
    if (mended) save(file);
    for (volatile int n = 0; n < 300000; n++) continue;  // meanwhile another thread has the lock
  }
  close(file);
  return 0;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  return records != 320;
}
