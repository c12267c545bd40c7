// record/engine/no_signals.h: blocks the signal handlers of the calling thread in a scope, so that no longjmp leaves
// work half done.
#pragma once

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <initializer_list>

namespace perfschema {

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
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
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
