// base/clock_waits.cpp: waits until a moment of a given clock, on a glibc that has them for one clock only.
#include "base/clock_waits.h"

#include <cerrno>
#include <cstdint>

namespace perfschema::old_glibc {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

bool IsKnown(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

timespec Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now;
}

// Returns the moment of clock `to` that is as far away as `moment` of clock `from`.
timespec Converted(const timespec& moment, clockid_t from, clockid_t to) {
  const timespec then = Now(from), there = Now(to);
  timespec result = {there.tv_sec + (moment.tv_sec - then.tv_sec), there.tv_nsec + (moment.tv_nsec - then.tv_nsec)};
  if (result.tv_nsec >= kNanoseconds) {
    result.tv_nsec -= kNanoseconds;
    ++result.tv_sec;
  } else if (result.tv_nsec < 0) {
    result.tv_nsec += kNanoseconds;
    --result.tv_sec;
  }
  return result;
}

bool IsOver(const timespec& deadline, clockid_t clock) {
  const timespec now = Now(clock);
  return now.tv_sec > deadline.tv_sec || (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

bool IsMoment(const timespec& moment) { return moment.tv_nsec >= 0 && moment.tv_nsec < kNanoseconds; }

// Calls wait(const timespec*), which takes a moment of `its_clock`, with `deadline` of `clock`. Sets *is_early if the wait timed out before
// the deadline, because somebody set `its_clock` forward.
template <typename Wait>
int WaitUntil(clockid_t clock, const timespec* deadline, clockid_t its_clock, bool* is_early, Wait wait) {
  *is_early = false;
  if (!IsKnown(clock)) return EINVAL;
  if (clock == its_clock || !IsMoment(*deadline)) return wait(deadline);  // a free lock is taken in spite of a bad moment
  const timespec moment = Converted(*deadline, clock, its_clock);
  const int rc = wait(&moment);
  *is_early = rc == ETIMEDOUT && !IsOver(*deadline, clock);
  return rc;
}

template <typename Wait>
int LockUntil(clockid_t clock, const timespec* deadline, Wait wait) {
  for (;;) {
    bool is_early;
    const int rc = WaitUntil(clock, deadline, CLOCK_REALTIME, &is_early, wait);
    if (!is_early) return rc;
  }
}

// Returns the clock that pthread_cond_timedwait() takes. glibc 2.25 and later keep it in bit 1 of the references.
clockid_t ClockOf(const pthread_cond_t* cond) {
  constexpr unsigned kIsMonotonic = 2;
  return (__atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED) & kIsMonotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

}  // namespace

int MutexClockLock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  return LockUntil(clock, deadline, [=](const timespec* moment) { return pthread_mutex_timedlock(mutex, moment); });
}

int CondClockWait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  bool is_early;
  const int rc = WaitUntil(clock, deadline, ClockOf(cond), &is_early,
                           [=](const timespec* moment) { return pthread_cond_timedwait(cond, mutex, moment); });
  // Waiting again could miss a signal of just now. A wakeup without a signal is what each caller must expect.
  return is_early ? 0 : rc;
}

int ReadClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline) {
  return LockUntil(clock, deadline, [=](const timespec* moment) { return pthread_rwlock_timedrdlock(lock, moment); });
}

int WriteClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline) {
  return LockUntil(clock, deadline, [=](const timespec* moment) { return pthread_rwlock_timedwrlock(lock, moment); });
}

}  // namespace perfschema::old_glibc
