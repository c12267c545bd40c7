// A thread tries again and again to lock a mutex that another one holds for 40 ms; mended, it waits for it.
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void* hold(void* unused) {
  for (int i = 0; i < 7; i++) {
    pthread_mutex_lock(&lock);
    usleep(40000);
    pthread_mutex_unlock(&lock);
    usleep(2000);
  }
  return unused;
}
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm';
  pthread_t thread;
  pthread_create(&thread, 0, hold, 0);
  for (int i = 0; i < 5; i++) {
    usleep(4000);
    if (mended) {
      pthread_mutex_lock(&lock);
    } else {
      while (pthread_mutex_trylock(&lock) != 0) {  // FAULT
      }
    }
    pthread_mutex_unlock(&lock);
  }
  return pthread_join(thread, 0);
}
