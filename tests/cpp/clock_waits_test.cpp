// Waits until a moment of a clock by the functions of an old glibc give the results that glibc's own give.
#include "base/clock_waits.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace perfschema {
namespace {

timespec In(clockid_t clock, int64_t milliseconds) {
  timespec moment;
  clock_gettime(clock, &moment);
  const int64_t nanoseconds = moment.tv_nsec + milliseconds * 1'000'000;
  const int64_t carry = (nanoseconds < 0 ? nanoseconds - 999'999'999 : nanoseconds) / 1'000'000'000;
  return {moment.tv_sec + carry, static_cast<long>(nanoseconds - carry * 1'000'000'000)};
}

int64_t Milliseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

struct Functions {
  int (*mutex)(pthread_mutex_t*, clockid_t, const timespec*);
  int (*cond)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  int (*read)(pthread_rwlock_t*, clockid_t, const timespec*);
  int (*write)(pthread_rwlock_t*, clockid_t, const timespec*);
};

class ClockWaits : public testing::TestWithParam<Functions> {};
const Functions kOlder = {old_glibc::MutexClockLock, old_glibc::CondClockWait, old_glibc::ReadClockLock, old_glibc::WriteClockLock};
INSTANTIATE_TEST_SUITE_P(older, ClockWaits, testing::Values(kOlder));
#ifndef __SANITIZE_THREAD__  // that of gcc 12 knows none of them
INSTANTIATE_TEST_SUITE_P(glibc, ClockWaits, testing::Values(Functions{MutexClockLock, CondClockWait, ReadClockLock, WriteClockLock}));
#endif

TEST_P(ClockWaits, free_locks_are_taken_whatever_the_moment) {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    for (const timespec moment : {In(clock, 1000), In(clock, -5000), timespec{0, -1}, timespec{0, 2'000'000'000}}) {
      pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
      EXPECT_EQ(GetParam().mutex(&mutex, clock, &moment), 0);
      pthread_mutex_unlock(&mutex);
      pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
      if (moment.tv_nsec < 0 || moment.tv_nsec >= 1'000'000'000) continue;  // of rwlocks each version of glibc has its own opinion
      EXPECT_EQ(GetParam().read(&lock, clock, &moment), 0);
      pthread_rwlock_unlock(&lock);
      EXPECT_EQ(GetParam().write(&lock, clock, &moment), 0);
      pthread_rwlock_unlock(&lock);
    }
  }
}

TEST_P(ClockWaits, held_locks_time_out_at_the_moment_and_not_before) {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t read = PTHREAD_RWLOCK_INITIALIZER, written = PTHREAD_RWLOCK_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_rdlock(&read);
    pthread_rwlock_wrlock(&written);
    std::thread([&] {
      for (const int64_t wait : {-5000, 0, 30}) {
        const int64_t end = Milliseconds(clock) + wait;
        const timespec moment = In(clock, wait);
        EXPECT_EQ(GetParam().mutex(&mutex, clock, &moment), ETIMEDOUT);
        EXPECT_EQ(GetParam().write(&read, clock, &moment), ETIMEDOUT);
        EXPECT_EQ(GetParam().read(&written, clock, &moment), ETIMEDOUT);
        EXPECT_GE(Milliseconds(clock), end);
      }
      const timespec bad = {0, 2'000'000'000};
      EXPECT_EQ(GetParam().mutex(&mutex, clock, &bad), EINVAL);
      EXPECT_EQ(GetParam().write(&read, clock, &bad), EINVAL);
      EXPECT_EQ(GetParam().read(&written, clock, &bad), EINVAL);
    }).join();
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_unlock(&read);
    pthread_rwlock_unlock(&written);
  }
}

TEST_P(ClockWaits, a_clock_that_cannot_be_waited_on_is_refused) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  const timespec moment = In(CLOCK_MONOTONIC, 1000);
  for (const clockid_t clock : {CLOCK_PROCESS_CPUTIME_ID, clockid_t{1000}}) {
    EXPECT_EQ(GetParam().read(&lock, clock, &moment), EINVAL);
    EXPECT_EQ(GetParam().write(&lock, clock, &moment), EINVAL);
    pthread_mutex_lock(&mutex);
    EXPECT_EQ(GetParam().cond(&cond, &mutex, clock, &moment), EINVAL);
    std::thread([&] { EXPECT_EQ(GetParam().mutex(&mutex, clock, &moment), EINVAL); }).join();
    pthread_mutex_unlock(&mutex);
  }
}

TEST_P(ClockWaits, conditions_of_each_clock_wait_until_a_moment_of_each_clock) {
  for (const clockid_t own : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, own);
    pthread_cond_t cond;
    pthread_cond_init(&cond, &attributes);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
      pthread_mutex_lock(&mutex);
      const int64_t end = Milliseconds(clock) + 30;
      const timespec soon = In(clock, 30), never = In(clock, 600'000), past = In(clock, -3'000'000);
      EXPECT_EQ(GetParam().cond(&cond, &mutex, clock, &past), ETIMEDOUT);
      int rc;
      while ((rc = GetParam().cond(&cond, &mutex, clock, &soon)) == 0) {
      }
      EXPECT_EQ(rc, ETIMEDOUT);
      EXPECT_GE(Milliseconds(clock), end);
      bool is_ready = false;
      std::thread signaller([&] {
        pthread_mutex_lock(&mutex);
        is_ready = true;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
      });
      while (!is_ready) EXPECT_EQ(GetParam().cond(&cond, &mutex, clock, &never), 0);
      pthread_mutex_unlock(&mutex);
      signaller.join();
    }
    pthread_cond_destroy(&cond);
    pthread_condattr_destroy(&attributes);
  }
}

}  // namespace
}  // namespace perfschema
