// Readers work while they have a read-write lock, so a writer never gets it; mended, they copy under the lock and then work.
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
static pthread_rwlock_t prices = PTHREAD_RWLOCK_INITIALIZER;
static int is_mended;
static volatile int price;
static void pause_ms(long ms) {
  struct timespec time = {0, ms * 1000000};
  nanosleep(&time, NULL);
}
static void* read_all(void* from) {
  pause_ms((long)from);
  for (;;) {
    pthread_rwlock_rdlock(&prices);
    int copied = price;
    if (!is_mended) pause_ms(15);
    pthread_rwlock_unlock(&prices);
    if (is_mended) pause_ms(copied ? 14 : 15);
  }
  return from;
}
static void* write_one(void* none) {
  pause_ms(40);
  pthread_rwlock_wrlock(&prices);  // FAULT
  price = 1;
  pthread_rwlock_unlock(&prices);
  return none;
}
int main(int argc, char** argv) {
  is_mended = argc > 1 && argv[1][0] == 'm';
  pthread_t thread;
  for (long each = 0; each < 6; ++each) pthread_create(&thread, NULL, read_all, (void*)(each * 3));
  pthread_create(&thread, NULL, write_one, NULL);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 400000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_timedjoin_np(thread, NULL, &until);
  return 0;
}
