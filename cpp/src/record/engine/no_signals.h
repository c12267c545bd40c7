// record/engine/no_signals.h: blocks the signal handlers of the calling thread in a scope, so that no longjmp leaves
// work half done.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace perfschema {

// Blocks signals until the end of its scope. Signals of faults are not blocked, so that the program's handler still
// reports a crash.
// Threads: any. It makes two system calls and preserves errno.
class NoSignals {
 public:
  NoSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace perfschema
