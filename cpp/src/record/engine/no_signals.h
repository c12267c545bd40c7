// record/engine/no_signals.h: no signal handler of the calling thread runs while this lives: none interrupts what it could leave half done with a longjmp.
#pragma once

#include <csignal>
#include <pthread.h>

namespace perfschema {

// Signals that arrive wait until the end. Those of faults are let through, so that a crash is still reported by the program's handler.
// Threads: any. Two system calls; preserves errno.
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
