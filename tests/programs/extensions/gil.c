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

// Letting it go may wait, too: until the thread that has asked for it has a processor.
static void* let_go(double* waited) {
  const double begin = now();
  void* const state = PyEval_SaveThread();
  *waited += now() - begin;
  return state;
}

static void take(void* state, double* waited) {
  const double begin = now();
  PyEval_RestoreThread(state);
  *waited += now() - begin;
}

// Sleeps until `begin`: threads that start wait for the GIL, too, and nobody measures that.
static void take_at(double begin, double* waited) {
  void* const state = let_go(waited);
  const struct timespec until = {(time_t)begin, (long)((begin - (time_t)begin) * 1e9)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  take(state, waited);
}

// Computes with the GIL, lets it go and takes it again, in turns of `hold` seconds from `begin` until `end`. Returns the seconds in which
// it waited.
double compute(double begin, double end, double hold) {
  double waited = 0;
  take_at(begin, &waited);
  while (now() < end) {
    for (const double until = now() + hold; now() < until;) {
    }
    take(let_go(&waited), &waited);
  }
  return waited;
}

// Reads a pipe without the GIL and takes it for each byte.
double receive(double begin, double end, int from) {
  double waited = 0;
  take_at(begin, &waited);
  for (char byte; now() < end;) {
    void* const state = let_go(&waited);
    if (read(from, &byte, 1) != 1) end = 0;
    take(state, &waited);
  }
  return waited;
}
