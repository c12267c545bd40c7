// run/calls/sandbox.h: programs that let the system kill them for calls that they never make.
//
// A filter of seccomp may kill the process at a system call that pfs makes, and the program does not. Strict mode kills at nearly all
// calls; it also forbids the timer, and so does PR_SET_TSC. Where that is so, pfs is off from then on: it makes no call, and reads no
// timer. The error log says so. A filter that only refuses, or allows what pfs calls, changes nothing.
#pragma once

#include "run/loader/real.h"

namespace perfschema::run {

// True once pfs is off for that reason: programs that this one runs cannot have the library either. Threads: any.
extern bool g_is_sandboxed __attribute__((visibility("hidden")));

// Tells why pfs cannot go on after a call of prctl() or seccomp(), or nullptr if it can. Both run the filter, and make no call of theirs.
const char* WhyNotAfterPrctl(int option, unsigned long mode, const void* filter);
const char* WhyNotAfterSeccomp(unsigned operation, const void* filter);

// Turns pfs off around a call, and for good if the call succeeds. Not for threads. REQUIRES: IsPlain() is false.
class Sandboxing {
 public:
  explicit Sandboxing(const char* why);
  void End(bool has_succeeded);
};

// Makes a call after which pfs cannot go on, for the reason `why`.
template <typename Call>
long CallIntoSandbox(const char* why, Call call) {
  if (why == nullptr || IsPlain()) return call();
  Sandboxing sandboxing(why);
  const long result = call();
  sandboxing.End(result >= 0);
  return result;
}

}  // namespace perfschema::run
