// A team of OpenMP whose threads wait some 40 ms for each other in each construct.
#include <omp.h>
#include <unistd.h>

static omp_lock_t lock;

static void Hold(void) { usleep(20000); }

int main(void) {
  omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
  {
    usleep(20000 * omp_get_thread_num());
#pragma omp barrier   // waits: barrier
#pragma omp critical  // waits: critical
    Hold();
#pragma omp barrier
#pragma omp critical(named)  // waits: named
    Hold();
#pragma omp barrier
    omp_set_lock(&lock);  // waits: lock
    Hold();
    omp_unset_lock(&lock);
    for (int i = 0; i < 1000; ++i) {
#pragma omp critical(free)
      (void)i;
    }
  }
#pragma omp parallel for schedule(dynamic) num_threads(2)
  for (int i = 0; i < 2; ++i) usleep(i * 40000);
  omp_destroy_lock(&lock);
  return 0;
}
