/* Hangs. "held": asker waits for a lock that keeper has. "circle": both wait for the lock of the other. The tests find lines by the words
   in comments. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t* heap_lock;
static pthread_barrier_t both;
static int is_circle;

static void* keeper(void* unused) {
  pthread_setname_np(pthread_self(), "keeper");
  pthread_mutex_lock(&queue_lock); /* keeper takes queue_lock */
  pthread_barrier_wait(&both);
  if (is_circle) pthread_mutex_lock(heap_lock); /* keeper waits */
  pause();                                      /* keeper pauses */
  return unused;
}

static void* asker(void* unused) {
  pthread_setname_np(pthread_self(), "asker");
  pthread_mutex_lock(heap_lock); /* asker takes heap_lock */
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&queue_lock); /* asker waits */
  return unused;
}

__attribute__((noinline)) static pthread_mutex_t* make_lock(void) {
  pthread_mutex_t* const made = malloc(sizeof *made);
  pthread_mutex_init(made, NULL); /* makes heap_lock */
  return made;
}

int main(int argc, char** argv) {
  is_circle = argc > 1 && strcmp(argv[1], "circle") == 0;
  heap_lock = make_lock();
  pthread_barrier_init(&both, NULL, 2);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, keeper, NULL);
  pthread_create(&threads[1], NULL, asker, NULL);
  pthread_join(threads[1], NULL);
  return 0;
}
