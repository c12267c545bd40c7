// record/engine/no_signals.h: blocks the signal handlers of the calling thread in a scope, so that no longjmp leaves
// work half done.
#pragma once

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <initializer_list>

namespace perfschema {

// All signals but those of faults, in the format of glibc: signal n is bit n - 1. The functions that make a set take ten calls.
inline constexpr sigset_t kAllButFaults = [] {
  sigset_t all{};
  for (unsigned long& word : all.__val) word = ~0ul;
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) all.__val[0] &= ~(1ul << (fault - 1));
  return all;
}();

// How many NoSignals of the thread exist: one inside another needs no system call.
extern thread_local constinit uint32_t t_no_signals __attribute__((tls_model("initial-exec")));

// Blocks signals until the end of its scope. Signals of faults are not blocked, so that the program's handler still
// reports a crash.
// Threads: any. The outermost one makes two system calls. All preserve errno.
class NoSignals {
 public:
  NoSignals() {
    if (t_no_signals != 0) {
      ++t_no_signals;
      return;
    }
    pthread_sigmask(SIG_BLOCK, &kAllButFaults, &before_);
    t_no_signals = 1;  // not earlier: a handler may come until then, and never return
  }
  ~NoSignals() {
    if (--t_no_signals == 0) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace perfschema
