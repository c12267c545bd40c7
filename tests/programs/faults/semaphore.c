// Four workers take turns at a semaphore that guards a table, and compute while they have it; mended, each computes first.
#include <pthread.h>
#include <semaphore.h>
static sem_t guard;
static int mended;
static unsigned long table[16];
static unsigned long costly(unsigned long x) {
  for (int i = 0; i < 300000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}
static void* work(void* number) {
  unsigned long x = (unsigned long)number;
  for (int i = 0; i < 100; i++) {
    if (mended) x = costly(x);
    sem_wait(&guard);  // FAULT
    table[i % 16] += mended ? x : (x = costly(x));
    sem_post(&guard);
  }
  return 0;
}
int main(int argc, char** argv) {
  (void)argv;
  mended = argc > 1;
  sem_init(&guard, 0, 1);
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void*)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
