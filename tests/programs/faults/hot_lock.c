// Four threads take one lock for each number that they add; mended, once for all of them.
#include <pthread.h>
static pthread_mutex_t sum_lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static int mended;
static void* add(void* unused) {
  long own = 0;
  for (int i = 0; i < 600000; i++) {
    if (mended) {
      own += i;
      continue;
    }
    pthread_mutex_lock(&sum_lock);  // FAULT
    sum += i;
    pthread_mutex_unlock(&sum_lock);
  }
  pthread_mutex_lock(&sum_lock);
  sum += own;
  pthread_mutex_unlock(&sum_lock);
  return unused;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, add, 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  return sum == 0;
}
