// Each of 5,000 tasks has a thread; mended, one thread does them all.
#include <pthread.h>
static void* task(void* sum) {
  ++*(long*)sum;
  return sum;
}
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm';
  long sum = 0;
  for (int i = 0; i < 5000; i++) {
    pthread_t thread;
    if (mended) {
      task(&sum);
      continue;
    }
    pthread_create(&thread, 0, task, &sum);
    pthread_join(thread, 0);  // FAULT
  }
  return sum != 5000;
}
