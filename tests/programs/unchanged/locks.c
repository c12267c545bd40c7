/* Known numbers of operations on locks of each kind, from four threads. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { kThreads = 4, kRounds = 500 };

pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t made_lock;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t tokens;
static long sum;

void* worker(void* unused) {
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&named_lock);
    ++sum;
    pthread_mutex_unlock(&named_lock);
    if (pthread_mutex_trylock(&made_lock) == 0) pthread_mutex_unlock(&made_lock);
    pthread_rwlock_rdlock(&table_lock);
    pthread_rwlock_unlock(&table_lock);
    pthread_rwlock_wrlock(&table_lock);
    pthread_rwlock_unlock(&table_lock);
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
    sem_wait(&tokens);
    sem_post(&tokens);
  }
  return unused;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_mutex_init(&made_lock, NULL);
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  pthread_barrier_init(&barrier, NULL, kThreads);
  sem_init(&tokens, 0, 2);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, worker, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%ld\n", sum);
  return 0;
}
