// The threads of a parallel loop add up in a critical section; mended, each adds up for itself.
#include <stdlib.h>
static double costly(int i) {
  double x = i;
  for (int j = 0; j < 2000; j++) x = x * 0.999 + 1;
  return x;
}
int main(int argc, char** argv) {
  double sum = 0;
  (void)argv;
  if (argc > 1) {
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int i = 0; i < 20000; i++) sum += costly(i);
  } else {
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 20000; i++) {
#pragma omp critical  // FAULT
      sum += costly(i);
    }
  }
  return sum < 0;
}
