// run/loader/small_lock.h: the lock of this library's own tables. It is no pthread lock, and a forked child may take it at once.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "record/engine/no_signals.h"

namespace perfschema::run {

// The number of the process, since StartRun() and fork().
extern pid_t g_own_pid __attribute__((visibility("hidden")));

// Threads: any. Signals are blocked while it is held, so a handler of the holder never waits for it.
class SmallLock {
 public:
  class Guard {
   public:
    explicit Guard(SmallLock& lock) : lock_(lock) {
      pid_t holder = 0;
      if (lock_.holder_.compare_exchange_strong(holder, g_own_pid, std::memory_order_acquire)) return;
      // The number of the process tells a holder that a forked child does not have.
      const pid_t self = getpid();
      for (;;) {
        if (holder != self && lock_.holder_.compare_exchange_strong(holder, self, std::memory_order_acquire)) return;
        sched_yield();
        holder = lock_.holder_.load(std::memory_order_relaxed);
      }
    }
    ~Guard() { lock_.holder_.store(0, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    const NoSignals no_signals_;
    SmallLock& lock_;
  };

 private:
  std::atomic<pid_t> holder_{0};
};

}  // namespace perfschema::run
