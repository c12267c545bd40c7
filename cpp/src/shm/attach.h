// shm/attach.h: the segment file of another process, or of one that is no more, mapped for reading.
//
// Whoever wrote the file is not trusted, and it may change at any time:
// - Where the file has no memory nothing is read: on tmpfs a look at a hole gives it memory. A reader would write, and on a full file
//   system be ended. So a segment that claims more than it has is read as far as there is memory, which also bounds every loop.
// - A file that is cut short while it is mapped raises SIGBUS in whoever reads on. While a segment is attached, a handler of ours puts pages of
//   zeros there instead: the read goes on to its end, and is told then (Check). What is not ours to handle goes where it would have gone.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "shm/segment.h"

namespace perfschema {

struct GuardedMapping;

// Threads: any thread, all of it. Valid until it is destroyed, which must not happen while somebody reads.
class SegmentFile {
 public:
  // A plain file, not a link to one, whose layout this library reads. Never waits (a pipe, say, is refused unopened).
  static Status Open(const std::string& path, std::unique_ptr<SegmentFile>* file);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  SegmentView view() const { return SegmentView(base_, bytes_, this); }
  const std::string& path() const { return path_; }
  // The longest run of bytes around `offset` that is known to have memory, or to have none. It holds [offset, offset + wanted) if all of
  // that has memory.
  ByteRun RunAt(uint64_t offset, uint64_t wanted) const;
  // After a read: was everything there? Once it is not, it never is again.
  Status Check() const;

  // What this reader has left out, and what it has shown as a dead or stopped writer left it.
  void CountRows(uint64_t skipped, uint64_t repaired) const {
    rows_skipped_.fetch_add(skipped, std::memory_order_relaxed);
    rows_repaired_.fetch_add(repaired, std::memory_order_relaxed);
  }
  uint64_t rows_skipped() const { return rows_skipped_.load(std::memory_order_relaxed); }
  uint64_t rows_repaired() const { return rows_repaired_.load(std::memory_order_relaxed); }

 private:
  SegmentFile() = default;
  bool IsStillOurs() const;
  Status CheckHeader() const;

  std::string path_;
  const char* base_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
  GuardedMapping* guard_ = nullptr;
  mutable std::atomic<uint64_t> rows_skipped_{0}, rows_repaired_{0};
  mutable std::mutex mutex_;
  mutable std::map<uint64_t, uint64_t> runs_;  // with memory: begin -> end; what an honest writer has once reserved stays
};

// While it lives, this thread may read a segment of another process: the handler is in force, and the signal is not blocked here.
// Threads: the thread that made it.
class ReadGuard {
 public:
  explicit ReadGuard(const SegmentFile* file);  // nullptr: one's own segment needs none
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

 private:
  bool is_set_ = false;
  sigset_t before_;
};

}  // namespace perfschema
