// A program of one thread that waits for a byte, below the calls that its argument names. Its stack also has what earlier calls have left.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))

static ALONE int Wait(void) {
  char byte;
  (void)!write(1, "ready\n", 6);
  return (int)read(0, &byte, 1);
}

// The return addresses of calls that have ended lie in `unused`.
static ALONE int WaitAboveOldCalls(void) {
  volatile char unused[65536];
  const int got = Wait();
  unused[0] = 1;
  return got;
}

static ALONE int WaitBelowSomeBytes(size_t bytes) {
  volatile char* const some = alloca(bytes);
  some[0] = 1;
  return WaitAboveOldCalls() + some[0] - 1;
}

static int WaitForObject(struct dl_phdr_info* info, size_t bytes, void* unused) {
  (void)info;
  (void)bytes;
  (void)unused;
  return WaitBelowSomeBytes(100);
}

static void WaitForSignal(int number) {
  (void)number;
  WaitBelowSomeBytes(100);
}

static int Compare(const void* left, const void* right) {
  static int has_waited;
  if (!has_waited++) WaitBelowSomeBytes(100);
  return *(const char*)left - *(const char*)right;
}

int main(int count, char** arguments) {
  const char* const where = arguments[count - 1];
  void* const library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 1;
  dlclose(library);
  if (strcmp(where, "old") == 0) return WaitAboveOldCalls() != 1;
  if (strcmp(where, "alloca") == 0) return WaitBelowSomeBytes((size_t)count * 1000) != 1;
  if (strcmp(where, "qsort") == 0) {
    char text[] = "order";
    qsort(text, 5, 1, Compare);
  } else if (strcmp(where, "dl_iterate_phdr") == 0) {
    dl_iterate_phdr(WaitForObject, NULL);
  } else if (strcmp(where, "signal") == 0) {
    signal(SIGUSR1, WaitForSignal);
    raise(SIGUSR1);
  } else {
    return Wait() != 1;
  }
  return 0;
}
