#include "background/own_thread.h"

#include <sched.h>
#include <unistd.h>

#include <csignal>

#include "record/engine/runtime.h"

namespace perfschema {

bool StartOwnThread(pthread_t& thread, size_t stack_bytes, JoinState state, void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, static_cast<int>(state));
  // It does not inherit the priority of a real-time thread.
  const sched_param normal{};
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &normal);
  // A new thread inherits the signal mask of its creator.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool is_started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return is_started;
}

void BecomeOwnThread(const char* name) {
  t_locals.ended = t_locals.silent = true;  // none of its actions is an event
  pthread_setname_np(pthread_self(), name);
  // The thread may run on all processors of the program, not only on that of the thread that happened to start it.
  cpu_set_t processors;
  if (sched_getaffinity(getpid(), sizeof processors, &processors) == 0) sched_setaffinity(0, sizeof processors, &processors);
}

}  // namespace perfschema
