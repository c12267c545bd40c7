// cmake/old_glibc.c: what the static libstdc++ of a new compiler takes from glibc, for a glibc that does not have it. Hidden: a program
// that uses the same names gets those of its own glibc.
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/random.h>

#pragma GCC visibility push(hidden)

// Since glibc 2.32. False makes std::shared_ptr count with atomic instructions, also before the first thread.
char __libc_single_threaded = 0;

// Since glibc 2.36, for std::random_device.
uint32_t arc4random(void);
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
