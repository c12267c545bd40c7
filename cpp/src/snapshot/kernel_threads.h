// snapshot/kernel_threads.h: what /proc says about the threads of a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shm/layout.h"

namespace perfschema {

// Returns the threads that a process has.
PFS_API std::vector<uint64_t> ThreadsInProc(uint64_t pid);

// Returns what a file says that a thread has in /proc, at most 4 KiB; "" if it cannot be read.
PFS_API std::string TextInProc(uint64_t pid, uint64_t tid, const char* name);

// Reads what the kernel says about the threads of a process. It may keep the files of /proc open, which halves the price of a reading.
// Threads: external lock.
class KernelThreads {
 public:
  struct Thread {
    uint64_t tid = 0;
    int stat = -1, schedstat = -1;  // descriptors
    char state = 0;                 // R, S, D ...; 0 = not known
    uint64_t computed = 0, waited = 0;
    bool has_times = false;
    uint64_t read_at = 0;                              // picoseconds since the epoch
    std::optional<uint64_t> computed_now, waited_now;  // picoseconds since the reading before; not set at the first one
  };
  KernelThreads(const ShmHeader& header, bool keeps_files);
  bool is_there() const { return is_there_; }  // the process may be asked about
  void Read(Thread* thread, bool wants_state);
  void Close(Thread* thread);
  std::vector<uint64_t> List() const { return ThreadsInProc(pid_); }
  std::string NameOf(uint64_t tid) const;

 private:
  bool ReadFile(int* fd, uint64_t tid, const char* name, char* text, size_t size);
  const uint64_t pid_;
  bool is_there_ = false;
  int64_t files_left_ = 0;  // that may be kept open
};

}  // namespace perfschema
