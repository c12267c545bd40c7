// bindings/call_in_process.h: lets another process load libperfschema-run.so, and call a function of it, in a thread made for that.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace perfschema::bindings {

// What is to be called there. `library`: the file that is loaded if the process does not have it yet.
struct CallInProcess {
  pid_t pid = 0;
  std::string library;
  std::string function;
  std::string text;           // its argument; ends with a zero that is not counted
  double seconds = 2;         // how long a safe point is looked for
  bool is_dry = false;        // look at the process, and change nothing
  bool checks_thread = true;  // false is for a test: it shows that the check is needed
};

struct CallResult {
  int rc = 0;
  double stopped_seconds = 0;  // how long the one thread stood
};

// One thread of the process is stopped for less than a millisecond at a safe point: it is inside no allocator, dynamic linker or fork. It
// gets the frame of a signal whose handler is pthread_create(). The new thread does the rest, and asks the program for nothing but what
// every thread may. So this process may die at any time: the program goes on. Calls that the thread was waiting in go on, too.
//
// Returns kNotAllowed if the process must not be touched, and kState if it had no safe point. Nothing is changed then.
Status Call(const CallInProcess& wanted, CallResult* result);

}  // namespace perfschema::bindings
