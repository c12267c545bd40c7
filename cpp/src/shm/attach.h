// shm/attach.h: maps the segment file of another process, running or dead, for reading.
//
// The file is compact. The reader maps its extents where the writer has them, at addresses of its own range, and maps extents that a
// running program adds when it meets them. The writer of the file is not trusted, and the file may change at any time: - A reader never
// reads where the file has no memory. On tmpfs, reading a hole gives it memory: a reader would write, and on a full file system be
// killed. A program reserves memory before it uses it. So a hole in a used range means that a tool like cp has copied the file and made
// holes of its zeros. The reader maps zeros there, up to as much as the file has memory. That also bounds every loop over a segment that
// claims more than it has. - A file that is cut short while it is mapped raises SIGBUS in a process that reads on. While a segment is
// attached, our handler puts pages of zeros there instead: the read goes on to its end, and then learns of it (Check). The handler passes
// every other signal on.
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

// Threads: all functions, any thread. It must not be destroyed while a thread reads.
class SegmentFile {
 public:
  // Opens a plain file, not a link to one, whose layout this library reads. Never waits (a pipe, say, is refused unopened).
  static Status Open(const std::string& path, std::unique_ptr<SegmentFile>* file);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  SegmentView view() const { return SegmentView(range_.base(), range_.bytes(), this); }
  const std::string& path() const { return path_; }
  // Returns the longest run of bytes around `offset` that is known to have memory, or to have none. It holds [offset, offset + wanted) if
  // all of that has memory, or had memory in the file that was copied. REQUIRES: the segment says that they are in use.
  ByteRun RunAt(uint64_t offset, uint64_t wanted) const;
  // Tells after a read whether all bytes were there. A failure stays forever.
  Status Check() const;

  // Lets go of the memory that this process has mapped. The next read maps it again: a reader of many segments needs it only once.
  PFS_API void ForgetPages() const;

  // Counts the rows that this reader has left out, and those that it has shown as a dead or stopped writer left them.
  void CountRows(uint64_t skipped, uint64_t repaired) const {
    rows_skipped_.fetch_add(skipped, std::memory_order_relaxed);
    rows_repaired_.fetch_add(repaired, std::memory_order_relaxed);
  }
  uint64_t rows_skipped() const { return rows_skipped_.load(std::memory_order_relaxed); }
  uint64_t rows_repaired() const { return rows_repaired_.load(std::memory_order_relaxed); }

 private:
  // An extent, or a part of one, as it is mapped.
  struct Piece {
    uint64_t end;  // its begin is its key
    uint64_t in_file;
    GuardedMapping* guard;
  };
  using Pieces = std::map<uint64_t, Piece>;

  SegmentFile() = default;
  bool IsStillOurs() const;
  Status CheckHeader(const ShmHeader& head, uint64_t bytes) const;
  bool MapMore() const;
  bool MapPiece(uint64_t begin, uint64_t end, uint64_t in_file) const;
  Pieces::const_iterator PieceAt(uint64_t offset) const;
  uint64_t NextPiece(uint64_t offset) const;
  ByteRun RunInPiece(uint64_t begin, const Piece& piece, uint64_t offset, uint64_t wanted) const;
  ByteRun RunInFile(uint64_t offset, uint64_t wanted) const;
  bool FillHole(uint64_t begin, const Piece& piece, uint64_t from, uint64_t to) const;
  void NoteMemory(uint64_t begin, uint64_t end) const;

  std::string path_;
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
  mutable AddressRange range_;
  uint64_t array_offset_[kArrayCount] = {};
  mutable std::atomic<uint64_t> rows_skipped_{0}, rows_repaired_{0};
  mutable std::mutex mutex_;
  mutable uint64_t array_mapped_[kArrayCount] = {};
  mutable Pieces pieces_;
  mutable std::map<uint64_t, uint64_t> runs_;  // runs of the file with memory: begin -> end; an honest writer never gives memory back
  mutable uint64_t zeros_left_ = 0, holes_left_ = 16384;  // bytes and holes that may still be mapped as zeros
};

// Lets this thread read a segment of another process while it exists: the handler is set, and the signal is not blocked here.
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
