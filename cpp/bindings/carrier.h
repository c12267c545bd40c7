// bindings/carrier.h: stops a thread of another process at a safe point. It makes that thread call pthread_create() once, or changes a
// variable while nothing runs there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "call_frames.h"
#include "other_process.h"

namespace perfschema::bindings {

// Code that holds locks which pthread_create() or dlopen() may want: the allocator, the dynamic linker, fork, exit, and parts of the C
// library beside them. A thread is inside if it runs there, or if a return address on its stack leads there. Threads: immutable.
class UnsafeCode {
 public:
  // All code of an object.
  void AddObject(const ProcessMemory& memory, const MappedObject& object);
  // Also libpthread, which was a library of its own before glibc 2.34.
  void AddCLibrary(const ProcessMemory& memory, const MappedObject& library);
  // Returns false if code could not be read, or is too much.
  bool is_complete() const { return is_complete_; }
  // Returns whether the address is in such code.
  bool Has(uint64_t address) const;
  // Returns whether it is there, behind a call.
  bool IsReturnAddress(uint64_t address) const;
  // Returns whether a thread that runs, and waits in no system call, may have a lock here: in all of the C library.
  bool IsInCLibrary(uint64_t address) const;
  // Returns whether handlers of signals return to that address.
  bool IsRestorer(uint64_t address) const;
  // Returns where they return to, or 0.
  uint64_t restorer() const { return restorers_.empty() ? 0 : restorers_[0]; }

 private:
  struct Code {
    uint64_t begin, end;
    std::string bytes;  // with those before the begin that may be a call
  };
  void Add(const ProcessMemory& memory, uint64_t begin, uint64_t end);
  std::vector<Code> codes_;
  uint64_t first_ = ~uint64_t{0}, last_ = 0;
  std::vector<MappedObject::Part> c_library_;
  std::vector<uint64_t> restorers_;
  uint64_t bytes_left_ = 64 << 20;
  bool is_complete_ = true;
};

struct Carried {
  const ProcessMemory& memory;
  const pid_t pid;
  const uint64_t create, restorer;  // pthread_create(); what returns from the handler of a signal
  const uint64_t start, argument;   // of the new thread
  const UnsafeCode& unsafe;
  CallFrames& frames;
  const bool checks_thread;
};

// Returns kState if there was no safe point in that time. `stopped`: seconds that the thread stood.
Status Carry(const Carried& carried, double seconds, double* stopped);

// Writes 1 to bytes at these places while the only thread of the process stands at a safe point. Returns false if it had several, or no
// such point in that time: nothing is changed.
bool WriteIfAlone(const Carried& carried, const std::vector<uint64_t>& places, double seconds);

}  // namespace perfschema::bindings
