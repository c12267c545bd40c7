// Each of 4,000 tasks has a thread that nobody joins; mended, one thread does them all.
#include <pthread.h>
#include <semaphore.h>
static sem_t done;
static volatile int sum;
static void* task(void* number) {  // FAULT
  for (int i = 0; i < 2000; i++) sum += i;
  sem_post(&done);
  return number;
}
int main(int argc, char** argv) {
  (void)argv;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sem_init(&done, 0, 0);
  for (int i = 0; i < 4000; i++) {
    pthread_t thread;
    if (argc > 1) {
      task(0);
    } else if (pthread_create(&thread, &detached, task, 0) != 0) {
      return 1;
    }
    sem_wait(&done);
  }
  return 0;
}
