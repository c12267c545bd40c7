// Preloaded: CLOCK_REALTIME shows what the test says, and other clocks themselves.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long long wall_clock_micros = 0;  // since 1970; 0 = the real time

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (clock != CLOCK_REALTIME || wall_clock_micros == 0) return (int)syscall(SYS_clock_gettime, clock, now);
  now->tv_sec = wall_clock_micros / 1000000;
  now->tv_nsec = wall_clock_micros % 1000000 * 1000;
  return 0;
}
