/* A library to preload that counts calls of lock functions and prints them to the descriptor COUNT_LOCKS at the end. It shares nothing
 * with pfs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTED(name, type)                                           \
  static long count_##name;                                           \
  int name(type* object) {                                            \
    static int (*real)(type*);                                        \
    if (real == NULL) real = (int (*)(type*))dlsym(RTLD_NEXT, #name); \
    __atomic_fetch_add(&count_##name, 1, __ATOMIC_RELAXED);           \
    return real(object);                                              \
  }
COUNTED(pthread_mutex_lock, pthread_mutex_t)
COUNTED(pthread_mutex_trylock, pthread_mutex_t)
COUNTED(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_wrlock, pthread_rwlock_t)
COUNTED(pthread_spin_lock, pthread_spinlock_t)
COUNTED(sem_wait, sem_t)
COUNTED(pthread_barrier_wait, pthread_barrier_t)

__attribute__((destructor)) static void report(void) {
  const char* fd = getenv("COUNT_LOCKS");
  if (fd != NULL)
    dprintf(atoi(fd), "%ld %ld %ld %ld %ld %ld %ld\n", count_pthread_mutex_lock, count_pthread_mutex_trylock, count_pthread_rwlock_rdlock,
            count_pthread_rwlock_wrlock, count_pthread_spin_lock, count_sem_wait, count_pthread_barrier_wait);
}
