// A thread that has the lock of the allocator until a byte comes: malloc_stats() writes under that lock, to a stream of this program.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void* Sleep(void* unused) {
  for (;;) pause();
  return unused;
}

static ssize_t Write(void* unused, const char* bytes, size_t size) {
  (void)unused;
  (void)bytes;
  static int has_waited;
  char byte;
  if (!has_waited) {
    has_waited = 1;
    (void)!write(1, "inside\n", 7);
    (void)!read(0, &byte, 1);
  }
  return (ssize_t)size;
}

int main(void) {
  pthread_t thread;  // with one thread the allocator takes no lock
  pthread_create(&thread, NULL, Sleep, NULL);
  stderr = fopencookie(NULL, "w", (cookie_io_functions_t){NULL, Write, NULL, NULL});
  setvbuf(stderr, NULL, _IONBF, 0);  // a buffer would be allocated under that lock
  malloc_stats();
  (void)!write(1, "done\n", 5);
  char byte;
  (void)!read(0, &byte, 1);
  return 0;
}
