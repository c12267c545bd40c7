// Three threads pause before each use of a device, and hold its lock meanwhile; mended, they pause before they take it.
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static int used, mended;
static void* work(void* unused) {
  for (int i = 0; i < 15; i++) {
    if (mended) usleep(4000);
    pthread_mutex_lock(&device_lock);  // FAULT
    if (!mended) usleep(4000);
    used++;
    pthread_mutex_unlock(&device_lock);
  }
  return unused;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  return used != 45;
}
