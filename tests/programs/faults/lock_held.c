// Three threads compute while they hold the lock of the result; mended, they hold it to store only.
#include <pthread.h>
static pthread_mutex_t result_lock = PTHREAD_MUTEX_INITIALIZER;
static double result;
static int mended;
static double compute(int seed) {
  double x = seed;
  for (int i = 0; i < 400000; i++) x = x * 0.999 + i % 7;
  return x;
}
static void* work(void* unused) {
  for (int i = 0; i < 60; i++) {
    double own = mended ? compute(i) : 0;
    pthread_mutex_lock(&result_lock);  // FAULT
    result += mended ? own : compute(i);
    pthread_mutex_unlock(&result_lock);
  }
  return unused;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  return result < 0;
}
