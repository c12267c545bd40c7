// gil.c: takes CPython's GIL and says how long each call waited for it. A library that a test loads with ctypes.PyDLL.
#include <time.h>
#include <unistd.h>

void* PyEval_SaveThread(void);
void PyEval_RestoreThread(void* state);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static double take(void* state) {
  const double begin = now();
  PyEval_RestoreThread(state);
  return now() - begin;
}

// Computes with the GIL, lets it go and takes it again, in turns of `hold` seconds until `end`. Returns the seconds in which it waited.
double compute(double end, double hold) {
  double waited = 0;
  while (now() < end) {
    for (const double until = now() + hold; now() < until;) {
    }
    waited += take(PyEval_SaveThread());
  }
  return waited;
}

// Reads a pipe without the GIL and takes it for each byte.
double receive(double end, int from) {
  double waited = 0;
  for (char byte; now() < end;) {
    void* const state = PyEval_SaveThread();
    if (read(from, &byte, 1) != 1) end = 0;
    waited += take(state);
  }
  return waited;
}
