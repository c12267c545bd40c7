// The threads of a parallel loop do most of their work in a critical section; mended, each adds up for itself.
#include <stdlib.h>
static double costly(double x, int times) {
  for (int j = 0; j < times; j++) x = x * 0.999 + 1;
  return x;
}
int main(int argc, char** argv) {
  double sum = 0;
  (void)argv;
  if (argc > 1) {
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int i = 0; i < 3000; i++) sum += costly(costly(i, 4000), 10000);
  } else {
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 3000; i++) {
      double own = costly(i, 4000);
#pragma omp critical  // FAULT
      sum += costly(own, 10000);
    }
  }
  return sum < 0;
}
