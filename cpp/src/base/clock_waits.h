// base/clock_waits.h: waits until a moment of a given clock. glibc has the functions since 2.30.
//
// A library for older machines (-DPFS_OLDEST_GLIBC_MINOR=28) checks at each call whether glibc has the function. If not, it converts the
// moment to the clock that the older function knows.
#pragma once

#include <pthread.h>
#include <time.h>

#if !defined(PFS_OLDEST_GLIBC_MINOR) && defined(__GLIBC__)
#define PFS_OLDEST_GLIBC_MINOR __GLIBC_MINOR__
#endif

namespace perfschema::old_glibc {

// Do what the functions of glibc 2.30 do. A deadline of CLOCK_MONOTONIC is converted where the older function waits on CLOCK_REALTIME: if
// somebody sets that clock back meanwhile, the wait takes longer. THREADS: any.
int MutexClockLock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline);
int CondClockWait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline);
int ReadClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline);
int WriteClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline);

}  // namespace perfschema::old_glibc

#if defined(__GLIBC__) && PFS_OLDEST_GLIBC_MINOR < 30
#if !__GLIBC_PREREQ(2, 30)
extern "C" {
int pthread_mutex_clocklock(pthread_mutex_t*, clockid_t, const timespec*) noexcept;
int pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int pthread_rwlock_clockrdlock(pthread_rwlock_t*, clockid_t, const timespec*) noexcept;
int pthread_rwlock_clockwrlock(pthread_rwlock_t*, clockid_t, const timespec*) noexcept;
}
#endif
#pragma weak pthread_mutex_clocklock
#pragma weak pthread_cond_clockwait
#pragma weak pthread_rwlock_clockrdlock
#pragma weak pthread_rwlock_clockwrlock
#define PFS_CLOCK_WAIT_(name, older) (name != nullptr ? name : older)
#else
#define PFS_CLOCK_WAIT_(name, older) name
#endif

namespace perfschema {

// Return whether glibc takes these arguments of a call that waits for a lock. Where it does not, the call says EINVAL even if the lock is
// free (a mutex: for the clock alone). So nobody may try the lock before such a call, for that would take it.
inline bool IsWaitClock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }
inline bool IsMoment(clockid_t clock, const timespec* deadline) {
  return IsWaitClock(clock) && deadline->tv_nsec >= 0 && deadline->tv_nsec < 1'000'000'000;
}

inline int MutexClockLock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  return PFS_CLOCK_WAIT_(pthread_mutex_clocklock, old_glibc::MutexClockLock)(mutex, clock, deadline);
}
inline int CondClockWait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  return PFS_CLOCK_WAIT_(pthread_cond_clockwait, old_glibc::CondClockWait)(cond, mutex, clock, deadline);
}
inline int ReadClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline) {
  return PFS_CLOCK_WAIT_(pthread_rwlock_clockrdlock, old_glibc::ReadClockLock)(lock, clock, deadline);
}
inline int WriteClockLock(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline) {
  return PFS_CLOCK_WAIT_(pthread_rwlock_clockwrlock, old_glibc::WriteClockLock)(lock, clock, deadline);
}

}  // namespace perfschema

#undef PFS_CLOCK_WAIT_
